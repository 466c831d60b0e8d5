"""One inbox over all replicas: who looks in at one of them sees and answers the questions of all.

The replica where a call waits decides which answer came first, and tells the others when its question is settled.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from toolcrib.calls.approvals import ApprovalQuestion, ApprovalReply
from toolcrib.calls.inbox import Content, Inbox, Waiting
from toolcrib.core.access import APPROVE, Caller, CallerKind, Grants, may_approve
from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.tasks import OnFailure, TaskScope
from toolcrib.core.topic import Topic

TOPIC = "inbox"
BEAT_S = 10.0
"""How often questions that still wait are told again; a replica that died tells nothing any more."""
SILENT_S = 35.0
VIEWER_EVERY_S = 15.0
CONFIRM_S = 5.0

_APPROVER = Grants(capabilities=frozenset({APPROVE}))


class RemoteQuestion(msgspec.Struct, tag=True, array_like=True):
    """A question waits at the replica that says so."""

    question: ApprovalQuestion
    waited_s: float


class Settled(msgspec.Struct, tag=True, array_like=True):
    """A question waits no longer; ``answer`` is whose answer counted, if it came from another replica."""

    question: str
    state: str
    answer: str = ""


class RemoteAnswer(msgspec.Struct, tag=True, array_like=True):
    """A person answered; the replica where the call waits says whether that counted."""

    question: str
    answer: str
    reply: ApprovalReply
    by: str
    content: dict[str, Any] | None = None


class Looking(msgspec.Struct, tag=True, array_like=True):
    """A person who may answer questions is polling."""

    viewer: str
    kind: CallerKind
    ago_s: float


class Hello(msgspec.Struct, tag=True, array_like=True):
    """A replica that does not know what waits elsewhere."""


Word = RemoteQuestion | Settled | RemoteAnswer | Looking | Hello
_word: msgspec.json.Decoder[Word] = msgspec.json.Decoder(Word)


class ReplicaInbox:
    """Ties an inbox to those of the other replicas."""

    def __init__(
        self, inbox: Inbox, coordination: Coordination, clock: Callable[[], float], on_failure: OnFailure
    ) -> None:
        self._inbox, self._clock = inbox, clock
        self._topic = Topic(coordination, TOPIC, self._hear, self._start_anew)
        self._tasks = TaskScope(on_failure)
        self._heard: dict[str, float] = {}
        """Questions of others, and when they were last told."""
        self._told_viewers: dict[str, tuple[float, CallerKind]] = {}
        self._winners: dict[str, str] = {}
        self._asking: dict[str, asyncio.Future[str]] = {}
        self._forget: Callable[[], None] | None = None

    async def open(self) -> None:
        """Begin to show each other what waits."""
        self._inbox.elsewhere, self._inbox.on_attend = self._answer, self._attend
        self._forget = self._inbox.on_change(self._changed)
        await self._topic.open()
        self._say(Hello())
        self._tasks.spawn(self._beat(), "inbox.beat")

    def _say(self, word: Word) -> None:
        self._topic.say(msgspec.json.encode(word, enc_hook=str))

    def _start_anew(self) -> None:
        """Something may have been missed on both sides."""
        self._say(Hello())
        self._tell_all()

    def _tell_all(self) -> None:
        for waiting in self._inbox.own():
            self._say(self._asked(waiting))
        for viewer, (at, kind) in self._told_viewers.items():
            self._say(Looking(viewer, kind, self._clock() - at))

    def _asked(self, waiting: Waiting) -> RemoteQuestion:
        return RemoteQuestion(waiting.question, self._clock() - waiting.asked_at)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.beat()

    def beat(self) -> None:
        """Tell what still waits here, and forget what nobody tells any more."""
        for waiting in self._inbox.own():
            self._say(self._asked(waiting))
        oldest = self._clock() - SILENT_S
        for question_id in [question for question, at in self._heard.items() if at < oldest]:
            self._take_out(question_id, "withdrawn")

    # What happens here

    def _changed(self, question: ApprovalQuestion, state: str) -> None:
        if question.id in self._heard:
            return
        if state == "waiting":
            self._say(RemoteQuestion(question, 0.0))
        else:
            self._say(Settled(question.id, state, self._winners.pop(question.id, "")))

    def _attend(self, viewer: Caller) -> None:
        """Tell the other replicas that a person is polling; not at every poll."""
        now, (told, _) = self._clock(), self._told_viewers.get(viewer.id, (-VIEWER_EVERY_S, viewer.kind))
        if may_approve(viewer) and now - told >= VIEWER_EVERY_S:
            self._told_viewers = {
                known: entry for known, entry in self._told_viewers.items() if now - entry[0] < 4 * VIEWER_EVERY_S
            }
            self._told_viewers[viewer.id] = now, viewer.kind
            self._say(Looking(viewer.id, viewer.kind, 0.0))

    async def _answer(self, question_id: str, reply: ApprovalReply, by: Caller, content: Content) -> bool:
        """Have the replica where the call waits take an answer; whether it counted."""
        mine = secrets.token_hex(8)
        settled = self._asking.setdefault(question_id, asyncio.get_running_loop().create_future())
        try:
            filled = None if content is None else dict(content)
            await self._topic.tell(msgspec.json.encode(RemoteAnswer(question_id, mine, reply, by.id, filled)))
            async with asyncio.timeout(CONFIRM_S):
                return await asyncio.shield(settled) == mine
        except TimeoutError:
            self._take_out(question_id, "withdrawn")
            raise CoordinationUnavailable(
                "The replica where this call waits does not answer.", hint="The call may have ended; look again."
            ) from None
        finally:
            self._asking.pop(question_id, None)

    # What others say

    def _hear(self, body: bytes) -> None:
        try:
            word = _word.decode(body)
        except msgspec.DecodeError:  # a replica of another version says more than we understand
            return
        match word:
            case RemoteQuestion():
                self._lay_in(word)
            case Settled():
                self._settle(word)
            case RemoteAnswer():
                self._take_answer(word)
            case Looking():
                self._inbox.note_viewer(Caller(word.viewer, word.kind, _APPROVER), word.ago_s)
            case Hello():
                self._tell_all()

    def _lay_in(self, word: RemoteQuestion) -> None:
        self._heard[word.question.id] = self._clock()
        self._inbox.lay_in(word.question, word.waited_s)

    def _settle(self, word: Settled) -> None:
        if (asking := self._asking.get(word.question)) is not None and not asking.done():
            asking.set_result(word.answer)
        self._take_out(word.question, word.state)

    def _take_out(self, question_id: str, state: str) -> None:
        self._inbox.take_out(question_id, state)
        self._heard.pop(question_id, None)

    def _take_answer(self, word: RemoteAnswer) -> None:
        found = self._inbox.find(word.question)
        if found is None or found.answer is None:
            return
        if self._inbox.answer(word.question, word.reply, Caller(word.by), word.content):
            self._winners[word.question] = word.answer

    async def close(self) -> None:
        """Show each other nothing any more."""
        if self._forget is not None:
            self._forget()
        self._inbox.elsewhere = self._inbox.on_attend = None
        await self._tasks.close()
        await self._topic.close()
