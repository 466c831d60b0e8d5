"""The inbox: questions that wait for somebody to look in."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.calls.approvals import Question, Reply
from toolcrib.core.call import ToolCall

ATTENDED_S = 60.0
"""How long after it was last looked at an inbox still counts as attended."""

Clock = Callable[[], float]


@dataclass(slots=True)
class Waiting:
    """A question that nobody has answered yet."""

    question: Question
    asked_at: float
    answer: "asyncio.Future[Reply]"


class Inbox:
    """A Surface for people who come and look; reaches somebody only while one does."""

    name = "inbox"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, Waiting] = {}
        self._looked_at = float("-inf")
        self._arrived = asyncio.Event()

    def reaches(self, call: ToolCall) -> bool:
        """Whether somebody looked in lately."""
        del call
        return self._clock() - self._looked_at <= ATTENDED_S

    async def put(self, question: Question, call: ToolCall) -> Reply | None:
        """Lay the question in and wait."""
        del call
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = Waiting(question, self._clock(), answer)
        self._arrived.set()
        try:
            return await answer
        finally:
            del self._waiting[question.id]

    async def look(self, wait_s: float = 0.0) -> list[Waiting]:
        """All that waits, oldest first; if there is nothing, waits for something to arrive."""
        self._looked_at = self._clock()
        if not self._waiting and wait_s > 0:
            self._arrived.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._arrived.wait()
            except TimeoutError:
                pass
            self._looked_at = self._clock()
        return list(self._waiting.values())

    def find(self, question_id: str) -> Waiting | None:
        """The question of that id, while it waits."""
        return self._waiting.get(question_id)

    def answer(self, question_id: str, reply: Reply) -> bool:
        """Answer a question; whether it still waited."""
        waiting = self._waiting.get(question_id)
        if waiting is None or waiting.answer.done():
            return False
        waiting.answer.set_result(reply)
        return True
