"""A call's result as people's programs get it; a large one is put together by a helper, for it has to be decoded."""

from typing import Any

import msgspec

from toolcrib.core.errors import ToolFailed
from toolcrib.core.requests import ErrorInfo, Request, Result
from toolcrib.core.view import View
from toolcrib.isolate.helpers import Helpers, TookTooLong
from toolcrib.schema.check import QUICK_BYTES

_encode = msgspec.json.Encoder(enc_hook=str).encode
CARRIED_OUT = "The call was carried out. Ask for less at once, or call the tool over MCP."
SHOW = f"{__name__}:show_beside"


class CallResult(View, omit_defaults=True, kw_only=True):
    """What came of a call that ran."""

    success: bool
    data: Any
    """The useful part: structured content if there is any, otherwise the text."""
    error: ErrorInfo | None
    content: list[dict[str, Any]]
    structured_content: Any = None
    duration_ms: float
    execution_id: str
    """Under which the log and the audit log know the call."""
    trace_id: str = ""
    """The trace it belongs to (W3C): the same in the log, the audit log, and what its server was told."""


def call_result(result: Result, ids: tuple[str, str], duration_ms: float) -> CallResult:
    """What can be seen of a result; ``ids`` are those of the call and of its trace."""
    return CallResult(
        success=result.success,
        data=result.json_data if result.success else None,
        error=result.error,
        content=[dict(block) for block in result.content],
        structured_content=result.structured,
        duration_ms=round(duration_ms, 3),
        execution_id=ids[0],
        trace_id=ids[1],
    )


def ids_of(call: Request) -> tuple[str, str]:
    """The ids that a call and its trace have in the logs."""
    return call.id, call.context.trace_id


async def encode_result(helpers: Helpers, result: Result, call: Request, duration_ms: float) -> bytes:
    """The same as JSON."""
    ids = ids_of(call)
    if result.raw is None or len(result.raw) <= QUICK_BYTES:
        return _encode(call_result(result, ids, duration_ms))
    rest = _encode((result.error, ids, duration_ms, result.has_json_text))
    try:
        return await helpers.run(SHOW, (result.raw, rest))
    except TookTooLong:
        raise ToolFailed("The result is too much work to show here.", hint=CARRIED_OUT) from None


def show_beside(raw: bytes, rest: bytes) -> bytes:
    """The same in a helper process."""
    given = msgspec.json.decode(rest, type=tuple[ErrorInfo | None, tuple[str, str], float, bool])
    error, ids, duration_ms, has_json_text = given
    result = Result(raw=raw, error=error, value=[] if has_json_text else msgspec.UNSET)
    return _encode(call_result(result, ids, duration_ms))
