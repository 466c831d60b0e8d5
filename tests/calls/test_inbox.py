"""The inbox: reaches somebody only while one looks in, and gives each question one answer."""

import asyncio
from dataclasses import replace

from toolcrib.calls.approvals import ApprovalAnswer, ApprovalQuestion, ApprovalReply
from toolcrib.calls.inbox import ATTENDED_S, Inbox
from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller
from toolcrib.core.requests import Request
from toolcrib.testing import ManualClock

OWNER = Caller("owner", "token", EVERYTHING)
CALL = Request("files__write", "write", {})


def question(number: int = 1) -> ApprovalQuestion:
    return ApprovalQuestion(f"q{number}", "files__write", "files", "write", "local", {}, 60.0)


async def test_it_reaches_nobody_when_nobody_looks():
    """Neither before the first look nor a while after the last."""
    clock = ManualClock()
    inbox = Inbox(clock)
    before = inbox.reaches(CALL)
    await inbox.look(OWNER)
    during = inbox.reaches(CALL)
    clock.advance(ATTENDED_S + 0.1)

    assert (before, during, inbox.reaches(CALL)) == (False, True, False)


async def test_a_page_that_stays_open_attends_without_asking_again():
    """It says so now and then."""
    clock = ManualClock()
    inbox = Inbox(clock)
    for _ in range(3):
        inbox.attend(OWNER)
        clock.advance(ATTENDED_S - 1)

    assert inbox.reaches(CALL)


async def test_whoever_asks_is_not_somebody_who_answers():
    """The asker's own look attends nothing, shows nothing, and waits as if there was nothing."""
    inbox = Inbox(ManualClock())
    mine = Request("files__write", "write", {}, caller=OWNER)
    await inbox.look(OWNER)
    putting = asyncio.create_task(inbox.put(replace(question(), caller="owner"), mine))
    await asyncio.sleep(0)
    seen = await inbox.look(OWNER, 0.001), await inbox.look(LOCAL_USER)
    putting.cancel()

    assert inbox.reaches(CALL)
    assert [len(found) for found in seen] == [0, 1]
    assert Inbox(ManualClock()).reaches(mine) is False


async def test_a_question_waits_to_be_seen_and_is_answered_once():
    """The second answer comes too late, and so does one to a question that never was."""
    inbox = Inbox(ManualClock())
    putting = asyncio.create_task(inbox.put(question(), CALL))
    seen = await inbox.look(OWNER, 60)
    said = [("q1", ApprovalReply.ONCE), ("q1", ApprovalReply.NO), ("ghost", ApprovalReply.ONCE)]
    answered = [inbox.answer(question_id, reply, OWNER) for question_id, reply in said]
    answer = await putting

    assert [waiting.question for waiting in seen] == [question()]
    assert (answered, answer) == ([True, False, False], ApprovalAnswer(ApprovalReply.ONCE, OWNER.id))
    assert await inbox.look(OWNER) == []
    assert inbox.find("q1") is None


async def test_everybody_who_waits_for_something_to_arrive_is_woken():
    """Oldest first."""
    inbox = Inbox(ManualClock())
    looking = [asyncio.create_task(inbox.look(OWNER, 60)) for _ in range(3)]
    await asyncio.sleep(0)
    putting = [asyncio.create_task(inbox.put(question(number), CALL)) for number in (1, 2)]
    found = await asyncio.gather(*looking)
    for task in putting:
        task.cancel()

    assert [[waiting.question.id for waiting in each] for each in found] == [["q1", "q2"]] * 3


async def test_a_question_that_is_withdrawn_is_gone():
    """Answering it afterwards does nothing."""
    inbox = Inbox(ManualClock())
    putting = asyncio.create_task(inbox.put(question(), CALL))
    await inbox.look(OWNER, 60)
    putting.cancel()
    await asyncio.gather(putting, return_exceptions=True)

    assert (await inbox.look(OWNER), inbox.answer("q1", ApprovalReply.ALWAYS, OWNER)) == ([], False)


async def test_a_look_that_waits_in_vain_comes_back_empty():
    """After its time."""
    assert await Inbox(ManualClock()).look(OWNER, 0.001) == []


async def test_listeners_are_told_of_questions_that_come_and_go():
    """Answered, or withdrawn; until they are forgotten."""
    inbox, told = Inbox(ManualClock()), []
    forget = inbox.on_change(lambda asked, state: told.append((asked.id, state)))
    first, second = (asyncio.create_task(inbox.put(question(number), CALL)) for number in (1, 2))
    await inbox.look(OWNER, 60)
    await asyncio.sleep(0)
    inbox.answer("q1", ApprovalReply.ONCE, OWNER)
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    forget()
    third = asyncio.create_task(inbox.put(question(3), CALL))
    await inbox.look(OWNER, 60)
    third.cancel()

    assert told == [("q1", "waiting"), ("q2", "waiting"), ("q1", "answered"), ("q2", "withdrawn")]
