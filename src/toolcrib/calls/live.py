"""Live calls: those that run right now and the last that ended, for people who look on and may end one.

It is written for every call: nothing is turned into words or plain data before somebody asks for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.core.call import ToolCall
from toolcrib.core.errors import CallEnded, InvalidArguments, ToolcribError
from toolcrib.schema.text import clean_text

MESSAGE_MAX = 300
CLEANED_MAX = 2_000
SUCCESS = "success"
CANCELLED = "TOOL_CANCELLED"
TOOL = "tool"

Listener = Callable[["LiveCall"], None]


@dataclass(slots=True)
class Step:
    """What a call did, or waited for, between two moments; milliseconds since it began."""

    name: str
    start_ms: float
    end_ms: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The step as plain data."""
        end_ms = None if self.end_ms is None else round(self.end_ms, 3)
        return {"name": self.name, "startMs": round(self.start_ms, 3), "endMs": end_ms}


@dataclass(slots=True)
class LiveCall:
    """One call, running or finished: who, what and how long, and of the arguments only what they look like."""

    id: str
    tool: str
    server: str
    level: str
    caller: str
    caller_kind: str
    session: str
    trace_id: str
    began_at: float
    """Seconds since 1970."""
    ended_at: float | None
    outcome: str
    """Empty while it runs, ``success``, or the code of what went wrong."""
    message: str
    """What went wrong, short and safe to show."""
    arguments: Mapping[str, str]
    """Names and kinds, never values."""
    steps: list[Step]
    """In order; a new step ends the one before it."""
    _calls: "Live" = field(init=False, repr=False, compare=False)
    _began: float = field(init=False, repr=False, compare=False)
    _task: "asyncio.Task[Any] | None" = field(init=False, repr=False, compare=False)
    _earlier: int = field(init=False, repr=False, compare=False)
    _struck: bool = field(init=False, repr=False, compare=False)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.ended_at is None

    def begin(self, step: str) -> None:
        """It goes on with this; that it simply starts with the tool is no news."""
        steps, at_ms = self.steps, (self._calls.clock() - self._began) * 1000
        if not steps and step == TOOL:
            steps.append(Step(step, at_ms))
            return
        if steps and steps[-1].end_ms is None:
            steps[-1].end_ms = at_ms
        steps.append(Step(step, at_ms))
        self._calls.tell(self)

    def end(self, step: str) -> None:
        """That is over."""
        last = self.steps[-1] if self.steps else None
        if last is not None and last.name == step and last.end_ms is None:
            last.end_ms = (self._calls.clock() - self._began) * 1000
            self._calls.tell(self)

    def to_dict(self) -> dict[str, Any]:
        """The call as plain data."""
        return {
            "id": self.id,
            "tool": self.tool,
            "server": self.server,
            "level": self.level,
            "caller": self.caller,
            "callerKind": self.caller_kind,
            "session": self.session,
            "traceId": self.trace_id,
            "beganAt": self.began_at,
            "endedAt": self.ended_at,
            "durationMs": None if self.ended_at is None else round((self.ended_at - self.began_at) * 1000, 3),
            "outcome": self.outcome,
            "message": self.message,
            "arguments": dict(self.arguments),
            "steps": [step.to_dict() for step in self.steps],
        }

    def strike(self) -> None:
        """Cancel the task that runs the call, unless it is over by now."""
        if self.ended_at is None and not self._struck and self._task is not None:
            self._struck = True
            self._task.cancel()

    def settles_cancellation(self) -> bool:
        """Take a person's cancellation back, once; whether it was the only one: one from outside as well goes on."""
        if not self._struck or self._task is None:
            return False
        self._struck = False
        return self._task.uncancel() <= self._earlier


