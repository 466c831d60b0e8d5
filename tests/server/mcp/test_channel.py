"""Stdout of a stdio door, as a real pipe: all that was written comes out, if anybody reads it."""

import asyncio
import contextlib
import os

import pytest

from toolcrib.server.mcp import channel
from toolcrib.server.mcp.channel import Outlet

MESSAGE = b"x" * 3_000_000


@contextlib.asynccontextmanager
async def opened(on_relief=lambda: None):
    """An outlet, and what its reader has."""
    read, write = os.pipe()
    out = Outlet(on_relief)
    await asyncio.get_running_loop().connect_write_pipe(lambda: out, os.fdopen(write, "wb", buffering=0))
    with os.fdopen(read, "rb") as reader:
        yield out, reader


async def test_closing_waits_until_all_is_read():
    """Not a byte is lost to a reader that comes late."""
    async with opened() as (out, reader):
        out.send(MESSAGE)
        closing = asyncio.create_task(out.close())
        await asyncio.wait([closing], timeout=0)
        waiting = not closing.done()
        received = await asyncio.to_thread(reader.read)
        await asyncio.wait_for(closing, 150)

    assert (waiting, received == MESSAGE + b"\n") == (True, True)


async def test_a_client_that_has_stopped_reading_is_not_waited_for(monkeypatch):
    """The rest is dropped."""
    monkeypatch.setattr(channel, "STALLED_S", 0.01)
    async with opened() as (out, _):
        out.send(MESSAGE)

        await asyncio.wait_for(out.close(), 150)

        assert out.backlog == 0


async def test_closing_ends_when_the_reader_is_gone():
    """There is nobody to wait for."""
    async with opened() as (out, reader):
        out.send(MESSAGE)
        reader.close()

        await asyncio.wait_for(out.close(), 150)
        out.send(b"to nobody")

        assert out.backlog == 0


async def test_the_backlog_is_what_was_not_read_and_its_end_is_told():
    """So that what was held back can be said."""
    relieved = asyncio.Event()
    async with opened(relieved.set) as (out, reader):
        out.send(MESSAGE)
        backlog = out.backlog
        reading = asyncio.create_task(asyncio.to_thread(reader.read))
        await asyncio.wait_for(relieved.wait(), 150)
        await out.close()
        await reading

    assert backlog > len(MESSAGE) // 2


@pytest.mark.parametrize("message", [b"", b"{}"])
async def test_an_outlet_without_a_pipe_says_nothing(message):
    """And closes at once."""
    out = Outlet(lambda: None)

    out.send(message)
    await asyncio.wait_for(out.close(), 150)

    assert out.backlog == 0
