"""The client side of MCP as values: what toolcrib asks a server, ready encoded."""

from collections.abc import Mapping
from typing import Any

from toolcrib.core.errors import InvalidArguments
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import encode


def initialize_params(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> bytes:
    """Params of the handshake's first request; offers the newest handshake revision."""
    return encode({"protocolVersion": eras.LATEST_HANDSHAKE, "capabilities": capabilities, "clientInfo": info})


def modern_meta(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """What every stateless request carries in ``_meta``."""
    return {
        eras.META_VERSION: eras.LATEST_MODERN,
        eras.META_CLIENT_INFO: info,
        eras.META_CLIENT_CAPABILITIES: capabilities,
    }


def list_params(cursor: str | None, meta: Mapping[str, Any] | None) -> bytes:
    """Params of ``tools/list`` for one page."""
    params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
    if meta is not None:
        params["_meta"] = meta
    return encode(params)


def plain_call_params(name: str, arguments: Mapping[str, Any], meta: bytes) -> bytes:
    """Params of ``tools/call`` with a ``_meta`` that is already encoded, empty for none."""
    written = _write(name, arguments)
    end = b',"_meta":%b}' % meta if meta else b"}"
    return b"".join((b'{"name":', encode(name), b',"arguments":', written, end))


def call_params(
    name: str, arguments: Mapping[str, Any], more: Mapping[str, Any], meta: Mapping[str, Any] | None
) -> bytes:
    """Params of ``tools/call``; re-encoded, so that nothing ambiguous in the caller's bytes is passed on."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if more:
        params.update(more)
    if meta:
        params["_meta"] = meta
    return _write(name, params)


def _write(name: str, value: Mapping[str, Any]) -> bytes:
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArguments(f"The arguments of {name!r} cannot be written as JSON: {error}.") from None
