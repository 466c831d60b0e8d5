"""A call's result as REST shows it; a large one is put together by a helper, for it has to be decoded."""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.core.call import ErrorInfo, ToolResult
from toolcrib.core.errors import ToolFailed
from toolcrib.isolate.helpers import Helpers, TookTooLong
from toolcrib.schema.check import QUICK_BYTES

_encode = msgspec.json.Encoder(enc_hook=str).encode
CARRIED_OUT = "The call was carried out. Ask for less at once, or call the tool over MCP."
SHOW = f"{__name__}:show_beside"


async def encode_result(helpers: Helpers, result: ToolResult, more: Mapping[str, Any]) -> bytes:
    """The result with what else there is to say of the call."""
    if result.raw is None or len(result.raw) <= QUICK_BYTES:
        return _encode({**_show(result), **more})
    try:
        return await helpers.run(SHOW, (result.raw, _encode((result.error, more, result.has_json_text))))
    except TookTooLong:
        raise ToolFailed("The result is too much work to show here.", hint=CARRIED_OUT) from None


def show_beside(raw: bytes, rest: bytes) -> bytes:
    """The same in a helper process."""
    error, more, has_json_text = msgspec.json.decode(rest, type=tuple[ErrorInfo | None, dict[str, Any], bool])
    return _encode(_show(ToolResult(raw=raw, error=error, value=[] if has_json_text else msgspec.UNSET)) | more)


def _show(result: ToolResult) -> dict[str, Any]:
    shown = result.to_dict()
    if result.error is None:
        del shown["error"]
    if result.structured is not None:
        shown["structuredContent"] = result.structured
    return shown
