"""Shelter: a tool of a security level that must be isolated runs only where that is proven."""

from collections.abc import Awaitable, Callable, Mapping

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import PermissionDenied
from toolcrib.isolate.levels import IsolationLevel, shortfall

IsolationOf = Callable[[Subject], Awaitable[IsolationLevel | None]]
"""What a tool runs at; ``None`` for one that does not run on this machine."""


def shelter(minimum: Mapping[str, str], isolation_of: IsolationOf) -> Layer:
    """Refuse what would run with less isolation than its level needs."""

    def layer(subject: Subject, following: Step) -> Step:
        level = subject.tool.security_level
        if level not in minimum:
            return following

        async def step(call: ToolCall) -> ToolResult:
            has = await isolation_of(subject)
            lack = "" if has is None else shortfall(level, has, minimum)
            if lack:
                call.decision = "refused: not isolated"
                raise PermissionDenied(f"{call.name} was not run. {lack}")
            return await following(call)

        return step

    return layer
