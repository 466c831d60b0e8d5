"""What every knowledge store promises, held against each engine there is."""

from dataclasses import replace

import pytest

from toolcrib.core.errors import UnknownCollection
from toolcrib.core.knowledge import (
    Arrival,
    Change,
    Collection,
    CollectionCounts,
    Document,
    DocumentFilter,
    Embedding,
    Heading,
    Merging,
    Outline,
    Place,
    SegmentRows,
    Stamp,
    Swap,
    Text,
    document_id,
    passages_of,
)
from toolcrib.stores.knowledge import SqliteKnowledge
from toolcrib.stores.knowledge_memory import MemoryKnowledge

NOTES = Collection("notes", "Notes", "What was noted.", {"team": "a"}, "words", 8, "2026-01-01T00:00:00Z")


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    made = MemoryKnowledge() if request.param == "memory" else SqliteKnowledge(tmp_path / "deep" / "kb.db")
    yield made
    await made.close()


def arrival(source, text="one two\n\nthree four", **said):
    middle = len(text) // 2
    places = (Place(0, middle, 1, ("Top",)), Place(middle, len(text), 2, ("Top", "Sub")))
    outline = Outline((0, middle), (Heading(0, 1, "Top"), Heading(middle, 2, "Sub")))
    fields = {"date": "2026-05-01T00:00:00Z", "type": "text", "added": "2026-06-01T00:00:00Z"} | said
    document = Document(
        document_id("notes", source), "notes", source, source.upper(), stamp=Stamp("h" + text), **fields
    )
    return Arrival(document, text, places, outline)


async def add(store, *arrivals, segment=b"index"):
    return await store.apply(Change("notes", tuple(arrivals), segment=segment))


@pytest.fixture
async def notes(store):
    await store.put_collection(NOTES)
    return store


async def test_a_collection_is_found_as_it_was_put(notes):
    assert await notes.collections() == [NOTES]


async def test_what_is_said_of_a_collection_changes_without_its_documents(notes):
    await add(notes, arrival("a"))
    await notes.put_collection(replace(NOTES, description="Other words.", created="later"))

    assert await notes.collections() == [replace(NOTES, description="Other words.")]
    assert len(await notes.documents("notes")) == 1


async def test_a_document_comes_back_with_its_text_outline_and_passages(notes):
    given = arrival("a", "Grüße 🌍\0 and more", licence="MIT", version="2", metadata={"tags": ["x"], "n": 1})
    await add(notes, given)
    found = await notes.document(given.document.id)

    assert replace(found, key=0) == given.document
    assert await notes.text(found.id) == Text(given.text, given.outline)
    assert await notes.passages(found.id) == passages_of(given)
    assert await notes.documents_of([found.key, 10_000]) == {found.key: found}
    assert await notes.passages_at([(found.key, 1), (10_000, 0)]) == {(found.key, 1): passages_of(given)[1]}
    assert await notes.texts_of([found.key, 10_000]) == {found.key: given.text}


async def test_nothing_is_found_of_what_was_never_there(notes):
    assert await notes.document("nothing") is None
    assert await notes.text("nothing") is None
    assert await notes.passages("nothing") == []
    assert await notes.segment_bytes(99) is None
    assert await notes.segment_rows(99) == SegmentRows()
    assert await notes.remove_collection("nothing") is False


async def test_a_change_to_no_collection_changes_nothing(notes):
    before = await notes.generation()
    with pytest.raises(UnknownCollection, match="notes"):
        await notes.apply(Change("note", (arrival("a"),), segment=b"index"))

    assert await notes.generation() == before
    assert await notes.document(document_id("notes", "a")) is None


async def test_every_change_is_a_new_generation(notes):
    numbers = [await notes.generation()]
    numbers.append(await add(notes, arrival("a")))
    numbers.append(await notes.apply(Change("notes", removals=(document_id("notes", "a"),))))

    assert numbers == sorted(set(numbers))
    assert await notes.generation() == numbers[-1]


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


