"""A call that needs answers on the way, for clients of the handshake era: ask them, then call again."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.core.call import ToolCall
from toolcrib.core.errors import NotImplementedHere, ProtocolError
from toolcrib.sources.relay import can_ask
from toolcrib.wire.results import read_head

ROUNDS_MAX = 10

Retry = Callable[[Mapping[str, Any]], Awaitable[Raw]]


async def answer_rounds(call: ToolCall, raw: Raw, retry: Retry) -> Raw:
    """The final result of a call whose server asks back, at most ten times."""
    for _ in range(ROUNDS_MAX):
        raw = await retry(await _answers(call, _read(call, raw)))
        if read_head(raw).result_type != "input_required":
            return raw
    raise ProtocolError(f"The server of {call.name} asked back more than {ROUNDS_MAX} times.")


class _Request(msgspec.Struct):
    method: str = ""
    params: dict[str, Any] | None = None


class _Required(msgspec.Struct):
    requests: dict[str, _Request] | None = msgspec.field(default=None, name="inputRequests")
    state: Any = msgspec.field(default=None, name="requestState")


_required = msgspec.json.Decoder(_Required)


def _read(call: ToolCall, raw: Raw) -> _Required:
    try:
        return _required.decode(raw)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"The server of {call.name} asks back in a way that cannot be read: {error}.") from None


async def _answers(call: ToolCall, required: _Required) -> dict[str, Any]:
    more: dict[str, Any] = {**call.more}
    if required.requests:
        more["inputResponses"] = {key: await _answer(call, request) for key, request in required.requests.items()}
    if required.state is not None:
        more["requestState"] = required.state
    return more


async def _answer(call: ToolCall, request: _Request) -> Any:
    method = request.method
    if not can_ask(call.channel, method):
        raise NotImplementedHere(
            f"{call.name} needs an answer from the client ({method}), and this client cannot give one.",
            hint="Use a client that supports it.",
        )
    return msgspec.json.decode(await call.channel.ask(method, msgspec.json.encode(request.params or {})))
