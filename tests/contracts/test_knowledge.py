"""What every knowledge store promises, held against each engine there is."""

import pytest
from msgspec.structs import replace
from tests.contracts.knowledge_stores import BETTER, NOTES, add, arrival, indexed, two, vector
from tests.doubles.knowledge import MemoryKnowledge

from toolcrib.core.errors import UnknownCollection
from toolcrib.core.knowledge import (
    CollectionChange,
    CollectionCounts,
    DocumentFilter,
    DocumentText,
    SegmentRows,
    Stamp,
    document_id,
    passages_of,
)
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.postgres.knowledge import PgKnowledge

ONE, TWO = vector(0.5), vector(0.25)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request, tmp_path):
    if request.param == "postgres":
        made = PgKnowledge(request.getfixturevalue("store_settings"))
    else:
        made = MemoryKnowledge() if request.param == "memory" else SqliteKnowledge(tmp_path / "deep" / "kb.db")
    yield made
    await made.close()


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
    assert await notes.text(found.id) == DocumentText(given.text, given.outline)
    assert await notes.passages(found.id) == passages_of(given)
    wanted, rows = [found.key, 10_000], [(found.key, 1), (10_000, 0)]
    assert await notes.consult(lambda reader: reader.documents_of(wanted)) == {found.key: found}
    assert await notes.consult(lambda reader: reader.passages_at(rows)) == {(found.key, 1): passages_of(given)[1]}
    assert await notes.consult(lambda reader: reader.texts_of(wanted)) == {found.key: given.text}


async def test_nothing_is_found_of_what_was_never_there(notes):
    assert await notes.document("nothing") is None
    assert await notes.text("nothing") is None
    assert await notes.passages("nothing") == []
    assert await notes.segment_bytes(99) is None
    assert await notes.segment_rows(99) == SegmentRows()
    assert await notes.staged([(99, 0)]) == {}
    assert await notes.remove_collection("nothing") is False


async def test_a_change_to_no_collection_changes_nothing(notes):
    before = await notes.generation()
    with pytest.raises(UnknownCollection, match="notes"):
        await notes.apply(CollectionChange("note", (arrival("a"),), segment=indexed(arrival("a"))))

    assert await notes.generation() == before
    assert await notes.document(document_id("notes", "a")) is None


async def test_every_change_is_a_new_generation(notes):
    numbers = [await notes.generation()]
    numbers.append(await add(notes, arrival("a")))
    numbers.append(await notes.apply(CollectionChange("notes", removals=(document_id("notes", "a"),))))

    assert numbers == sorted(set(numbers))
    assert await notes.generation() == numbers[-1]


async def test_keys_are_never_used_again(notes):
    await add(notes, arrival("a"))
    first = (await notes.documents("notes"))[0].key
    await notes.apply(CollectionChange("notes", removals=(document_id("notes", "a"),)))
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
        found = await notes.consult(lambda reader: reader.keys(["notes"], DocumentFilter(**wanted)))
        return "".join(sorted(keys[key] for key in found))

    assert await passing() == "abc"
    assert await passing(types=("pdf", "csv")) == "a"
    assert await passing(since="2026-02-01T00:00:00Z") == "b"
    assert await passing(until="2026-02-01T00:00:00Z") == "a"
    assert await passing(metadata={"team": "y"}) == "b"
    assert await passing(metadata={"tags": "red"}) == "a"
    assert await passing(metadata={"open": True, "team": "x"}) == ""
    assert await notes.consult(lambda reader: reader.keys(["other"], DocumentFilter())) == set()


async def test_newer_signs_of_the_same_bytes_are_remembered(notes):
    await add(notes, arrival("a"), arrival("b"))
    a, b = document_id("notes", "a"), document_id("notes", "b")
    stamp = (await notes.document(a)).stamp
    await notes.restamp({a: replace(stamp, size=7, mtime_ns=8), b: Stamp("other bytes", 7, 8)})

    assert await notes.stamps("notes") == {"a": (a, replace(stamp, size=7, mtime_ns=8)), "b": (b, stamp)}


