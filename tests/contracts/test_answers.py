"""What every place for answers that hold for ever promises."""

import asyncio

import pytest

from toolcrib.calls.approvals import MemoryAnswers
from toolcrib.config.lock import kept_answers

ODD = 'jwt:odd \\ "name" 🌍\0'


@pytest.fixture(params=["memory", "file", "postgres"])
def answers(request, ledgers_of):
    return MemoryAnswers() if request.param == "memory" else ledgers_of(request.param).open()


async def test_an_answer_holds_for_its_tool_and_caller_only(answers):
    await answers.write("files__write", "ann", True, "terminal")
    await answers.write("files__write", ODD, False, "inbox")

    assert await answers.find("files__write", "ann") is True
    assert await answers.find("files__write", ODD) is False
    assert await answers.find("files__write", "bob") is None
    assert await answers.find("files__read", "ann") is None


async def test_the_later_answer_counts(answers):
    await answers.write("files__write", "ann", True, "terminal")
    await answers.write("files__write", "ann", False, "inbox")

    assert await answers.find("files__write", "ann") is False


async def test_a_replica_sees_another_ones_answer_at_once_and_no_longer_once_it_is_forgotten(ledgers):
    one, other = ledgers.open(), ledgers.open()
    await one.write("files__write", "ann", True, "terminal")
    seen = await other.find("files__write", "ann")
    gone = await other.forget("files__write", ["ann", "bob"])

    assert seen is True
    assert gone == ["ann"]
    assert await one.find("files__write", "ann") is None


async def test_what_is_kept_says_when_and_by_which_way(ledgers):
    one, other = ledgers.open(), ledgers.open()
    await one.write("b", "ann", True, "terminal")
    await one.write("a", ODD, False, "inbox")
    kept = kept_answers(await other.lock())

    assert [(entry.tool, entry.caller, entry.answer, entry.by) for entry in kept] == [
        ("a", ODD, "deny", "inbox"),
        ("b", "ann", "allow", "terminal"),
    ]
    assert all(entry.at.endswith("Z") for entry in kept)


async def test_forgetting_without_a_name_is_for_all_callers_and_of_nothing_leaves_the_rest(ledgers):
    one = ledgers.open()
    for tool, caller in (("a", "ann"), ("a", "bob"), ("b", "ann")):
        await one.write(tool, caller, True, "terminal")

    assert await one.forget("a") == ["ann", "bob"]
    assert await one.forget("a") == []
    assert [entry.tool for entry in kept_answers(await one.lock())] == ["b"]


async def test_answers_and_records_at_once_do_not_undo_each_other(ledgers):
    one, other = ledgers.open(), ledgers.open()
    await asyncio.gather(
        *(ledger.write("t", f"{name}{n}", True, "x") for name, ledger in (("a", one), ("b", other)) for n in range(8))
    )

    assert len((await one.lock()).approvals["t"]) == 16
