"""Asking a person: what each answer is worth, who is asked, and what happens when nobody answers."""

import asyncio
from dataclasses import dataclass, field, replace

import msgspec
import pytest
from tests.doubles.coordination import MemoryHub

from toolcrib.calls import approvals
from toolcrib.calls.approvals import (
    ApprovalAnswer,
    ApprovalQuestion,
    ApprovalReply,
    Approvals,
    ApprovalSettings,
    MemoryAnswers,
    ruling_of,
)
from toolcrib.calls.live import Live
from toolcrib.calls.marks import Marks
from toolcrib.core.access import EVERYTHING, Caller, Reach
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import AuditUnavailable, PermissionDenied
from toolcrib.core.events import Event
from toolcrib.core.kinds import Ruling
from toolcrib.core.requests import Request
from toolcrib.stores.lockfile import FileLedger, LockFile
from toolcrib.testing import ManualClock, RecordingChannel

REACH = Reach("files__write", "files", policy="ask")
ANN = Caller("ann", grants=EVERYTHING, session="s1")


@dataclass
class Person:
    """A way to somebody who answers when the test says so, or at once."""

    name: str = "person"
    reply: ApprovalReply | Exception | None = None
    at_once: bool = True
    asked: list[ApprovalQuestion] = field(default_factory=list)
    withdrawn: int = 0
    present: bool = True
    by: str = ""

    def __post_init__(self) -> None:
        self.answered = asyncio.Event()
        self.reached = asyncio.Event()

    def reaches(self, call: Request) -> bool:
        return self.present

    async def put(self, question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
        self.asked.append(question)
        self.reached.set()
        try:
            if not self.at_once:
                await self.answered.wait()
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise
        if isinstance(self.reply, Exception):
            raise self.reply
        return ApprovalAnswer(self.reply, self.by) if self.reply is not None else None

    def say(self, reply: ApprovalReply) -> None:
        self.reply = reply
        self.answered.set()


class Ledger:
    """An audit log in memory, which can be out of order."""

    def __init__(self, *, works: bool = True) -> None:
        self.entries: list[AuditEntry] = []
        self.works = works

    def note(self, entry: AuditEntry) -> None:
        self.entries.append(entry)

    async def commit(self, entry: AuditEntry) -> None:
        if not self.works:
            raise AuditUnavailable("The audit log cannot be written.")
        self.entries.append(entry)


def desk(*people: Person, **changes: object) -> Approvals:
    return Approvals(**({"answers": MemoryAnswers(), "surfaces": list(people)} | changes))


def write(caller: Caller = ANN, **arguments: object) -> Request:
    return Request("files__write", "write", arguments, "call-1", caller)


async def test_the_person_is_shown_the_tool_the_caller_and_the_arguments():
    """What is redacted is not shown, and the call itself keeps it."""
    person, call = Person(reply=ApprovalReply.ONCE), write(path="x", key="secret")
    settings = ApprovalSettings(7.0, redact=lambda given: {**given, "key": "***"})
    await desk(person, settings=settings).clear(call, REACH)

    shown = {"path": "x", "key": "***"}
    assert person.asked == [ApprovalQuestion("call-1", "files__write", "files", "write", "ann", shown, 7.0)]
    assert call.arguments == {"path": "x", "key": "secret"}


@pytest.mark.parametrize(
    ("reply", "asked_again", "decision"),
    [
        (ApprovalReply.ONCE, 2, "approved once"),
        (ApprovalReply.SESSION, 1, "approved for this session"),
        (ApprovalReply.ALWAYS, 1, "approved always"),
    ],
)
async def test_an_answer_is_worth_what_it_says(reply, asked_again, decision):
    """Once, for the session, or always; the call notes which, and the audit log who."""
    person, ledger = Person(reply=reply), Ledger()
    asking = desk(person, audit=ledger)
    calls = [write(), write()]
    for call in calls:
        await asking.clear(call, REACH)

    assert len(person.asked) == asked_again
    assert [call.context.decision for call in calls] == [decision] * 2
    assert ledger.entries[0] == AuditEntry(
        "approval",
        "files__write",
        caller="ann",
        caller_kind="local",
        execution_id="call-1",
        decision=f"{decision} by person",
    )


def test_every_answer_has_its_ruling():
    assert [ruling_of(reply) for reply in ApprovalReply] == [
        Ruling.APPROVED_ONCE,
        Ruling.APPROVED_FOR_SESSION,
        Ruling.APPROVED_ALWAYS,
        Ruling.DECLINED,
    ]


@pytest.mark.parametrize(("answered", "asked"), [("kb.add", "kb_add"), ("kb_add", "kb_add"), ("files__x", "files__x")])
async def test_what_was_answered_for_the_other_name_of_a_tool_holds_for_both(answered, asked):
    answers = MemoryAnswers()
    await answers.write(answered, "ann", True, "person")

    assert await desk(answers=answers).recall(ANN, asked) is Ruling.APPROVED_ALWAYS


async def test_no_is_no_and_is_asked_again_next_time():
    """The model is told not to insist."""
    person, call, ledger = Person(reply=ApprovalReply.NO), write(), Ledger()
    asking = desk(person, audit=ledger)
    for _ in range(2):
        with pytest.raises(PermissionDenied, match="The person declined this call of files__write"):
            await asking.clear(call, REACH)

    assert (len(person.asked), call.context.decision) == (2, "declined by person")
    assert [entry.decision for entry in ledger.entries] == ["declined by person"] * 2


async def test_what_was_approved_for_a_session_holds_for_that_caller_and_that_session_only():
    """Another session of the same caller is asked, and another caller in a session of the same name."""
    person = Person(reply=ApprovalReply.SESSION)
    asking = desk(person)
    for caller in (ANN, Caller("ann", session="s2"), Caller("bob", session="s1"), Caller("ann"), ANN):
        await asking.clear(write(caller), REACH)
    await asking.clear(write(), Reach("files__delete", "files", policy="ask"))

    assert [question.caller for question in person.asked] == ["ann", "ann", "bob", "ann", "ann"]


async def test_the_memory_of_sessions_is_bounded_and_forgets_the_oldest(monkeypatch):
    """Who is forgotten is asked again."""
    monkeypatch.setattr(approvals, "SESSIONS_KEPT", 2)
    person = Person(reply=ApprovalReply.SESSION)
    asking = desk(person)
    for session in ("s1", "s2", "s3", "s3", "s1"):
        await asking.clear(write(Caller("ann", session=session)), REACH)

    assert len(person.asked) == 4


async def test_when_nobody_can_be_asked_the_call_is_refused_at_once_with_ways_out():
    """The message says how to allow it."""
    away, call = Person(present=False, reply=ApprovalReply.ONCE), write()
    with pytest.raises(PermissionDenied, match="nobody can be asked") as refused:
        await desk(away).clear(call, REACH)

    assert "toolcrib policy files__write allow" in str(refused.value)
    assert (away.asked, call.context.decision) == ([], "refused: nobody to ask")


async def test_nobody_who_answers_in_time_is_a_refusal_and_withdraws_the_question():
    """The time limit is the desk's."""
    slow, call, ledger = Person(at_once=False), write(), Ledger()
    with pytest.raises(PermissionDenied, match="nobody answered in time"):
        await desk(slow, settings=ApprovalSettings(0.001), audit=ledger).clear(call, REACH)

    assert (slow.withdrawn, call.context.decision) == (1, "refused: no answer")
    assert [entry.decision for entry in ledger.entries] == ["refused: no answer"]


async def test_the_first_answer_counts_and_the_other_way_is_withdrawn():
    """Both were asked; what the other would have said no longer matters."""
    quick, slow, ledger = Person("quick", at_once=False), Person("slow", at_once=False), Ledger()
    clearing = asyncio.create_task(desk(quick, slow, audit=ledger).clear(write(), REACH))
    await asyncio.gather(quick.reached.wait(), slow.reached.wait())
    quick.say(ApprovalReply.ONCE)
    await clearing
    slow.say(ApprovalReply.NO)

    assert (quick.withdrawn, slow.withdrawn) == (0, 1)
    assert [entry.decision for entry in ledger.entries] == ["approved once by quick"]


@pytest.mark.parametrize("replies", [(ApprovalReply.ONCE, ApprovalReply.NO), (ApprovalReply.NO, ApprovalReply.ALWAYS)])
async def test_of_two_answers_at_the_same_moment_a_refusal_counts(replies):
    """Nothing is left to chance; and the log names whoever refused, not the other one."""
    ledger = Ledger()
    for _ in range(5):
        people = [Person(str(number), reply, by=f"{reply}-sayer") for number, reply in enumerate(replies)]
        with pytest.raises(PermissionDenied, match="declined"):
            await desk(*people, audit=ledger).clear(write(), REACH)

    assert [entry.details for entry in ledger.entries] == [{"answered_by": "no-sayer"}] * 5


async def test_a_way_that_fails_or_brings_no_answer_leaves_it_to_the_others():
    """And what went wrong is told."""
    events: list[Event] = []
    broken, shy = Person("broken", RuntimeError("no terminal")), Person("shy", None)
    mute = Person("mute", TimeoutError())
    good = Person("good", ApprovalReply.ONCE, at_once=False)
    clearing = asyncio.create_task(desk(broken, shy, mute, good, emit=events.append).clear(call := write(), REACH))
    await good.reached.wait()
    good.say(ApprovalReply.ONCE)
    await clearing

    assert call.context.decision == "approved once"
    assert {event.name for event in events} == {"approval.not.asked"}
    assert sorted(event.fields["error"] for event in events) == ["TimeoutError", "no terminal"]


async def test_when_every_way_fails_the_call_is_refused():
    """Without waiting for the time limit."""
    with pytest.raises(PermissionDenied):
        await desk(Person(reply=RuntimeError("gone")), Person(reply=None)).clear(write(), REACH)


async def test_a_call_that_is_called_off_withdraws_its_question():
    """Cancellation is not swallowed, and nothing is remembered."""
    person = Person(at_once=False)
    asking = desk(person)
    clearing = asyncio.create_task(asking.clear(write(), REACH))
    await person.reached.wait()
    clearing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await clearing

    assert person.withdrawn == 1
    assert await asking.recall(ANN, "files__write") is None


async def test_a_call_that_is_called_off_while_the_other_way_is_withdrawn_does_not_go_on():
    """Even though an answer had come by then."""
    quick, stubborn = Person("quick", ApprovalReply.ALWAYS), Person("stubborn", at_once=False)
    leaving, may_leave = asyncio.Event(), asyncio.Event()

    async def put(question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
        try:
            await asyncio.Event().wait()
        finally:
            leaving.set()
            await may_leave.wait()

    stubborn.put = put
    asking = desk(quick, stubborn)
    clearing = asyncio.create_task(asking.clear(write(), REACH))
    await leaving.wait()
    clearing.cancel()
    await asyncio.sleep(0)
    may_leave.set()
    with pytest.raises(asyncio.CancelledError):
        await clearing

    assert await asking.recall(ANN, "files__write") is None


@pytest.mark.parametrize("reply", list(ApprovalReply))
async def test_what_cannot_be_audited_is_refused(reply):
    """Whatever the answer; and it is not remembered, neither for the session nor for ever."""
    asking = desk(Person(reply=reply), audit=Ledger(works=False))
    with pytest.raises(AuditUnavailable):
        await asking.clear(write(), REACH)

    assert await asking.recall(ANN, "files__write") is None


async def test_a_way_that_is_detached_is_not_asked():
    """Attaching gives the means to undo it."""
    person = Person(reply=ApprovalReply.ONCE)
    asking = desk()
    detach = asking.attach(person)
    await asking.clear(write(), REACH)
    detach()
    with pytest.raises(PermissionDenied, match="nobody can be asked"):
        await asking.clear(write(), REACH)


# Answers that hold for ever


async def test_always_is_written_where_people_can_read_and_edit_it(tmp_path):
    """For that caller; taking it out of the file takes it back, and deny in the file denies."""
    file = LockFile(tmp_path / "toolcrib.lock")
    person = Person("terminal", ApprovalReply.ALWAYS)
    await desk(person, answers=FileLedger(file)).clear(write(), REACH)
    text = file.path.read_text()
    again = desk(person, answers=FileLedger(LockFile(file.path)))
    await again.clear(call := write(), REACH)
    file.path.write_text(text.replace('"allow"', '"deny"'))
    with pytest.raises(PermissionDenied, match="denied to this caller once and for all"):
        await again.clear(write(), REACH)

    assert '"files__write": {\n      "ann": {\n        "answer": "allow",' in text
    assert '"by": "terminal"' in text
    assert (call.context.decision, len(person.asked)) == ("approved always", 1)
    assert await again.recall(Caller("bob"), "files__write") is None


async def test_always_that_cannot_be_written_holds_for_the_session_and_says_so(tmp_path):
    """It is neither lost nor claimed to be kept."""
    (tmp_path / "file").write_text("")
    events: list[Event] = []
    person = Person(reply=ApprovalReply.ALWAYS)
    answers = FileLedger(LockFile(tmp_path / "file" / "toolcrib.lock"))
    asking = desk(person, answers=answers, emit=events.append)
    calls = [write(), write()]
    for call in calls:
        await asking.clear(call, REACH)
    await asking.clear(write(Caller("ann", session="s2")), REACH)

    assert [call.context.decision for call in calls] == ["approved for this session"] * 2
    assert len(person.asked) == 2
    assert {event.name for event in events} == {"approval.not.kept"}


async def test_a_lock_that_cannot_be_read_holds_no_answer(tmp_path):
    """The person is asked again rather than anything being allowed or denied."""
    (tmp_path / "toolcrib.lock").write_text('{"version"')

    assert await FileLedger(LockFile(tmp_path / "toolcrib.lock")).find("files__write", "ann") is None


@pytest.mark.parametrize(("changes", "passes"), [({}, True), ({"policy": "deny"}, False), ({"server": "other"}, False)])
async def test_an_answer_counts_only_for_the_tool_as_it_still_is(changes, passes):
    """Whoever was asked about one tool has said nothing of what stands under its name by now."""
    ledger, now = Ledger(), replace(REACH, **changes)
    asking = desk(Person(reply=ApprovalReply.ONCE), current=lambda _: now, audit=ledger)
    call = write()
    taken = await asyncio.gather(
        asking.take(call, REACH, ApprovalAnswer(ApprovalReply.ONCE, ""), "person"), return_exceptions=True
    )

    assert isinstance(taken[0], PermissionDenied) is not passes
    assert len(ledger.entries) == passes


def test_questions_that_travel_are_signed_with_what_the_replicas_have_in_common():
    """And with nothing of the kind where there are no others."""
    marks = Marks(MemoryHub().join("a"), b"common")

    assert (desk().secret, desk(marks=marks).secret) == (b"", b"common")


SESSIONLESS, IN_SESSION = Caller("ann", grants=EVERYTHING), ANN


@pytest.mark.parametrize(
    ("caller", "takes_rounds", "reply", "decision"),
    [
        (SESSIONLESS, True, ApprovalReply.SESSION, "approved once"),
        (SESSIONLESS, True, ApprovalReply.ALWAYS, "approved always"),
        (IN_SESSION, True, ApprovalReply.SESSION, "approved for this session"),
        (SESSIONLESS, False, ApprovalReply.SESSION, "approved for this session"),
    ],
)
async def test_for_this_session_counts_once_where_nothing_ties_calls_together(caller, takes_rounds, reply, decision):
    """A client without sessions would otherwise have answered for everybody who comes as the same caller."""
    ledger = Ledger()
    call = msgspec.structs.replace(write(caller), channel=RecordingChannel(takes_input_required=takes_rounds))
    asking = desk(audit=ledger)
    await asking.take(call, REACH, ApprovalAnswer(reply, ""), "person")

    assert (call.context.decision, ledger.entries[0].decision) == (decision, f"{decision} by person")
    assert await asking.recall(caller, "files__write") == (None if decision == "approved once" else decision)


async def test_how_long_a_call_waited_for_a_person_is_shown():
    """From when they were asked until they answered."""
    clock = ManualClock()
    person, live, call = Person(at_once=False), Live(clock, clock), write()
    entry = call.context.live = live.open(call, ("files", "write"), {}, clock())
    clock.advance(1.0)
    clearing = asyncio.create_task(desk(person).clear(call, REACH))
    await person.reached.wait()
    clock.advance(2.0)
    person.say(ApprovalReply.ONCE)
    await clearing

    assert [msgspec.to_builtins(step.view()) for step in entry.steps] == [
        {"name": "approval", "startMs": 1000.0, "endMs": 3000.0}
    ]


async def test_what_one_replica_was_told_for_a_session_holds_at_the_others():
    """Asked once for all of them; another session is asked again."""
    hub = MemoryHub()
    person = Person(reply=ApprovalReply.SESSION)
    here, there = (desk(person, marks=Marks(hub.join(name), b"common")) for name in "ab")
    await here.clear(write(), REACH)
    await there.clear(again := write(), REACH)
    await there.clear(write(Caller("ann", session="s2")), REACH)

    assert (again.context.decision, len(person.asked)) == ("approved for this session", 2)


@pytest.mark.parametrize(
    ("reply", "first", "asked"),
    [
        (ApprovalReply.ONCE, True, 2),
        (ApprovalReply.SESSION, True, 1),
        (ApprovalReply.NO, False, 2),
        (None, False, 2),
    ],
)
async def test_a_program_is_confirmed_at_the_terminal_and_nowhere_else(
    reply: ApprovalReply | None, first: bool, asked: int
):
    """An answer for the session holds as long as this runs; that no other way is asked is the point."""
    log, terminal, page = Ledger(), Person("terminal", reply), Person("inbox", ApprovalReply.ALWAYS)
    asking = desk(page, terminal, audit=log)

    told = [await asking.confirm_program(ANN, "add time", {"command": "uvx time"}) for _ in range(2)]

    assert told[0] is first
    assert [len(person.asked) for person in (terminal, page)] == [asked, 0]
    assert len(log.entries) == asked
    assert terminal.asked[0].arguments == {"command": "uvx time"}


async def test_without_a_terminal_no_program_is_confirmed():
    asking = desk(Person("inbox", ApprovalReply.ALWAYS))

    assert not asking.has_terminal
    assert not await asking.confirm_program(ANN, "add time", {})
