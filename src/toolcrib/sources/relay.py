"""What a server says or asks while it works on a call, passed to whoever made the call."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from toolcrib.core.call import BackChannel
from toolcrib.core.errors import RemoteError, ToolcribError
from toolcrib.wire.jsonrpc import METHOD_NOT_FOUND, Outbound, RpcError, encode_error, encode_result

PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
TOOLS_CHANGED = "notifications/tools/list_changed"
CANCELLED = "notifications/cancelled"

NEEDS_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class _Progress(msgspec.Struct):
    token: int | str | None = msgspec.field(default=None, name="progressToken")


_progress = msgspec.json.Decoder(_Progress)


def params_of(message: Outbound) -> bytes:
    """The params as they came, an empty object when there are none."""
    return b"{}" if message.params is UNSET else bytes(message.params)


def progress_token(message: Outbound) -> int | str | None:
    """The token of a progress notification, if it has one."""
    try:
        return _progress.decode(params_of(message)).token
    except msgspec.DecodeError:
        return None


def can_ask(channel: BackChannel, method: str) -> bool:
    """Whether the client behind a call can be asked ``method``."""
    needed = NEEDS_CAPABILITY.get(method)
    return needed is not None and needed in channel.capabilities


async def answer_server(message: Outbound, channel: BackChannel | None) -> bytes:
    """The encoded answer to a server's own request."""
    request_id = message.id if message.id is not None else 0
    method = message.method or ""
    if method == "ping":
        return encode_result(request_id, b"{}")
    if channel is None or not can_ask(channel, method):
        return encode_error(request_id, RpcError(METHOD_NOT_FOUND, f"The client cannot answer {method!r}."))
    try:
        return encode_result(request_id, await channel.ask(method, params_of(message)))
    except RemoteError as error:
        return encode_error(request_id, RpcError(error.rpc_code, error.message, error.data))
    except ToolcribError as error:
        return encode_error(request_id, RpcError(METHOD_NOT_FOUND, str(error)))


def as_raw(result: Mapping[str, Any]) -> Raw:
    """A result object as raw bytes."""
    return Raw(msgspec.json.encode(result))