async def test_keys_are_never_used_again(notes):
    await add(notes, arrival("a"))
    first = (await notes.documents("notes"))[0].key
    await notes.apply(Change("notes", removals=(document_id("notes", "a"),)))
    await add(notes, arrival("b"))

    assert (await notes.documents("notes"))[0].key > first


async def test_filters_let_pass_what_they_say(notes):
    await add(
        notes,
        arrival("a", type="pdf", date="2026-01-01T00:00:00Z", metadata={"team": "x", "tags": ["red", "big"]}),
        arrival("b", type="text", date="2026-03-01T00:00:00Z", metadata={"team": "y", "open": True}),
        arrival("c", type="text", date=""),
    )
    keys = {each.key: each.source for each in await notes.documents("notes")}

    async def passing(**wanted):
        return "".join(sorted(keys[key] for key in await notes.keys(["notes"], DocumentFilter(**wanted))))

    assert await passing() == "abc"
    assert await passing(types=("pdf", "csv")) == "a"
    assert await passing(since="2026-02-01T00:00:00Z") == "b"
    assert await passing(until="2026-02-01T00:00:00Z") == "a"
    assert await passing(metadata={"team": "y"}) == "b"
    assert await passing(metadata={"tags": "red"}) == "a"
    assert await passing(metadata={"open": True, "team": "x"}) == ""
    assert await notes.keys(["other"], DocumentFilter()) == set()


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
    await notes.apply(Change("notes", removals=(document_id("notes", "a"),)))
    is_done = await notes.merge(Merging("notes", old, b"12", ((b.key, 0), (b.key, 1)), 1))

    assert not is_done
    assert [record.id for record in await notes.segments()] == [record.id for record in old]


async def test_a_segment_of_the_dead_can_be_merged_away(notes):
    await add(notes, arrival("a"))
    await notes.apply(Change("notes", removals=(document_id("notes", "a"),)))
    is_done = await notes.merge(Merging("notes", tuple(await notes.segments()), b"", (), 0))

    assert is_done
    assert await notes.segments() == []


async def test_newer_signs_of_the_same_bytes_are_remembered(notes):
    await add(notes, arrival("a"), arrival("b"))
    a, b = document_id("notes", "a"), document_id("notes", "b")
    stamp = (await notes.document(a)).stamp
    await notes.restamp({a: replace(stamp, size=7, mtime_ns=8), b: Stamp("other bytes", 7, 8)})

    assert await notes.stamps("notes") == {"a": (a, replace(stamp, size=7, mtime_ns=8)), "b": (b, stamp)}


async def test_what_a_collection_holds_is_counted(notes):
    await add(notes, arrival("a", type="pdf"), arrival("b"), arrival("c"), segment=b"12345")
    await notes.apply(Change("notes", removals=(document_id("notes", "c"),)))

    assert await notes.counts("notes") == CollectionCounts(
        documents=2,
        passages=4,
        characters=38,
        segments=1,
        index_bytes=5,
        dead_passages=2,
        types={"pdf": 1, "text": 1},
        newest="2026-06-01T00:00:00Z",
    )
    assert await notes.counts("nothing") == CollectionCounts()


async def test_a_removed_collection_takes_everything_along(notes):
    await add(notes, arrival("a"))
    is_gone = await notes.remove_collection("notes")

    assert is_gone
    assert await notes.collections() == []
    assert await notes.document(document_id("notes", "a")) is None
    assert await notes.segments() == []


async def test_a_sound_store_has_nothing_to_complain_of(notes):
    await add(notes, arrival("a"), arrival("b"))
    await add(notes, arrival("a", "another text"))

    assert await notes.verify() == []


BETTER = Embedding("better", "openai:large", 16)


async def two(notes, **said):
    """The keys of two documents with two passages each."""
    await notes.apply(Change("notes", (arrival("a"), arrival("b")), segment=b"old", **said))
    return [each.key for each in await notes.documents("notes")]


async def replacing(notes, segment=b"new"):
    """A merging for each segment, with the same passages."""
    made = []
    for record in await notes.segments(["notes"]):
        rows = await notes.segment_rows(record.id)
        owners = tuple(zip(rows.documents, rows.ordinals, strict=True))
        made.append(Merging("notes", (record,), segment, owners, record.level))
    return tuple(made)


