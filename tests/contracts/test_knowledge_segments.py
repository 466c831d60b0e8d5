"""What stores promise of segments, where these are searched in the process that reads them."""

import pytest
from msgspec.structs import replace
from tests.contracts.knowledge_stores import BETTER, NOTES, add, arrival, two, vector
from tests.doubles.knowledge import MemoryKnowledge

from toolcrib.core.knowledge import CollectionChange, Merging, Swap, document_id
from toolcrib.stores.knowledge.store import SqliteKnowledge

X = vector(0.5)


@pytest.fixture(params=["memory", "sqlite"])
async def notes(request, tmp_path):
    made = MemoryKnowledge() if request.param == "memory" else SqliteKnowledge(tmp_path / "deep" / "kb.db")
    await made.put_collection(NOTES)
    yield made
    await made.close()


async def replacing(notes, segment=b"new"):
    """A merging for each segment, with the same passages."""
    made = []
    for record in await notes.segments(["notes"]):
        rows = await notes.segment_rows(record.id)
        owners = tuple(zip(rows.documents, rows.ordinals, strict=True))
        made.append(Merging("notes", (record,), segment, owners, record.level))
    return tuple(made)


async def test_a_segment_names_its_passages_in_the_order_they_came(notes):
    await add(notes, arrival("b"), arrival("a"), segment=b"both")
    (record,) = await notes.segments(["notes"])
    rows = await notes.segment_rows(record.id)
    b, a = [await notes.document(document_id("notes", name)) for name in "ba"]

    assert (record.size, record.level) == (4, 0)
    assert await notes.segment_bytes(record.id) == b"both"
    assert (list(rows.positions), list(rows.documents), list(rows.ordinals)) == (
        [0, 1, 2, 3],
        [b.key, b.key, a.key, a.key],
        [0, 1, 0, 1],
    )
    assert (list(rows.starts), list(rows.ends)) == ([0, 9, 0, 9], [9, 19, 9, 19])


async def test_a_replaced_document_dies_in_its_old_segment(notes):
    await add(notes, arrival("a"), arrival("b"))
    (before,) = await notes.segments()
    generation = await add(notes, arrival("a", "quite another text"))
    old, new = await notes.segments()
    a, b = [await notes.document(document_id("notes", name)) for name in "ab"]

    assert old == replace(before, changed=generation)
    assert list((await notes.segment_rows(old.id)).documents) == [b.key, b.key]
    assert list((await notes.segment_rows(new.id)).documents) == [a.key, a.key]
    assert (await notes.text(a.id)).text == "quite another text"


async def test_merged_segments_hold_what_was_alive(notes):
    await add(notes, arrival("a"), segment=b"1")
    await add(notes, arrival("b"), segment=b"2")
    old = tuple(await notes.segments())
    a, b = [await notes.document(document_id("notes", name)) for name in "ab"]
    rows = ((a.key, 0), (a.key, 1), (b.key, 0), (b.key, 1))
    is_done = await notes.merge(Merging("notes", old, b"12", rows, 1))
    (new,) = await notes.segments()

    assert is_done
    assert (new.size, new.level, await notes.segment_bytes(new.id)) == (4, 1, b"12")
    assert list((await notes.segment_rows(new.id)).documents) == [a.key, a.key, b.key, b.key]


async def test_a_merge_that_comes_too_late_is_not_done(notes):
    await add(notes, arrival("a"), segment=b"1")
    await add(notes, arrival("b"), segment=b"2")
    old = tuple(await notes.segments())
    b = await notes.document(document_id("notes", "b"))
    await notes.apply(CollectionChange("notes", removals=(document_id("notes", "a"),)))
    is_done = await notes.merge(Merging("notes", old, b"12", ((b.key, 0), (b.key, 1)), 1))

    assert not is_done
    assert [record.id for record in await notes.segments()] == [record.id for record in old]


async def test_a_segment_of_the_dead_can_be_merged_away(notes):
    await add(notes, arrival("a"))
    await notes.apply(CollectionChange("notes", removals=(document_id("notes", "a"),)))
    is_done = await notes.merge(Merging("notes", tuple(await notes.segments()), b"", (), 0))

    assert is_done
    assert await notes.segments() == []


async def test_new_vectors_take_their_place_in_one_step(notes):
    a, b = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))
    await notes.stage("notes", BETTER, {(key, at): X for key in (a, b) for at in (0, 1)})
    (old,) = await notes.segments()
    generation = await notes.generation()
    is_done = await notes.swap(Swap("notes", BETTER, BETTER, await replacing(notes), (a, b)))
    (new,) = await notes.segments()

    assert is_done
    assert await notes.generation() > generation
    assert (new.id != old.id, new.size, await notes.segment_bytes(new.id)) == (True, 4, b"new")
    assert list((await notes.segment_rows(new.id)).documents) == [a, a, b, b]
    assert (await notes.collections())[0].embedding == BETTER
    assert (await notes.collections())[0].coming is None
    assert await notes.staged([(a, 0), (b, 1)]) == {}
    assert (await notes.counts("notes")).waiting == 0
    assert await notes.verify() == []


@pytest.mark.parametrize("change", ["arrival", "removal", "choice"])
async def test_a_swap_that_comes_too_late_is_not_done(notes, change):
    a, b = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))
    mergings = await replacing(notes)
    if change == "arrival":
        await add(notes, arrival("c"))
    elif change == "removal":
        await notes.apply(CollectionChange("notes", removals=(document_id("notes", "a"),)))
    else:
        await notes.put_collection(replace(NOTES, coming=replace(BETTER, model="other")))
    before = await notes.segments()
    is_done = await notes.swap(Swap("notes", BETTER, BETTER, mergings, (a, b)))

    assert not is_done
    assert await notes.segments() == before
    assert (await notes.collections())[0].embedder == "words"


async def test_what_came_without_vectors_is_filled_in_beside_the_rest(notes):
    await add(notes, arrival("c"), segment=b"whole")
    a, b, _ = await two(notes, is_lacking=True)
    lacking = await notes.waiting("notes", 10)
    mergings = [each for each in await replacing(notes) if each.rows[0][0] == a]
    await notes.stage("notes", None, dict.fromkeys(lacking, X))
    is_done = await notes.swap(Swap("notes", None, NOTES.embedding, tuple(mergings), (a, b)))

    assert lacking == [(a, 0), (a, 1), (b, 0), (b, 1)]
    assert is_done
    assert {await notes.segment_bytes(each.id) for each in await notes.segments()} == {b"whole", b"new"}
    assert (await notes.counts("notes")).lacking == 0
    assert await notes.staged(lacking) == {}
