"""Replicas in one process: they share a hub, a book of sessions and their records, as real ones share engines."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import anyio
from tests.doubles.coordination import MemoryCoordination, MemoryHub, MemorySessionBook

from toolcrib.crib.replicas import Fleet
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing import FakeSource, MemoryCrib, memory_crib


@dataclass
class Common:
    """What the replicas of a test share."""

    hub: MemoryHub = field(default_factory=MemoryHub)
    book: MemorySessionBook = field(default_factory=lambda: MemorySessionBook(time.monotonic))
    records: MemoryRecords = field(default_factory=MemoryRecords)


@dataclass
class Replica:
    """One of them."""

    made: MemoryCrib
    coordination: MemoryCoordination
    fleet: Fleet


@contextlib.asynccontextmanager
async def replica(common: Common, name: str, *sources: FakeSource, **wishes: object) -> AsyncIterator[Replica]:
    coordination = common.hub.join(name)
    fleet = Fleet(name, coordination, common.book)
    async with memory_crib(*sources, records=common.records, fleet=fleet, **wishes) as made:
        yield Replica(made, coordination, fleet)
    await coordination.close()


async def so(condition: Callable[[], object], deadline_s: float = 150) -> None:
    """Wait until something that others were told of has happened here."""
    with anyio.fail_after(deadline_s):
        while not condition():
            await anyio.sleep(0.005)
