"""Replay: after a lost connection a call is made again only when that can do no harm."""

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import ConnectionLost, OutcomeUnknown


def replay() -> Layer:
    """Once more if the request was never sent, or the tool is read-only or idempotent; otherwise say it is unknown."""

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
            call.sent = False
            try:
                return await following(call)
            except ConnectionLost as lost:
                if call.sent and not may_repeat:
                    raise _unknown(call, lost) from lost
                raise

        return step

    return layer


def _unknown(call: ToolCall, lost: ConnectionLost) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The connection was lost while {call.name} was running: {lost.message} Its outcome is unknown.",
        hint="Check whether it took effect before calling it again.",
        details=lost.details | {"outcome": "unknown"},
    )