class Live:
    """The calls that run, and the last that ended."""

    def __init__(
        self,
        wall: Callable[[], float],
        clock: Callable[[], float],
        keep: int = 500,
        hide: Callable[[str], str] = str,
    ) -> None:
        self.wall, self.clock = wall, clock
        self._hide = hide
        """Takes the secrets out of messages."""
        self._running: dict[str, LiveCall] = {}
        self._ended: deque[LiveCall] = deque(maxlen=keep)
        self._listeners: tuple[Listener, ...] = ()

    # For those who look on

    def running(self) -> list[LiveCall]:
        """The calls under way, oldest first."""
        return list(self._running.values())

    def recent(self, limit: int = 100) -> list[LiveCall]:
        """The calls under way and the last that ended, newest first."""
        return _newest((*self._ended, *self._running.values()), limit)

    def of_tool(self, name: str, limit: int = 20) -> list[LiveCall]:
        """The same of one tool."""
        return _newest((call for call in (*self._ended, *self._running.values()) if call.tool == name), limit)

    def find(self, call_id: str) -> LiveCall | None:
        """The call of that id, while it is remembered."""
        found = self._running.get(call_id)
        return found or next((call for call in reversed(self._ended) if call.id == call_id), None)

    def cancel(self, call_id: str) -> bool:
        """End a call; whether it still ran. Its caller is told that a person ended it."""
        found = self._running.get(call_id)
        if found is None or found._task is None:
            return False
        found._task.get_loop().call_soon(found.strike)  # not now: it may be the very task that asks for it
        return True

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Have ``listener`` told when a call begins, moves on or ends, until what is returned is called."""
        self._listeners = (*self._listeners, listener)

        def forget() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return forget

    # For the layers

    def open(self, call: ToolCall, server: str, level: str, shape: Mapping[str, str]) -> LiveCall:
        """A call begins, in the task that is running now."""
        caller, task = call.caller, asyncio.current_task()
        entry = LiveCall(
            call.id,
            call.name,
            server,
            level,
            caller.id,
            caller.kind,
            caller.session,
            call.trace_id,
            self.wall(),
            None,
            "",
            "",
            shape,
            [],
        )
        entry._calls = self
        entry._task = task
        entry._earlier = task.cancelling() if task is not None else 0
        entry._struck = False
        entry._began = self.clock()
        self._running[entry.id] = entry
        if self._listeners:
            self.tell(entry)
        return entry

    def close(self, entry: LiveCall, outcome: str = SUCCESS, message: str = "") -> None:
        """It has ended."""
        elapsed_s = self.clock() - entry._began
        entry.ended_at, entry.outcome = entry.began_at + elapsed_s, outcome
        steps = entry.steps
        if steps and steps[-1].end_ms is None:
            steps[-1].end_ms = elapsed_s * 1000
        if entry._struck:  # it ended otherwise, in the very moment
            entry.settles_cancellation()
        entry._task = None
        if message:
            entry.message = shown(self._hide(message))
        self._running.pop(entry.id, None)
        self._ended.append(entry)
        if self._listeners:
            self.tell(entry)

    def note(self, call: ToolCall, name: str, error: ToolcribError, shape: Mapping[str, str]) -> None:
        """A call that never came to the layers; ``name`` is what it asked for, safe to show."""
        entry = self.open(call, "", "", shape)
        entry.tool = name
        self.close(entry, error.code, message_of(error))

    def tell(self, entry: LiveCall) -> None:
        """Let the listeners know."""
        for listener in self._listeners:
            listener(entry)


def ended_by_person(name: str) -> CallEnded:
    """What the caller of a call is told that a person ended."""
    return CallEnded(f"A person ended this call of {name}.", hint="Do not try it again unasked.")


def message_of(error: BaseException) -> str:
    """What may be shown of an error: not what it says of arguments, which is for their sender alone."""
    if isinstance(error, InvalidArguments):
        return "The arguments did not fit the tool's input schema."
    if isinstance(error, ToolcribError):
        return error.message
    return type(error).__name__


def shown(text: str) -> str:
    """One short line without anything that is not seen."""
    return " ".join(clean_text(text[:CLEANED_MAX]).split())[:MESSAGE_MAX]


def _newest(calls: Iterable[LiveCall], limit: int) -> list[LiveCall]:
    return sorted(calls, key=lambda call: call._began, reverse=True)[: max(limit, 0)]
