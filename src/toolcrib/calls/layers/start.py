"""Start: a limit holds at the moment a call runs, not only when it was let in.

Between the two a call may wait for its place, for the audit log, for a server that comes back, or for a repetition.
Without this layer, what was let in over a minute of waiting would run in one moment. Approvals need no such care: they
come before the limits.
"""

from collections.abc import Awaitable, Callable

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import RateLimited
from toolcrib.core.limits import CommonLimits

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]
FRESH_S = 0.05
"""For so long a call that was let in may run without being counted anew."""
WAIT_MAX_S = 5.0
"""A call that was let in waits so long for room in its limits; if it takes longer it is refused after all."""


def start(common: CommonLimits, clock: Clock) -> Layer:
    """Count a call anew that was let in a while ago; ``clock`` is that of the limits."""

    def layer(subject: Subject, following: Step) -> Step:
        limits = subject.tool.limits
        if limits.rate is None and limits.server_rate is None and common.caller_rate is None:
            return following

        def step(call: ToolCall) -> Awaitable[ToolResult]:
            if call.renew is None or clock() - call.admitted_at <= FRESH_S:
                return following(call)
            return _renewed(call, call.renew, following)

        return step

    return layer


async def _renewed(call: ToolCall, renew: Callable[[ToolCall], Awaitable[None]], following: Step) -> ToolResult:
    await renew(call)
    return await following(call)


async def pause(call: ToolCall, refused: RateLimited, sleep: Sleep) -> None:
    """Wait until a limit has room again, unless that takes too long: then it is refused after all."""
    wait_s = float(refused.details["retry_after_s"])
    if wait_s > WAIT_MAX_S:
        raise refused
    call.waits_for = "never ran: its limits had no room for it"
    await sleep(wait_s)
    call.waits_for = ""
    call.waited_s += wait_s
