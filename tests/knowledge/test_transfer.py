"""From one store into another: the same documents, passages and vectors, also when it is stopped on the way."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.doubles.knowledge import MemoryKnowledge

from toolcrib.core.errors import ConfigError
from toolcrib.core.knowledge import Arrival, Collection, CollectionChange, DocumentInfo, PassageSpan, Stamp, document_id
from toolcrib.knowledge import transfer
from toolcrib.knowledge.indexing import build_segment
from toolcrib.knowledge.transfer import move_knowledge
from toolcrib.search.hybrid import Segment
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.postgres.knowledge import PgKnowledge

NOTES = Collection("notes", "Notes", "All sorts.", {"n": 1}, "model", 4, "2026-01-02T03:04:05Z", "bundled")
PLAIN = Collection("plain", "Plain", created="2026-01-02T03:04:05Z")
TEXT = "One passage. Another passage 🌍\0."


def arrival(collection: str, source: str, text: str = TEXT) -> Arrival:
    document = DocumentInfo(
        document_id(collection, source), collection, source, source.title(), "text", Stamp(source, 3)
    )
    places = (PassageSpan(0, 12), PassageSpan(12, len(text))) if text else ()
    return Arrival(document, text, places)


async def add(store, collection: str, *sources: str, vectors=None, text: str = TEXT, is_lacking: bool = False) -> None:
    arrivals = tuple(arrival(collection, source, text) for source in sources)
    await store.apply(CollectionChange(collection, arrivals, (), build_segment(arrivals, vectors), is_lacking))


@pytest.fixture
async def here(tmp_path):
    store = SqliteKnowledge(tmp_path / "kb.db")
    for collection in (NOTES, PLAIN):
        await store.put_collection(collection)
    await add(store, "notes", "a", "b", vectors=np.eye(4, dtype=np.float32))
    await add(store, "notes", "c", vectors=np.full((2, 4), 0.5, np.float32))
    await add(store, "notes", "lacking", is_lacking=True)
    await add(store, "notes", "empty", text="")
    await add(store, "plain", "x", "y")
    yield store
    await store.close()


@pytest.fixture(params=["memory", "postgres"])
async def there(request):
    store = MemoryKnowledge() if request.param == "memory" else PgKnowledge(request.getfixturevalue("store_settings"))
    yield store
    await store.close()


async def contents(store) -> dict:
    """Everything a reader could see, without the store's own numbers."""
    found: dict = {}
    for collection in await store.collections():
        for document in await store.documents(collection.id):
            kept, passages = await store.text(document.id), await store.passages(document.id)
            found[collection.id, document.source] = replace(document, key=0), kept, passages
    return found


async def test_documents_texts_and_passages_are_the_same_on_both_sides(here, there):
    counts = []
    await move_knowledge(here, there, counts.append)

    assert await there.collections() == await here.collections()
    assert await contents(there) == await contents(here)
    assert counts[-1] == 7
    assert await there.verify() == []


async def test_what_lacked_vectors_lacks_them_there_and_nothing_else_does(here, there):
    await move_knowledge(here, there, lambda _: None)

    before, after = await here.counts("notes"), await there.counts("notes")
    assert (after.documents, after.passages, after.lacking) == (before.documents, before.passages, before.lacking)
    assert (await there.counts("plain")).lacking == 0


async def test_vectors_are_taken_along_and_not_made_anew(here):
    there = MemoryKnowledge()
    await move_knowledge(here, there, lambda _: None)
    found = {}
    keys = {document.key: document.source for document in await there.documents("notes")}
    for record in await there.segments(["notes"]):
        rows, encoded = await there.segment_rows(record.id), await there.segment_bytes(record.id)
        vectors = Segment.from_bytes(encoded).vectors
        if vectors is not None:
            for position, key, ordinal in zip(rows.positions, rows.documents, rows.ordinals, strict=True):
                found[keys[key], ordinal] = vectors.to_floats()[position].round(2).tolist()

    assert found["b", 1] == [0, 0, 0, 1]
    assert found["c", 0] == [0.5] * 4
    assert {source for source, _ in found} == {"a", "b", "c"}


async def test_what_was_stopped_goes_on_and_brings_nothing_twice(here, there, monkeypatch):
    monkeypatch.setattr(transfer, "MOVED_AT_ONCE", 1)

    class StopError(Exception):
        pass

    def stop(_: int) -> None:
        raise StopError

    stops = 0
    while True:
        try:
            await move_knowledge(here, there, stop)
            break
        except StopError:
            stops += 1

    assert stops == 7
    assert await contents(there) == await contents(here)


def changed_at(added: str, source: str = "x", text: str = "Another text altogether.") -> CollectionChange:
    changed = arrival("plain", source, text)
    fresh = replace(changed, document=replace(changed.document, stamp=Stamp("other"), added=added))
    return CollectionChange("plain", (fresh,), segment=build_segment([fresh], None))


async def test_what_changed_or_came_between_two_runs_does_so_there(here, there):
    await move_knowledge(here, there, lambda _: None)
    await here.apply(changed_at("2026-02-01T00:00:00Z"))
    await add(here, "plain", "z")
    await move_knowledge(here, there, lambda _: None)

    assert await contents(there) == await contents(here)


async def bring_another(here, there):
    await add(there, "plain", "theirs")


async def bring_another_collection(here, there):
    await there.put_collection(replace(PLAIN, id="theirs"))
    await add(there, "theirs", "b")


async def change_there(here, there):
    await there.apply(changed_at("2026-02-01T00:00:00Z"))


async def take_out_here(here, there):
    """It cannot be told from what others brought."""
    await here.apply(CollectionChange("plain", removals=(document_id("plain", "y"),)))


@pytest.mark.parametrize("meddle", [bring_another, bring_another_collection, change_there, take_out_here])
async def test_documents_there_that_are_not_from_here_stay_as_they_are(here, there, meddle):
    await move_knowledge(here, there, lambda _: None)
    await meddle(here, there)
    await add(here, "notes", "late")
    before = await contents(there)
    with pytest.raises(ConfigError, match="did not come from here") as refused:
        await move_knowledge(here, there, lambda _: None)

    assert await contents(there) == before
    assert "another [store] name" in refused.value.hint
