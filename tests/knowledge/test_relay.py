import asyncio

import pytest

from toolcrib.knowledge.builder import Relay


class Piece:
    """Work whose first part ends when it is told to."""

    def __init__(self, name, done, error=None):
        self.name, self.done, self.error = name, done, error
        self.begun, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def prepare(self):
        self.begun.set()
        await self.may_go_on.wait()
        return self.name

    async def finish(self, prepared):
        if self.error:
            raise self.error
        self.done.append(prepared)


async def test_second_parts_follow_in_order_though_first_parts_overlap():
    done = []
    first, second = Piece("first", done), Piece("second", done)
    async with Relay(2) as relay:
        for piece in (first, second):
            await relay.put(piece.prepare, piece.finish)
        await first.begun.wait()
        await second.begun.wait()
        second.may_go_on.set()
        await asyncio.sleep(0)
        first.may_go_on.set()

    assert done == ["first", "second"]


async def test_what_follows_a_failure_is_not_finished():
    done = []
    first, second = Piece("first", done, ValueError("broken")), Piece("second", done)
    first.may_go_on.set()
    second.may_go_on.set()

    async def work():
        async with Relay(2) as relay:
            for piece in (first, second):
                await relay.put(piece.prepare, piece.finish)

    with pytest.raises(ValueError, match="broken"):
        await work()

    assert done == []


async def test_an_error_beside_it_lets_what_was_begun_be_done():
    done = []
    piece = Piece("first", done)

    async def work():
        async with Relay(2) as relay:
            await relay.put(piece.prepare, piece.finish)
            piece.may_go_on.set()
            raise ValueError("beside")

    with pytest.raises(ValueError, match="beside"):
        await work()

    assert done == ["first"]


async def test_who_is_cancelled_does_not_wait_for_what_was_begun():
    done = []
    piece = Piece("first", done)

    async def work():
        async with Relay(2) as relay:
            await relay.put(piece.prepare, piece.finish)
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await piece.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert done == []
