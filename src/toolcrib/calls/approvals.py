"""Asking a person whether a call may happen: what is asked, by which ways, and what an answer is worth.

Every way to a person is a **Surface**. All that reach somebody are tried at once; the first answer counts.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, assert_never

from toolcrib.calls.forms import QuestionForm
from toolcrib.calls.marks import Marks
from toolcrib.core.access import Caller, Reach
from toolcrib.core.audit import Audit, AuditEntry, NoAudit
from toolcrib.core.errors import PermissionDenied, ToolcribError
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.kinds import Ruling
from toolcrib.core.names import alias_of
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import Request

SESSIONS_KEPT = 10_000
TERMINAL = "terminal"
"""The name of the surface at which whoever started toolcrib is asked."""


class ApprovalReply(StrEnum):
    """What a person can say."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    NO = "no"


def ruling_of(reply: ApprovalReply) -> Ruling:
    """What an answer decides."""
    match reply:
        case ApprovalReply.ONCE:
            return Ruling.APPROVED_ONCE
        case ApprovalReply.SESSION:
            return Ruling.APPROVED_FOR_SESSION
        case ApprovalReply.ALWAYS:
            return Ruling.APPROVED_ALWAYS
        case ApprovalReply.NO:
            return Ruling.DECLINED
        case _:
            assert_never(reply)


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What was said, and by whom."""

    reply: ApprovalReply
    by: str = ""
    """The caller who said it; empty where the way to the person tells nothing of them."""
    content: Mapping[str, Any] | None = None
    """What a form was filled in with."""


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """One call that waits for a person."""

    id: str
    tool: str
    server: str
    level: str
    caller: str
    arguments: Mapping[str, Any]
    timeout_s: float
    form: QuestionForm | None = None
    """What its server wants to know while it runs; ``None``: whether it may run at all."""


class Surface(Protocol):
    """A way to a person."""

    @property
    def name(self) -> str:
        """What the log calls it."""

    @property
    def takes_forms(self) -> bool:
        """Whether people there can fill in a server's form."""

    def reaches(self, call: Request) -> bool:
        """Whether somebody is there who may answer for this call."""

    async def put(self, question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
        """Ask; ``None`` when nobody answered after all. Cancelled when the answer came another way."""


class AnswerBook(Protocol):
    """Where answers that hold for ever are kept."""

    async def find(self, tool: str, caller: str) -> bool | None:
        """Whether the tool was allowed to the caller for ever, denied for ever, or neither."""

    async def write(self, tool: str, caller: str, allow: bool, by: str) -> None:
        """Keep an answer; returns when it will survive a power cut."""


class MemoryAnswers:
    """Answers for as long as the program runs."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], bool] = {}

    async def find(self, tool: str, caller: str) -> bool | None:
        """What was answered."""
        return self._answers.get((tool, caller))

    async def write(self, tool: str, caller: str, allow: bool, by: str) -> None:
        """Keep an answer."""
        del by
        self._answers[tool, caller] = allow


@dataclass(frozen=True, slots=True)
class ApprovalSettings:
    """How questions are asked."""

    timeout_s: float = 120.0
    redact: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda arguments: arguments
    """What of the arguments is shown to the person."""


@dataclass(slots=True)
class Approvals:
    """Where calls of ``ask`` tools are cleared: by what was answered before, or by asking now."""

    answers: AnswerBook
    settings: ApprovalSettings = field(default_factory=ApprovalSettings)
    audit: Audit = field(default_factory=NoAudit)
    emit: Emit = drop
    surfaces: list[Surface] = field(default_factory=list)
    current: Callable[[str], Reach | None] | None = None
    """What a tool asks of its callers right now; people take their time, and rules change meanwhile."""
    marks: Marks | None = None
    """What other replicas remember, where there are any."""
    _sessions: dict[tuple[str, str, str], None] = field(default_factory=dict)
    _is_trusting: bool = False
    """Whether somebody at the terminal has said that programs may be configured while this runs."""

    @property
    def secret(self) -> bytes:
        """What questions that travel are signed with; empty where no other replica must be able to read them."""
        return self.marks.secret if self.marks is not None else b""

    def attach(self, surface: Surface) -> Callable[[], None]:
        """Have people asked that way, too, until what is returned is called."""
        self.surfaces.append(surface)
        return lambda: self.surfaces.remove(surface)

    @property
    def has_terminal(self) -> bool:
        """Whether somebody can be asked at the terminal in which this runs."""
        return any(surface.name == TERMINAL for surface in self.surfaces)

    async def confirm_program(self, caller: Caller, deed: str, program: Mapping[str, Any]) -> bool:
        """Whether the person at the terminal lets a program be configured that runs on this machine.

        Nobody is asked anywhere else: whoever configures a program can do anything here. An answer for the session,
        or for ever, holds as long as this runs.
        """
        if self._is_trusting:
            return True
        ways = [surface for surface in self.surfaces if surface.name == TERMINAL]
        question = ApprovalQuestion(
            secrets.token_hex(8), deed, "", SecurityLevel.SYSTEM, caller.id, program, self.settings.timeout_s
        )
        answer, way = (
            await self._ask(question, Request(deed, "", {}, caller=caller), ways) if ways else (None, "nobody")
        )
        ruling = Ruling.NO_ANSWER if answer is None else ruling_of(answer.reply).by(way)
        told = AuditEntry("approval", deed, caller=caller.id, caller_kind=caller.kind, level="system", decision=ruling)
        await self.audit.commit(told)
        if answer is None or answer.reply is ApprovalReply.NO:
            return False
        self._is_trusting = answer.reply is not ApprovalReply.ONCE
        return True

    async def clear(self, call: Request, reach: Reach) -> None:
        """Return if the call may happen; raises ``PermissionDenied`` if not."""
        known = await self.recall(call.caller, reach.key)
        if known:
            call.context.decision = known
            return
        surfaces = [surface for surface in self.surfaces if surface.reaches(call)]
        if not surfaces:
            raise self._refused(call, Ruling.NOBODY_TO_ASK, _nobody(reach.key))
        live = call.context.live
        if live is not None:
            live.begin("approval")
        answer, way = await self._ask(self.question(call, reach), call, surfaces)
        if live is not None:
            live.end("approval")
        await self.take(call, reach, answer, way)

    async def have_filled_in(self, call: Request, server: str, form: QuestionForm) -> ApprovalAnswer | None:
        """What a person answers to a call's server; ``None`` if nobody does. It is written down before it counts."""
        surfaces = [surface for surface in self.surfaces if surface.takes_forms and surface.reaches(call)]
        question_id, timeout_s = f"{call.id}-{secrets.token_hex(4)}", self.settings.timeout_s
        question = ApprovalQuestion(question_id, call.name, server, "", call.caller.id, {}, timeout_s, form)
        answer, way = await self._ask(question, call, surfaces) if surfaces else (None, "nobody")
        ruling = Ruling.NO_ANSWER if answer is None else ruling_of(answer.reply).by(way)
        await self.audit.commit(_entry(call, call.name, ruling, answer, "question"))
        return answer

    async def recall(self, caller: Caller, tool: str) -> Ruling | None:
        """What an earlier answer decides; ``None`` if a person must be asked."""
        if (caller.id, caller.session, tool) in self._sessions or await self._is_marked(caller, tool):
            return Ruling.APPROVED_FOR_SESSION
        remembered = await self.answers.find(tool, caller.id)
        if remembered is None and alias_of(tool) != tool:
            remembered = await self.answers.find(alias_of(tool), caller.id)
        if remembered is False:
            raise PermissionDenied(
                f"{tool} was denied to this caller once and for all.",
                hint=f"A person can take that back: `toolcrib approvals forget {tool}`.",
            )
        return Ruling.APPROVED_ALWAYS if remembered else None

    async def _is_marked(self, caller: Caller, tool: str) -> bool:
        return self.marks is not None and await self.marks.is_allowed(caller, tool)

    def question(self, call: Request, reach: Reach) -> ApprovalQuestion:
        """What a person is asked."""
        shown = self.settings.redact(call.arguments)
        return ApprovalQuestion(
            call.id, reach.key, reach.server, reach.level, call.caller.id, shown, self.settings.timeout_s
        )

    async def _ask(
        self, question: ApprovalQuestion, call: Request, surfaces: Sequence[Surface]
    ) -> tuple[ApprovalAnswer | None, str]:
        """The first answer, and the way it came."""
        asking = {asyncio.create_task(_put(surface, question, call)): surface.name for surface in surfaces}
        waiting = set(asking)
        loop = asyncio.get_running_loop()
        until = loop.time() + question.timeout_s
        try:
            while waiting and (left_s := until - loop.time()) > 0:
                done, waiting = await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                answers = [(answer, asking[task]) for task in done if (answer := self._answer_of(task)) is not None]
                if answers:  # of two that come at the same moment, a refusal counts
                    return min(answers, key=lambda found: found[0].reply is not ApprovalReply.NO)
        finally:
            await _end(waiting)
        return None, "timeout" if waiting else "nobody"

    def _answer_of(self, task: "asyncio.Task[ApprovalAnswer | None]") -> ApprovalAnswer | None:
        """What one way brought; a way that failed brought nothing."""
        if task.cancelled():
            return None
        error = task.exception()
        if error is not None:
            self.emit(Event("approval.not.asked", "warning", {"error": str(error) or type(error).__name__}))
            return None
        return task.result()

    async def take(self, call: Request, reach: Reach, answer: ApprovalAnswer | None, way: str) -> None:
        """Let an answer count, and write it down before it does."""
        caller, tool = call.caller, reach.key
        if answer is None or answer.reply is ApprovalReply.NO:
            decision = Ruling.NO_ANSWER if answer is None else Ruling.DECLINED.by(way)
            await self.audit.commit(_entry(call, tool, decision, answer))
            raise self._refused(call, decision, _unanswered(tool) if answer is None else _declined(tool))
        if self.current is not None and self.current(tool) != reach:
            raise self._refused(call, Ruling.CHANGED_MEANWHILE, _changed(tool))
        is_for_once = answer.reply is ApprovalReply.SESSION and is_sessionless(call)
        reply: ApprovalReply = ApprovalReply.ONCE if is_for_once else answer.reply
        await self.audit.commit(_entry(call, tool, ruling_of(reply).by(way), answer))
        if reply is ApprovalReply.ALWAYS:
            reply = await self._write_always(tool, caller, way)
        if reply is ApprovalReply.SESSION:
            self._remember(caller, tool)
            if self.marks is not None:
                await self.marks.allow_session(caller, tool)
        call.context.decision = ruling_of(reply)

    async def _write_always(self, tool: str, caller: Caller, way: str) -> ApprovalReply:
        """Keep the answer; where that is not possible it holds for this session, and that is said."""
        try:
            await self.answers.write(tool, caller.id, True, way)
        except ToolcribError as error:
            self.emit(Event("approval.not.kept", "warning", {"tool": tool, "error": str(error)}))
            return ApprovalReply.SESSION
        return ApprovalReply.ALWAYS

    def _remember(self, caller: Caller, tool: str) -> None:
        if len(self._sessions) >= SESSIONS_KEPT:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[caller.id, caller.session, tool] = None

    def _refused(self, call: Request, decision: str, error: PermissionDenied) -> PermissionDenied:
        call.context.decision = decision
        return error


async def _put(surface: Surface, question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
    return await surface.put(question, call)


async def _end(tasks: "set[asyncio.Task[ApprovalAnswer | None]]") -> None:
    """Withdraw the question; what a way says when it is no longer wanted does not count."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _entry(
    call: Request, tool: str, decision: str, answer: ApprovalAnswer | None, event: str = "approval"
) -> AuditEntry:
    return AuditEntry(
        event,
        tool=tool,
        caller=call.caller.id,
        caller_kind=call.caller.kind,
        execution_id=call.id,
        trace_id=call.context.trace_id,
        decision=decision,
        details={"answered_by": answer.by} if answer is not None and answer.by else {},
    )


def _nobody(tool: str) -> PermissionDenied:
    return PermissionDenied(
        f"{tool} needs a person's approval, and nobody can be asked from here.",
        hint=f"A person can allow it with `toolcrib policy {tool} allow`,"
        " use a client that supports elicitation, or keep `toolcrib approvals watch` open,"
        " with another token than the caller's.",
    )


def _unanswered(tool: str) -> PermissionDenied:
    return PermissionDenied(
        f"{tool} needs a person's approval, and nobody answered in time.",
        hint=f"Try again when somebody is there, or have it allowed: `toolcrib policy {tool} allow`.",
    )


def is_sessionless(call: Request) -> bool:
    """Whether nothing ties this call to the next one of the same client, so that "this session" would mean everybody
    who comes as the same caller."""
    return call.channel.takes_input_required and not call.caller.session


def _changed(tool: str) -> PermissionDenied:
    return PermissionDenied(
        f"The rules for {tool} changed while it waited for an answer.", hint="Call it again; a person is asked anew."
    )


def _declined(tool: str) -> PermissionDenied:
    return PermissionDenied(f"The person declined this call of {tool}.", hint="Do not try it again unasked.")
