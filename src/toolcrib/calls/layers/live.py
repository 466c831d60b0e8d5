"""Live: where the way of a call that people look at turns."""

from collections.abc import Awaitable

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult


def at_source() -> Layer:
    """Mark the moment a call comes to its source: what is left of it is the tool's own time."""

    def layer(subject: Subject, following: Step) -> Step:
        del subject

        def step(call: ToolCall) -> Awaitable[ToolResult]:
            if call.live is not None:
                call.live.reach_tool()
            return following(call)

        return step

    return layer
