"""Replay: a call is made again after a lost connection only when that can do no harm."""

import asyncio
import contextlib
from dataclasses import dataclass, field, replace

import pytest

from toolcrib.calls.layers.deadline import Sleep, replay
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.core.errors import ConnectionLost, OutcomeUnknown, SourceUnavailable, ToolFailed
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result

DONE = Result({"content": []})
PLAIN = Tool("write")
READ_ONLY = Tool("read", annotations={"readOnlyHint": True})
IDEMPOTENT = Tool("put", annotations={"idempotentHint": True})


@dataclass
class Flaky:
    """A source that loses its connection as often as it is told, before or after sending."""

    losses: list[bool]
    attempts: int = 0
    sent_before: list[bool] = field(default_factory=list)

    async def __call__(self, call: Request) -> Result:
        self.attempts += 1
        self.sent_before.append(call.context.sent)
        if self.losses:
            call.context.sent = self.losses.pop(0)
            raise ConnectionLost("The server went away.", details={"server": "srv"})
        return DONE


async def at_once(_: float) -> None:
    """A pause that takes no time."""


def layered(source: Step, tool: Tool, sleep: Sleep = at_once) -> Step:
    return replay(sleep)(Subject(f"srv__{tool.name}", "srv", tool), source)


def call(tool: Tool) -> Request:
    return Request(f"srv__{tool.name}", tool.name, {})


@pytest.mark.parametrize(("tool", "sent"), [(PLAIN, False), (READ_ONLY, False), (READ_ONLY, True), (IDEMPOTENT, True)])
async def test_a_harmless_call_is_made_once_more(tool, sent):
    """Never sent, read-only or idempotent: the caller notices nothing."""
    source = Flaky([sent])

    assert await layered(source, tool)(call(tool)) is DONE
    assert source.attempts == 2
    assert source.sent_before == [False, False]


async def test_a_call_that_may_have_had_its_effect_is_not_repeated():
    """The outcome is unknown, and the error says so and what to do."""
    source = Flaky([True])

    with pytest.raises(OutcomeUnknown) as unknown:
        await layered(source, PLAIN)(call(PLAIN))

    assert source.attempts == 1
    assert str(unknown.value) == (
        "The connection was lost while srv__write was running: The server went away. Its outcome is unknown."
        " Check whether it took effect before calling it again."
    )
    assert unknown.value.details == {"server": "srv", "outcome": "unknown"}
    assert not unknown.value.retryable


@pytest.mark.parametrize(
    ("tool", "losses"), [(PLAIN, [False] * 9), (READ_ONLY, [True] * 9), (IDEMPOTENT, [True, False] * 4 + [True])]
)
async def test_a_harmless_call_is_made_again_until_it_is_answered(tool, losses):
    """Once at once, then after growing pauses; only its deadline ends that."""
    source, pauses = Flaky(losses), []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    assert await layered(source, tool, pause)(call(tool)) is DONE
    assert source.attempts == 10
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 4.0]


async def test_a_write_is_made_again_only_for_as_long_as_it_was_never_sent():
    """The first loss after it was sent is final."""
    source = Flaky([False, False, True, False])

    with pytest.raises(OutcomeUnknown):
        await layered(source, PLAIN, at_once)(call(PLAIN))

    assert source.attempts == 3


async def test_a_call_that_is_lost_until_its_time_is_over_says_what_kept_happening():
    """Not that the tool was slow."""
    source, paused = Flaky([True] * 9), asyncio.Event()

    async def pause(_: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    lost = call(READ_ONLY)
    making = asyncio.ensure_future(layered(source, READ_ONLY, pause)(lost))
    await paused.wait()
    waits_for = lost.context.waits_for
    making.cancel()

    assert waits_for == "got no answer: The server went away, again and again, and no answer came"


@pytest.mark.parametrize(("tool", "replayable", "attempts"), [(PLAIN, True, 3), (READ_ONLY, False, 1)])
async def test_the_configuration_knows_better_than_the_tool(tool, replayable, attempts):
    """The user may allow or forbid repeating."""
    source = Flaky([True, True])

    with contextlib.suppress(OutcomeUnknown):
        await layered(source, replace(tool, replayable=replayable), at_once)(call(tool))

    assert source.attempts == attempts


@pytest.mark.parametrize("error", [SourceUnavailable("down"), ToolFailed("no")])
async def test_any_other_trouble_is_not_repeated(error):
    """Only a lost connection is."""
    attempts = []

    async def source(_: Request) -> Result:
        attempts.append(1)
        raise error

    with pytest.raises(type(error)):
        await layered(source, READ_ONLY)(call(READ_ONLY))

    assert attempts == [1]


def test_native_tools_have_no_connection_to_lose():
    """There is no layer for them."""
    source = Flaky([])

    assert replay()(Subject("write", "", PLAIN), source) is source
