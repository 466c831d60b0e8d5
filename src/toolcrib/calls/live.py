"""Live calls: those that run right now and the last that ended, for people who look on and may end one.

It is written for every call: nothing is turned into words or plain data before somebody asks for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcrib.core.access import Caller
from toolcrib.core.errors import CallEnded, InvalidArguments, ToolcribError
from toolcrib.core.requests import Request
from toolcrib.core.view import View
from toolcrib.schema.text import clean_text

MESSAGE_MAX = 300
CLEANED_MAX = 2_000
SUCCESS = "success"
CANCELLED = "TOOL_CANCELLED"
TOOL = "tool"
GAVE_UP = "The caller gave up."
UNFIT = "The arguments did not fit the tool's input schema."
"""Shown instead of what is wrong with them: that may quote them, and is for their sender alone."""

Listener = Callable[["LiveCall"], None]
About = tuple[str, str]
"""The server and the level of a tool."""


@dataclass(slots=True)
class CallStepTime:
    """What a call did, or waited for, between two moments; milliseconds since it began."""

    name: str
    start_ms: float
    end_ms: float | None = None

    def view(self) -> "CallStep":
        """What can be seen of it."""
        return CallStep(self.name, round(self.start_ms, 3), None if self.end_ms is None else round(self.end_ms, 3))


class CallStep(View):
    """What a call did, or waited for."""

    name: str
    start_ms: float
    end_ms: float | None


class CallEntry(View):
    """One call, running or finished; of its arguments only names and kinds."""

    id: str
    tool: str
    server: str
    level: str
    caller: str
    caller_kind: str
    session: str
    trace_id: str
    began_at: float
    ended_at: float | None
    duration_ms: float | None
    outcome: str
    """Empty while it runs, then ``success`` or the code of what went wrong."""
    message: str
    arguments: dict[str, str]
    steps: list[CallStep]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.ended_at is None


class LiveCall(msgspec.Struct, eq=False, gc=False):
    """One call, running or finished: who, what and how long, and of the arguments only what they look like."""

    id: str
    tool: str
    trace_id: str
    arguments: Mapping[str, str]
    """Names and kinds, never values."""
    task: "asyncio.Task[Any] | None"
    """What runs it, while it runs."""
    began_at: float
    """Seconds since 1970."""
    _about: About
    _caller: Caller
    _calls: "Live"
    _began: float
    _ended: float | None = None
    outcome: str = ""
    """Empty while it runs, ``success``, or the code of what went wrong."""
    message: str = ""
    """What went wrong, in a few words that may be shown."""
    _waits: list[CallStepTime] | None = None
    _tool_at: float | None = None

    @property
    def server(self) -> str:
        """Whose tool it is."""
        return self._about[0]

    @property
    def level(self) -> str:
        """The security level of the tool."""
        return self._about[1]

    @property
    def caller(self) -> str:
        """Who called."""
        return self._caller.id

    @property
    def caller_kind(self) -> str:
        """What kind of caller that is."""
        return self._caller.kind

    @property
    def session(self) -> str:
        """The stay of the caller it belongs to."""
        return self._caller.session

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._ended is None

    @property
    def ended_at(self) -> float | None:
        """Seconds since 1970; ``None`` while it runs."""
        return None if self._ended is None else self.began_at + self._ended - self._began

    @property
    def steps(self) -> list[CallStepTime]:
        """What took its time, in order: waiting for a person or for a place, and the tool itself."""
        if self._tool_at is None:
            return list(self._waits or ())
        end_ms = None if self._ended is None else self._ms(self._ended)
        return [*(self._waits or ()), CallStepTime(TOOL, self._ms(self._tool_at), end_ms)]

    def _ms(self, at: float) -> float:
        return (at - self._began) * 1000

    def reach_tool(self) -> None:
        """It comes to its source; news only if it has waited before."""
        self._tool_at = self._calls.clock()
        if self._waits is not None:
            self._calls.tell(self)

    def begin(self, step: str) -> None:
        """It waits for something."""
        if self._waits is None:
            self._waits = []
        self._waits.append(CallStepTime(step, self._ms(self._calls.clock())))
        self._calls.tell(self)

    def end(self, step: str) -> None:
        """It waits no longer."""
        for wait in self._waits or ():
            if wait.name == step and wait.end_ms is None:
                wait.end_ms = self._ms(self._calls.clock())
                self._calls.tell(self)

    def end_waits(self, at: float) -> None:
        """Whatever it waited for when it ended is over, too."""
        for wait in self._waits or ():
            wait.end_ms = self._ms(at) if wait.end_ms is None else wait.end_ms

    def view(self) -> CallEntry:
        """What can be seen of it."""
        return CallEntry(
            id=self.id,
            tool=self.tool,
            server=self.server,
            level=self.level,
            caller=self.caller,
            caller_kind=self.caller_kind,
            session=self.session,
            trace_id=self.trace_id,
            began_at=self.began_at,
            ended_at=self.ended_at,
            duration_ms=None if self._ended is None else round(self._ms(self._ended), 3),
            outcome=self.outcome,
            message=self.message,
            arguments=dict(self.arguments),
            steps=[step.view() for step in self.steps],
        )


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
        self._struck: set[LiveCall] = set()
        """Those a person has ended and that do not know it yet."""
        self._listeners: tuple[Listener, ...] = ()
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where all calls run; asked for once, because that is slow."""
        self.begun = 0
        """How many calls there were so far."""

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
        """Cancel a running call, for ``TOOL_CANCELLED``; false if it has ended, or is being cancelled by its caller."""
        found = self._running.get(call_id)
        if found is not None and found in self._struck:
            return True
        if found is None or found.task is None or found.task.cancelling():
            return False
        found.task.get_loop().call_soon(self._strike, found)  # not now: it may be the very task that asks for it
        return True

    def _strike(self, entry: LiveCall) -> None:
        if entry.task is not None and not entry.task.cancelling():
            self._struck.add(entry)
            entry.task.cancel()

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Have ``listener`` told when a call begins, moves on or ends, until what is returned is called."""
        self._listeners = (*self._listeners, listener)

        def forget() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return forget

    # For the layers

    def open(self, call: Request, about: About, shape: Mapping[str, str], began: float) -> LiveCall:
        """A call begins, in the task that is running now."""
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        self.begun += 1
        context = call.context
        context.task = task = asyncio.current_task(self.loop)
        entry = self._running[call.id] = LiveCall(
            call.id,
            call.name,
            context.trace_id,
            shape,
            task,
            self.wall(),
            about,
            call.caller,
            self,
            began,
        )
        if self._listeners:
            self.tell(entry)
        return entry

    def settles_cancellation(self, entry: LiveCall) -> bool:
        """Take a person's cancellation back, once; whether it was the only one: one from outside as well goes on."""
        if entry not in self._struck or entry.task is None:
            return False
        self._struck.discard(entry)
        return entry.task.uncancel() == 0

    def close(self, entry: LiveCall, ended: float, outcome: str, message: str = "") -> None:
        """It has ended."""
        if self._struck:  # perhaps in the very moment it was to be cancelled
            self.settles_cancellation(entry)
        entry._ended = ended
        entry.outcome, entry.task = outcome, None
        if entry._waits is not None:
            entry.end_waits(ended)
        if message:
            entry.message = shown(self._hide(message))
        del self._running[entry.id]
        self._ended.append(entry)
        if self._listeners:
            self.tell(entry)

    def note(self, call: Request, name: str, error: ToolcribError, shape: Mapping[str, str]) -> None:
        """A call that never came to the layers; ``name`` is what it asked for, safe to show."""
        now = self.clock()
        entry = self.open(msgspec.structs.replace(call, name=name), ("", ""), shape, now)
        self.close(entry, now, error.code, message_of(error))

    def tell(self, entry: LiveCall) -> None:
        """Let the listeners know."""
        for listener in self._listeners:
            listener(entry)


def ended_by_person(name: str) -> CallEnded:
    """What the caller of a call is told that a person ended."""
    return CallEnded(f"A person ended this call of {name}.", hint="Do not try it again unasked.")


def message_of(error: BaseException) -> str:
    """What may be shown of an error."""
    if isinstance(error, InvalidArguments):
        return UNFIT
    if isinstance(error, ToolcribError):
        return error.message
    return type(error).__name__


def shown(text: str) -> str:
    """One short line without anything that is not seen."""
    return " ".join(clean_text(text[:CLEANED_MAX]).split())[:MESSAGE_MAX]


def _newest(calls: Iterable[LiveCall], limit: int) -> list[LiveCall]:
    return sorted(calls, key=lambda call: call._began)[::-1][: max(limit, 0)]