async def test_what_a_collection_holds_is_counted(notes):
    await add(notes, arrival("a", type="pdf"), arrival("b"), arrival("c"))
    await notes.apply(CollectionChange("notes", removals=(document_id("notes", "c"),)))

    held = await notes.counts("notes")

    assert held.index_bytes > 0
    assert held == CollectionCounts(
        documents=2,
        passages=4,
        characters=38,
        segments=1,
        index_bytes=held.index_bytes,
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


async def test_several_things_are_read_in_one_go(notes):
    await add(notes, arrival("a.txt"), arrival("b.txt", type="html"))
    first, second = await notes.documents("notes")
    key = first.key
    rows, html = [(key, 0), (key, 1)], DocumentFilter(types=("html",))
    found = await notes.consult(
        lambda reader: (
            reader.generation(),
            reader.documents_of([key]),
            reader.texts_of([key]),
            reader.passages_at(rows),
            reader.keys(["notes"], html),
        )
    )

    assert found == (
        await notes.generation(),
        {key: first},
        {key: "one two\n\nthree four"},
        dict(zip(rows, await notes.passages(first.id), strict=True)),
        {second.key},
    )


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
    is_done = await notes.stage("notes", BETTER, {(a, 1): ONE, (b, 0): TWO, (b, 9): ONE, (999, 0): ONE})

    assert is_done
    assert await notes.generation() == generation
    assert await notes.waiting("notes", 10) == [(a, 0), (b, 1)]
    assert await notes.staged([(a, 0), (a, 1), (b, 0), (999, 0)]) == {(a, 1): ONE, (b, 0): TWO}
    assert (await notes.counts("notes")).waiting == 2


async def test_vectors_for_something_else_are_not_put_aside(notes):
    a, _ = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))

    assert not await notes.stage("notes", replace(BETTER, model="other"), {(a, 0): ONE})
    assert not await notes.stage("notes", None, {(a, 0): ONE})
    assert await notes.staged([(a, 0)]) == {}


async def test_another_choice_drops_what_was_put_aside(notes):
    a, _ = await two(notes)
    await notes.put_collection(replace(NOTES, coming=BETTER))
    await notes.stage("notes", BETTER, {(a, 0): ONE})
    await notes.put_collection(replace(NOTES, description="Other words.", coming=BETTER))
    kept = await notes.staged([(a, 0)])
    await notes.put_collection(replace(NOTES, coming=replace(BETTER, model="other")))

    assert kept == {(a, 0): ONE}
    assert await notes.staged([(a, 0)]) == {}


async def test_a_document_that_changes_takes_its_vectors_along(notes):
    a, b = await two(notes, is_lacking=True)
    await notes.stage("notes", None, {(a, 0): vector(0.5, 8), (b, 0): vector(1, 8)})
    await add(notes, arrival("a", "quite another text"))

    assert await notes.staged([(a, 0), (b, 0)]) == {(b, 0): vector(1, 8)}
    assert await notes.waiting("notes", 10) == [(b, 1)]
    assert (await notes.counts("notes")).lacking == 2


async def test_what_is_not_complete_is_named(notes):
    await notes.put_collection(replace(NOTES, id="other", coming=BETTER))
    before = await notes.incomplete()
    await two(notes, is_lacking=True)
    during = await notes.incomplete()
    for document in await notes.documents("notes"):
        await notes.apply(CollectionChange("notes", removals=(document.id,)))

    assert (before, during, await notes.incomplete()) == (["other"], ["notes", "other"], ["other"])


async def test_one_at_a_time_makes_vectors(notes):
    turns = [await notes.take_turn(), await notes.take_turn()]
    await notes.end_turn()

    assert (turns, await notes.take_turn()) == ([True, False], True)
