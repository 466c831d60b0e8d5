"""Deadline: a call that takes too long is cancelled, and says so."""

import asyncio

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import CallTimeout


def deadline(default_s: float) -> Layer:
    """The caller's own limit counts first, then the tool's, then ``default_s``."""

    def layer(subject: Subject, following: Step) -> Step:
        usual_s = subject.tool.timeout_s or default_s
        loop = asyncio.get_running_loop()

        async def step(call: ToolCall) -> ToolResult:
            timeout_s = call.timeout_s or usual_s
            alarm = _Alarm(asyncio.current_task(loop))
            timer = loop.call_later(timeout_s, alarm.ring)
            try:
                return await following(call)
            except asyncio.CancelledError:
                if not alarm.settles_cancellation():
                    raise
                raise CallTimeout(
                    f"{call.name} did not finish within {timeout_s:g} s and was cancelled.",
                    hint="Ask for less at once, or raise the timeout.",
                    details={"timeout_s": timeout_s},
                ) from None
            finally:
                timer.cancel()
                alarm.settles_cancellation()

        return step

    return layer


class _Alarm:
    """One deadline of one task. ``asyncio.timeout`` does the same at five times the cost, on every call."""

    __slots__ = ("_earlier", "_rang", "_task")

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self._task = task
        self._earlier = task.cancelling() if task is not None else 0
        self._rang = False

    def ring(self) -> None:
        """Cancel the task that runs the call."""
        if self._task is not None:
            self._rang = True
            self._task.cancel()

    def settles_cancellation(self) -> bool:
        """Take our own cancellation back, once; whether it was the only one: one from outside as well goes on."""
        if not self._rang or self._task is None:
            return False
        self._rang = False
        return self._task.uncancel() <= self._earlier
