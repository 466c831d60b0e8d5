"""Record: what is counted and told of a call; argument values are never told."""

from toolcrib.calls.metrics import ToolMetrics
from toolcrib.core import events
from toolcrib.core.call import ToolCall
from toolcrib.core.errors import CallEnded, CallerError, CallTimeout, ToolcribError
from toolcrib.core.events import Event


def count_raised(tally: ToolMetrics, elapsed_s: float, error: BaseException) -> None:
    """What the caller did wrong, or somebody gave up, is no failure of the tool."""
    if isinstance(error, CallerError | CallEnded) or not isinstance(error, Exception):
        tally.note_refused(code_of(error))
        return
    tally.note_failed(elapsed_s, code_of(error), str(error) or type(error).__name__)
    if isinstance(error, CallTimeout):
        tally.timed_out += 1


def code_of(error: BaseException) -> str:
    """The code of whatever ended a call."""
    if isinstance(error, ToolcribError):
        return error.code
    return "TOOL_INTERNAL" if isinstance(error, Exception) else "TOOL_CANCELLED"


def finished(call: ToolCall, elapsed_s: float, code: str) -> Event:
    """A call has ended, with an error if there is a code."""
    level = "warning" if code else "debug"
    return Event(
        events.CALL_FINISHED,
        level,
        {"tool": call.name, "id": call.id, "caller": call.caller.id, "seconds": elapsed_s, "code": code},
    )


def slow(call: ToolCall, elapsed_s: float) -> Event:
    """A call has taken long."""
    return Event(events.CALL_SLOW, "warning", {"tool": call.name, "id": call.id, "seconds": round(elapsed_s, 3)})
