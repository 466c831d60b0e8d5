"""The shipped test doubles do what their documentation says."""

import asyncio

import pytest

from toolcrib.core.errors import ConnectionLost, NotImplementedHere, SourceUnavailable, UnknownTool
from toolcrib.core.offers import Example, Tool
from toolcrib.core.requests import Request, Result
from toolcrib.core.source import Listing
from toolcrib.sources.native.functions import define
from toolcrib.testing import FakeSource, ManualClock, RecordingChannel, memory_crib, run_examples


async def test_a_lost_connection_is_told():
    """The example of the package's own documentation."""
    files = FakeSource("files", ["read"])
    files.lose_connection()
    async with memory_crib(files) as made:
        result = await made.crib.call("files__read")

    assert result.error.code == "TOOL_EXECUTION_FAILED"


async def test_a_source_answers_as_it_is_told():
    """A text, a result, an exception, a function of the call, sync or async."""

    async def later(call: Request) -> str:
        return f"later {call.arguments}"

    result = Result({"content": []})
    source = FakeSource("srv", ["a", "b", "c", "d", "e"])
    source.answers = {"a": "text", "b": result, "c": SourceUnavailable("down"), "d": later}

    answers = [await source.answer(Request(name, name, {"x": 1})) for name in ("a", "b", "d", "e")]

    assert [answer.text for answer in answers] == ["text", "", "later {'x': 1}", "e ran"]
    assert answers[1] is result
    with pytest.raises(SourceUnavailable):
        await source.answer(Request("c", "c", {}))
    with pytest.raises(UnknownTool):
        await source.answer(Request("z", "z", {}))


async def test_a_source_can_be_held_and_lost():
    """Work waits at the gate; a lost connection says whether the call was sent."""
    source = FakeSource("srv", ["a"])
    source.calling.hold()
    waiting = asyncio.create_task(source.answer(Request("a", "a", {})))
    await source.calling.reached.wait()
    source.lose_connection(sent=False, times=2)
    lost = Request("a", "a", {})

    for _ in range(2):
        with pytest.raises(ConnectionLost):
            await source.answer(lost)
    source.calling.release()

    assert ((await waiting).text, lost.context.sent) == ("a ran", False)


async def test_a_source_lists_what_is_set_and_tells_of_changes():
    """Or raises what is set."""
    source, heard = FakeSource("srv", ["a"], ttl_s=5), []
    source.on_change(lambda: heard.append("changed"))
    source.on_trouble(lambda: heard.append("trouble"))

    source.change(Tool("b", "new"))
    source.stumble()
    listing = await source.list_offers()
    source.trouble = SourceUnavailable("down")

    assert (listing, heard) == (Listing((Tool("b", "new"),), 5), ["changed", "trouble"])
    with pytest.raises(SourceUnavailable):
        await source.list_offers()


async def test_a_channel_answers_only_what_it_was_given():
    """And keeps everything, decoded."""
    channel = RecordingChannel({"roots/list": {"roots": []}})
    channel.notify("notifications/progress", b'{"progress":1}')

    assert await channel.ask("roots/list", b"{}") == b'{"roots":[]}'
    with pytest.raises(NotImplementedHere):
        await channel.ask("sampling/createMessage", b"{}")
    assert channel.told == [("notifications/progress", {"progress": 1})]


def test_a_clock_moves_when_it_is_told():
    """Not by itself."""
    clock = ManualClock(5)

    clock.advance(2.5)

    assert (clock(), clock()) == (7.5, 7.5)


async def test_examples_that_say_what_to_expect_are_run():
    """What came out differently is told; one without an expectation is not run."""

    def half(number: int) -> float:
        if number == 7:
            raise AssertionError
        return number / 2

    examples = [
        Example({"number": 4}, expected_output=2),
        Example({"number": 3}, expected_output=2),
        Example({"number": 7}),
    ]
    async with memory_crib(tools=[define(half, examples=examples)]) as made:
        problems, others = await run_examples(made.crib), await run_examples(made.crib, "other")

    assert (problems, others) == (["half, example 2: expected 2, got 1.5"], [])
