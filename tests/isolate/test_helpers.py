"""Helpers: pure functions of bytes, beside the event loop, within a limit."""

import asyncio

import pytest

from toolcrib.isolate.helpers import Helpers, TookTooLong

ENCODE = "base64:b64encode"
FOREVER = "signal:pause"


@pytest.fixture
async def helpers():
    made = Helpers(limit_s=60.0)
    yield made
    await made.close()


async def test_a_helper_answers_and_is_kept_for_the_next(helpers):
    """Two pieces of work, one process."""
    answers = [await helpers.run(ENCODE, (text,)) for text in (b"one", b"x" * 200_000)]

    assert answers[0] == b"b25l"
    assert len(answers[1]) == 266_668
    assert helpers.started == 1


async def test_what_goes_wrong_in_a_helper_is_raised_here(helpers):
    """With its kind and words; the helper goes on."""
    with pytest.raises(RuntimeError, match="Error: "):
        await helpers.run("base64:b64decode", (b"x",))

    assert await helpers.run(ENCODE, (b"one",)) == b"b25l"
    assert helpers.started == 1


async def test_work_that_takes_too_long_is_ended_and_the_next_gets_a_new_helper():
    """Nobody has to wait for what never ends."""
    helpers = Helpers(limit_s=0.02)

    with pytest.raises(TookTooLong):
        await helpers.run(FOREVER, ())

    assert helpers.started == 1
    await helpers.close()


async def test_work_that_is_no_longer_wanted_ends_with_whoever_wanted_it(helpers):
    """Cancelled, the helper is gone, and the place is free."""
    first = asyncio.create_task(helpers.run(FOREVER, (), "a"))
    second = asyncio.create_task(helpers.run(FOREVER, (), "b"))
    while helpers.started < 2:
        await asyncio.sleep(0)

    first.cancel()
    second.cancel()
    await asyncio.wait([first, second])

    assert await helpers.run(ENCODE, (b"one",)) == b"b25l"


async def test_one_owner_has_one_helper_at_a_time(helpers):
    """Whatever a server makes costly, the other helper is there for the rest."""
    stuck = [asyncio.create_task(helpers.run(FOREVER, (), "greedy")) for _ in range(5)]

    assert await helpers.run(ENCODE, (b"one",), "modest") == b"b25l"
    assert helpers.started <= 2
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)


async def test_a_helper_that_is_at_work_while_all_are_closed_ends_with_its_work():
    """Its answer still counts, and nobody keeps it."""
    helpers = Helpers(limit_s=60.0)
    asked = asyncio.create_task(helpers.run(ENCODE, (b"one",)))
    while not helpers.started:
        await asyncio.sleep(0)

    await helpers.close()

    assert await asked == b"b25l"
    assert helpers.idle == 0
