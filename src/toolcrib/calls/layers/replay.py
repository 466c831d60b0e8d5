"""Replay: after a lost connection a call is made again only when that can do no harm."""

import asyncio
from collections.abc import Awaitable, Callable

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import ConnectionLost, OutcomeUnknown

Sleep = Callable[[float], Awaitable[object]]
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 4.0


def replay(sleep: Sleep = asyncio.sleep) -> Layer:
    """Again, until its time is over, if the request was never sent or the tool is read-only or idempotent; otherwise
    say that the outcome is unknown."""

    def layer(subject: Subject, following: Step) -> Step:
        if not subject.server:
            return following
        may_repeat = subject.tool.is_replayable

        async def step(call: ToolCall) -> ToolResult:
            try:
                return await following(call)
            except ConnectionLost as lost:
                if call.sent and not may_repeat:
                    raise _unknown(call, lost) from lost
            return await _repeat(call)

        async def _repeat(call: ToolCall) -> ToolResult:
            """At once at first, then with pauses: a call that is the end of every server it meets does not get many."""
            pause_s = 0.0
            while True:
                call.sent = False
                try:
                    return await following(call)
                except ConnectionLost as lost:
                    if call.sent and not may_repeat:
                        raise _unknown(call, lost) from lost
                    call.waits_for = f"got no answer: {lost.message.rstrip('.')}, again and again, and no answer came"
                pause_s = min(PAUSE_MAX_S, max(PAUSE_FIRST_S, pause_s * 2))
                await sleep(pause_s)
                call.waits_for = ""

        return step

    return layer


def _unknown(call: ToolCall, lost: ConnectionLost) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The connection was lost while {call.name} was running: {lost.message} Its outcome is unknown.",
        hint="Check whether it took effect before calling it again.",
        details=lost.details | {"outcome": "unknown"},
    )
