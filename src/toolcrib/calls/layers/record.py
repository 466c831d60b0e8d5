"""Record: name, duration and outcome of every call; a warning for slow ones."""

from collections.abc import Callable

from toolcrib.calls.metrics import Metrics, ToolMetrics
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core import events
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import CallEnded, CallerError, CallTimeout, ToolcribError
from toolcrib.core.events import Emit, Event

Clock = Callable[[], float]


def record(metrics: Metrics, emit: Emit, clock: Clock, slow_s: float) -> Layer:
    """Count each call and tell of it; argument values are never told."""

    def layer(subject: Subject, following: Step) -> Step:
        tally = metrics.of(subject.name)
        is_heard = emit is not events.drop

        async def step(call: ToolCall) -> ToolResult:
            started = clock()
            metrics.in_flight += 1
            try:
                result = await following(call)
            except BaseException as error:
                metrics.in_flight -= 1
                elapsed_s = clock() - started
                _count_raised(tally, elapsed_s, error)
                emit(_finished(call, elapsed_s, code_of(error)))
                if elapsed_s > slow_s:
                    emit(_slow(call, elapsed_s))
                raise
            metrics.in_flight -= 1
            elapsed_s = clock() - started
            if result.error is None:
                tally.note(elapsed_s, failed=False)
            else:
                tally.note_failed(elapsed_s, result.error.code, result.error.message)
            if is_heard:
                emit(_finished(call, elapsed_s, result.error.code if result.error else ""))
            if elapsed_s > slow_s:
                emit(_slow(call, elapsed_s))
            return result

        return step

    return layer


def _count_raised(tally: ToolMetrics, elapsed_s: float, error: BaseException) -> None:
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


def _finished(call: ToolCall, elapsed_s: float, code: str) -> Event:
    level = "warning" if code else "debug"
    return Event(
        events.CALL_FINISHED,
        level,
        {"tool": call.name, "id": call.id, "caller": call.caller.id, "seconds": elapsed_s, "code": code},
    )


def _slow(call: ToolCall, elapsed_s: float) -> Event:
    return Event(events.CALL_SLOW, "warning", {"tool": call.name, "id": call.id, "seconds": round(elapsed_s, 3)})
