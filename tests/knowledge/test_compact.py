"""Merging beside an addition: nobody waits for it before the end, and what goes wrong there is told."""

import asyncio

import pytest
from tests.contracts.knowledge_stores import NOTES, add, arrival

from toolcrib.core.errors import KnowledgeUnavailable
from toolcrib.knowledge.builder import FAN_IN, Compaction, merge_here
from toolcrib.stores.knowledge.store import SqliteKnowledge


@pytest.fixture
async def full(tmp_path):
    """A store with as many segments as become one."""
    store = SqliteKnowledge(tmp_path / "kb.db")
    await store.put_collection(NOTES)
    for number in range(FAN_IN):
        await add(store, arrival(f"a{number}"))
    yield store
    await store.close()


async def sizes(store):
    return [record.size for record in await store.segments(["notes"])]


async def test_documents_come_in_while_parts_are_merged(full):
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def merge(parts):
        begun.set()
        await may_end.wait()
        return await merge_here(parts)

    async with Compaction(full, "notes", merge) as compaction:
        await compaction.nudge()
        await begun.wait()
        await add(full, arrival("late"))
        await compaction.nudge()
        meanwhile = await sizes(full)
        may_end.set()

    assert meanwhile == [2] * (FAN_IN + 1)
    assert await sizes(full) == [2, 2 * FAN_IN]
    assert await full.verify() == []


async def test_what_goes_wrong_with_a_merge_is_told_at_the_end(full):
    async def merge(parts):
        raise KnowledgeUnavailable("The disk is full.", hint="Make room.")

    with pytest.raises(KnowledgeUnavailable, match="full"):
        async with Compaction(full, "notes", merge) as compaction:
            await compaction.nudge()


async def test_who_is_interrupted_does_not_wait_for_a_merge(full):
    async def merge(parts):
        await asyncio.Event().wait()

    async def interrupted():
        async with Compaction(full, "notes", merge) as compaction:
            await compaction.nudge()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(interrupted(), 150)

    assert await sizes(full) == [2] * FAN_IN