async def test_nothing_waits_for_vectors_unless_something_is_wanted(notes):
    await two(notes)

    assert await notes.waiting("notes", 10) == []
    assert (await notes.counts("notes")).waiting == 0
    assert await notes.waiting("nothing", 10) == []


async def test_what_is_coming_is_wanted_for_every_passage_some_at_a_time(notes):
    a, b = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))

    assert (await notes.collections())[0].coming == BETTER
    assert await notes.waiting("notes", 3) == [(a, 0), (a, 1), (b, 0)]
    assert await notes.waiting("notes", 3, (b, 0)) == [(b, 1)]
    assert (await notes.counts("notes")).waiting == 4


async def test_vectors_are_put_aside_without_anybody_noticing(notes):
    a, b = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))
    generation = await notes.generation()
    is_done = await notes.stage("notes", BETTER, {(a, 1): b"one", (b, 0): b"two", (b, 9): b"none", (999, 0): b"none"})

    assert is_done
    assert await notes.generation() == generation
    assert await notes.waiting("notes", 10) == [(a, 0), (b, 1)]
    assert await notes.staged([(a, 0), (a, 1), (b, 0), (999, 0)]) == {(a, 1): b"one", (b, 0): b"two"}
    assert (await notes.counts("notes")).waiting == 2


async def test_vectors_for_something_else_are_not_put_aside(notes):
    a, _ = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))

    assert not await notes.stage("notes", replace(BETTER, model="other"), {(a, 0): b"x"})
    assert not await notes.stage("notes", None, {(a, 0): b"x"})
    assert await notes.staged([(a, 0)]) == {}


async def test_another_choice_drops_what_was_put_aside(notes):
    a, _ = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))
    await notes.stage("notes", BETTER, {(a, 0): b"x"})
    await notes.put_collection(replace(NOTES, description="Other words.", coming=BETTER))
    kept = await notes.staged([(a, 0)])
    await notes.put_collection(replace(NOTES, coming=replace(BETTER, model="other")))

    assert kept == {(a, 0): b"x"}
    assert await notes.staged([(a, 0)]) == {}


async def test_a_document_that_changes_takes_its_vectors_along(notes):
    a, b = await two(notes, is_lacking=True)
    await notes.stage("notes", None, {(a, 0): b"x", (b, 0): b"y"})
    await add(notes, arrival("a", "quite another text"))

    assert await notes.staged([(a, 0), (b, 0)]) == {(b, 0): b"y"}
    assert await notes.waiting("notes", 10) == [(b, 1)]
    assert (await notes.counts("notes")).lacking == 2


async def test_new_vectors_take_their_place_in_one_step(notes):
    a, b = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))
    await notes.stage("notes", BETTER, {(key, at): b"x" for key in (a, b) for at in (0, 1)})
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
        await notes.apply(Change("notes", removals=(document_id("notes", "a"),)))
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
    await notes.stage("notes", None, dict.fromkeys(lacking, b"x"))
    is_done = await notes.swap(Swap("notes", None, NOTES.embedding, tuple(mergings), (a, b)))

    assert lacking == [(a, 0), (a, 1), (b, 0), (b, 1)]
    assert is_done
    assert {await notes.segment_bytes(each.id) for each in await notes.segments()} == {b"whole", b"new"}
    assert (await notes.counts("notes")).lacking == 0
    assert await notes.staged(lacking) == {}


async def test_what_is_not_complete_is_named(notes):
    await notes.put_collection(replace(NOTES, id="other", coming=BETTER))
    before = await notes.incomplete()
    await two(notes, is_lacking=True)
    during = await notes.incomplete()
    for document in await notes.documents("notes"):
        await notes.apply(Change("notes", removals=(document.id,)))

    assert (before, during, await notes.incomplete()) == (["other"], ["notes", "other"], ["other"])


async def test_one_at_a_time_makes_vectors(notes):
    turns = [await notes.take_turn(), await notes.take_turn()]
    await notes.end_turn()

    assert (turns, await notes.take_turn()) == ([True, False], True)
