"""What clients of either era are shown of results and errors, and what a request is to whoever answers it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.core.access import Caller
from toolcrib.core.requests import BackChannel, ErrorInfo, Result
from toolcrib.wire.jsonrpc import INVALID_PARAMS, RpcError, encode
from toolcrib.wire.messages import Asker
from toolcrib.wire.results import stamp_modern, without_type
from toolcrib.wire.tasks import show_created


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that is no call, with whoever made it."""

    method: str
    params: Mapping[str, Any]
    asker: Asker
    channel: BackChannel
    caller: Caller


Method = Callable[[Asked], Awaitable[bytes]]


def encode_outcome(result: Result, asker: Asker) -> bytes:
    """A result as the client's era wants it; a server's own JSON-RPC error stays one."""
    if result.task is not None:
        return show_created(result.task, modern=asker.is_modern)
    raw = encode_shown(result)
    kind = result.result_type
    if asker.is_modern:
        return stamp_modern(raw, kind)
    return raw if kind == "" else without_type(raw, kind)  # most have none: a call less


def encode_shown(result: Result) -> bytes:
    """The result itself, without what an era adds to it."""
    if result.error is not None:
        raise_rpc(result.error)
    raw = result.raw
    if raw is None:
        shown = result.mcp if result.error is None else {**result.mcp, "_meta": {"toolcrib/error": told(result.error)}}
        raw = encode(shown)
    return raw


def raise_rpc(error: ErrorInfo) -> None:
    """Raise what is an error of the protocol, and no failure of a tool."""
    rpc_code = error.details.get("rpc_code")
    if rpc_code is not None:
        raise RpcError(rpc_code, error.message, error.details.get("data"))
    if "unknown" in error.details:  # what a tool could not find is its answer, for the model
        raise RpcError(INVALID_PARAMS, error.message, {"code": error.code, **error.details})


def told(error: ErrorInfo) -> dict[str, Any]:
    """What programs are told of an error besides its message."""
    return {"code": error.code, "retryable": error.retryable, "details": dict(error.details)}


NOT_FOUND = -32002
"""What the handshake era answers for a resource that is not there; the stateless one says ``INVALID_PARAMS``."""


def as_not_found(error: RpcError, uri: str, asker: Asker) -> RpcError:
    """The error of a read as the client's era knows it, with the URI that the client asked for."""
    is_told = isinstance(error.data, Mapping) and ("uri" in error.data or error.data.get("code") == "TOOL_NOT_FOUND")
    if error.code != NOT_FOUND and not (error.code == INVALID_PARAMS and is_told):
        return error
    if error.code == NOT_FOUND and error.data is None and not asker.is_modern:
        return error  # as its server says it
    data = {**error.data, "uri": uri} if isinstance(error.data, Mapping) else {"uri": uri}
    return RpcError(INVALID_PARAMS if asker.is_modern else NOT_FOUND, error.message, data)
