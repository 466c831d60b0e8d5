"""Layers around a source: one signature for what flows, one visible list for the order."""

from collections.abc import Awaitable, Callable, Sequence

from toolcrib.core.access import NATIVE, Reach
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.tool import Tool

Step = Callable[[ToolCall], Awaitable[ToolResult]]
"""What is called is awaited at once: a step that has nothing to do afterwards returns what the next one returns."""


class Subject:
    """The tool a chain of layers is built for: its definition and the name it is exposed under."""

    __slots__ = ("name", "reach", "renew", "server", "tool")

    def __init__(
        self,
        name: str,
        server: str,
        tool: Tool,
        reach: Reach | None = None,
        renew: Callable[[], None] | None = None,
    ) -> None:
        self.name, self.server, self.tool = name, server, tool
        self.reach = reach or Reach(name, server or NATIVE, tool.security_level, tool.capabilities)
        self.renew = renew
        """Has its server asked for its tools again, in the background, if the last answer is too old."""


Layer = Callable[[Subject, Step], Step]
"""Given a tool and the next step, the step to take instead; the next step itself when there is nothing to do."""


def compose(layers: Sequence[Layer], subject: Subject, source: Step) -> Step:
    """Wrap ``source`` for one tool, once; the first layer listed sees each call first."""
    step = source
    for layer in reversed(layers):
        step = layer(subject, step)
    return step
