"""The inbox: questions that wait for somebody to look in."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from toolcrib.calls.approvals import ApprovalAnswer, ApprovalQuestion, ApprovalReply
from toolcrib.core.access import Caller, may_approve
from toolcrib.core.requests import Request

VIEWERS_KEPT = 256
ATTENDED_S = 60.0
"""How long after it was last looked at an inbox still counts as attended."""

Clock = Callable[[], float]
Content = Mapping[str, Any] | None
AnswerElsewhere = Callable[[str, ApprovalReply, Caller, Content], Awaitable[bool]]
Listener = Callable[[ApprovalQuestion, str], None]
"""Told of a question and what became of it: ``waiting``, ``answered`` or ``withdrawn``."""


@dataclass(slots=True)
class Waiting:
    """A question that nobody has answered yet."""

    question: ApprovalQuestion
    asked_at: float
    answer: "asyncio.Future[ApprovalAnswer] | None" = None
    """``None`` for a question of a call that waits at another replica."""


class Inbox:
    """A Surface for people who poll for questions; counts as reachable while one polls."""

    name = "inbox"
    takes_forms = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, Waiting] = {}
        self._viewers: dict[Caller, float] = {}
        """Who polled, and when last."""
        self._arrived = asyncio.Event()
        self._listeners: tuple[Listener, ...] = ()
        self.elsewhere: AnswerElsewhere | None = None
        """How a question is answered whose call waits at another replica."""
        self.on_attend: Callable[[Caller], None] | None = None
        """Called for each caller that polls here."""

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Have ``listener`` told of what comes and goes, until what is returned is called."""
        self._listeners = (*self._listeners, listener)

        def forget() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return forget

    def _tell(self, question: ApprovalQuestion, state: str) -> None:
        for listener in self._listeners:
            listener(question, state)

    def reaches(self, call: Request) -> bool:
        """Whether a caller who may answer for this one polled lately."""
        oldest = self._clock() - ATTENDED_S
        return any(at >= oldest and may_approve(viewer, call.caller.id) for viewer, at in self._viewers.items())

    async def put(self, question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
        """Lay the question in and wait."""
        del call
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = Waiting(question, self._clock(), answer)
        self._arrived.set()
        try:
            self._tell(question, "waiting")
            return await answer
        finally:
            del self._waiting[question.id]
            self._tell(question, "withdrawn" if answer.cancelled() else "answered")

    async def look(self, viewer: Caller, wait_s: float = 0.0) -> list[Waiting]:
        """All that waits and this viewer may answer, oldest first; if there is nothing, waits for it to arrive."""
        self.attend(viewer)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not self.open_to(viewer):
                    self._arrived.clear()
                    await self._arrived.wait()
                    self.attend(viewer)
        self.attend(viewer)
        return self.open_to(viewer)

    def attend(self, viewer: Caller) -> None:
        """Note that this caller polls and will see new questions."""
        self.note_viewer(viewer)
        if self.on_attend is not None:
            self.on_attend(viewer)

    def note_viewer(self, viewer: Caller, ago_s: float = 0.0) -> None:
        """A caller polled, here or at another replica."""
        if len(self._viewers) >= VIEWERS_KEPT and viewer not in self._viewers:
            self._viewers.pop(next(iter(self._viewers)))
        self._viewers[viewer] = max(self._viewers.get(viewer, 0.0), self._clock() - ago_s)

    # Questions of calls that wait at other replicas

    def lay_in(self, question: ApprovalQuestion, waited_s: float) -> None:
        """Show a question of another replica."""
        is_new = question.id not in self._waiting
        self._waiting[question.id] = Waiting(question, self._clock() - waited_s)
        if is_new:
            self._arrived.set()
            self._tell(question, "waiting")

    def take_out(self, question_id: str, state: str) -> None:
        """Another replica's question waits no longer."""
        waiting = self._waiting.get(question_id)
        if waiting is not None and waiting.answer is None:
            del self._waiting[question_id]
            self._tell(waiting.question, state)

    def own(self) -> list[Waiting]:
        """The questions of calls that wait here."""
        return [waiting for waiting in self._waiting.values() if waiting.answer is not None]

    async def answer_anywhere(
        self, question_id: str, reply: ApprovalReply, by: Caller, content: Content = None
    ) -> bool:
        """Answer a question, wherever its call waits; whether it still waited."""
        waiting = self._waiting.get(question_id)
        if waiting is not None and waiting.answer is None and self.elsewhere is not None:
            return await self.elsewhere(question_id, reply, by, content)
        return self.answer(question_id, reply, by, content)

    def open_to(self, viewer: Caller) -> list[Waiting]:
        """All that waits and this viewer may answer; asking does not count as looking in."""
        return [entry for entry in self._waiting.values() if may_approve(viewer, entry.question.caller)]

    def find(self, question_id: str) -> Waiting | None:
        """The question of that id, while it waits."""
        return self._waiting.get(question_id)

    def answer(self, question_id: str, reply: ApprovalReply, by: Caller, content: Content = None) -> bool:
        """Answer a question; whether it still waited. Whether this caller may answer it is for the door to ask."""
        waiting = self._waiting.get(question_id)
        if waiting is None or waiting.answer is None or waiting.answer.done():
            return False
        waiting.answer.set_result(ApprovalAnswer(reply, by.id, content))
        return True
