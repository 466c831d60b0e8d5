"""The knowledge base in PostgreSQL: what is its own beyond what every store promises."""

import asyncio
from dataclasses import replace

import numpy as np
import psycopg
import pytest
from msgspec import structs
from tests.contracts.knowledge_stores import BETTER, NOTES, add, arrival, indexed, two, vector
from tests.fleet.engines import a_postgres
from tests.fleet.running import until

from toolcrib.core.errors import DamagedIndex, KnowledgeUnavailable
from toolcrib.core.knowledge import Arrival, CollectionChange, DocumentInfo, Merging, PassageSpan, Stamp, document_id
from toolcrib.knowledge.builder import compact
from toolcrib.knowledge.index import Index
from toolcrib.knowledge.indexing import build_segment
from toolcrib.search.hybrid import Segment
from toolcrib.stores.postgres import kb_index
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.stores.postgres.knowledge import PgKnowledge


@pytest.fixture
async def notes(store_settings):
    made = PgKnowledge(store_settings)
    await made.put_collection(NOTES)
    yield made
    await made.close()


@pytest.fixture
async def other(store_settings):
    made = PgKnowledge(store_settings)
    yield made
    await made.close()


def run(notes, statement):
    with psycopg.connect(notes.settings.url) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


async def test_a_block_gives_its_words_back_as_they_were_indexed(notes):
    arrivals = (arrival("b", "Übung macht den Meister 42"), arrival("a"))
    segment = indexed(*arrivals)
    await notes.apply(CollectionChange("notes", arrivals, segment=segment))
    (record,) = await notes.segments(["notes"])
    rows = await notes.segment_rows(record.id)
    b, a = [await notes.document(document_id("notes", name)) for name in "ba"]

    assert Segment.from_bytes(await notes.segment_bytes(record.id)).postings.to_bytes() == (
        Segment.from_bytes(segment).postings.to_bytes()
    )
    assert list(rows.documents) == [b.key, b.key, a.key, a.key]
    assert list(rows.ordinals) == [0, 1, 0, 1]


async def test_a_document_that_dies_while_blocks_are_merged_stays_dead(notes):
    """Deaths are known by document, so a merge need not be given up for one."""
    await add(notes, arrival("a"))
    await add(notes, arrival("b"))
    old = tuple(await notes.segments())
    keys = {each.source: each.key for each in await notes.documents("notes")}
    both = indexed(arrival("a"), arrival("b"))
    await notes.apply(CollectionChange("notes", removals=(document_id("notes", "a"),)))
    rows = tuple((keys[name], at) for name in "ab" for at in (0, 1))
    is_done = await notes.merge(Merging("notes", old, both, rows, 1))
    (merged,) = await notes.segments()
    alive = await notes.segment_rows(merged.id)
    again = await notes.merge(Merging("notes", old, both, rows, 1))

    assert (is_done, again) == (True, False)
    assert set(alive.documents) == {keys["b"]}
    assert await notes.verify() == []


async def test_many_small_blocks_become_few_and_the_dead_are_forgotten(notes):
    for number in range(10):
        await add(notes, arrival(f"d{number}"))
        await compact(notes, "notes")
    for number in range(9):
        await notes.apply(CollectionChange("notes", removals=(document_id("notes", f"d{number}"),)))
    await compact(notes, "notes", drop_dead=True)

    assert sum(record.size for record in await notes.segments()) <= 4
    assert run(notes, "SELECT count(*) FROM toolcrib.kb_dead") == [(0,)]
    assert await notes.verify() == []


async def test_two_who_bring_the_same_document_leave_one(notes, other):
    texts = [f"text number {n} of the same document" for n in range(12)]
    stores = [notes, other] * 6
    await asyncio.gather(*(add(store, arrival("a", text)) for store, text in zip(stores, texts, strict=True)))
    (found,) = await notes.documents("notes")

    assert (await notes.text(found.id)).text in texts
    assert (await notes.counts("notes")).passages == 2
    assert await notes.verify() == []


async def test_fleets_in_one_database_do_not_see_each_other(notes):
    await add(notes, arrival("a"))
    elsewhere = PgKnowledge(replace(notes.settings, name="other"))
    await elsewhere.put_collection(NOTES)
    seen = await elsewhere.documents("notes")
    await add(elsewhere, arrival("a", "another text altogether"))
    await elsewhere.remove_collection("notes")
    await elsewhere.close()

    assert seen == []
    assert (await notes.text(document_id("notes", "a"))).text == arrival("a").text
    assert await notes.verify() == []


async def test_vectors_of_another_length_are_not_stored_but_made_again(notes):
    """They were made by who did not know yet that the collection has others by now."""
    given = (arrival("a"),)
    await notes.apply(CollectionChange("notes", given, segment=build_segment(given, np.ones((2, 5), np.float32))))

    assert await notes.incomplete() == ["notes"]
    assert (await notes.counts("notes")).lacking == 2


async def test_vectors_that_are_out_of_use_are_swept_away(notes):
    a, b = await two(notes)
    await notes.put_collection(structs.replace(NOTES, coming=BETTER))
    await notes.stage("notes", BETTER, {(key, at): vector(0.5) for key in (a, b) for at in (0, 1)})
    before = run(notes, "SELECT count(*), count(DISTINCT vectors) FROM toolcrib.kb_vector")
    is_early = await notes.remote.settle("notes", structs.replace(BETTER, model="x"), BETTER)
    is_done = await notes.remote.settle("notes", BETTER, BETTER)

    assert (before, is_early, is_done) == ([(8, 2)], False, True)
    assert run(notes, "SELECT count(*), min(vector_dims(embedding)) FROM toolcrib.kb_vector") == [(4, 16)]
    assert run(notes, "SELECT count(*) FROM toolcrib.kb_set") == [(1,)]
    assert await notes.verify() == []


async def test_new_vectors_do_not_count_until_every_passage_has_one(notes):
    a, b = await two(notes)
    await notes.put_collection(structs.replace(NOTES, coming=BETTER))
    await notes.stage("notes", BETTER, {(a, 0): vector(0.5), (a, 1): vector(0.5), (b, 0): vector(0.5)})

    assert not await notes.remote.settle("notes", BETTER, BETTER)
    assert (await notes.collections())[0].embedder == "words"


class Axes:
    """Texts lie in the direction that their number says."""

    name, dimensions = "words", 8

    def embed(self, texts):
        rows = np.array([np.cos(np.arange(8) * (1 + sum(map(ord, text)) % 997)) for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


async def test_an_index_of_vectors_is_built_when_there_are_many_and_finds_what_comparing_finds(notes, monkeypatch):
    monkeypatch.setattr(kb_index, "INDEX_FROM", 500)
    texts = [f"passage {n} of many" for n in range(600)]
    given = tuple(
        Arrival(
            DocumentInfo(document_id("notes", text), "notes", text, "T", "pdf" if n % 3 else "text", Stamp("h")),
            text,
            (PassageSpan(0, len(text)),),
        )
        for n, text in enumerate(texts)
    )
    embedder = Axes()
    await notes.apply(CollectionChange("notes", given, segment=build_segment(given, embedder.embed(texts))))
    view = await Index(notes, embedder).view(["notes"])

    async def nearest(masks=None):
        hits = await notes.consult(lambda _: view.searcher.search("passage 77", 10, masks, "vector").hits)
        return [(hit.position, hit.vector) for hit in hits]

    some = [np.arange(600) % 2 == 0]
    exact = [await nearest(), await nearest(some)]
    await notes.remote.tidy("notes")
    built = run(notes, "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'kb_hnsw_%'")

    assert built == [(1,)]
    assert [await nearest(), await nearest(some)] == exact
    assert len(exact[0]) == len(exact[1]) == 10
    assert all(position % 2 == 0 for position, _ in exact[1])


async def test_what_is_damaged_is_found(notes):
    await add(notes, arrival("a"), arrival("b"))
    run(notes, "DELETE FROM toolcrib.kb_posting")
    run(notes, "DELETE FROM toolcrib.kb_vector WHERE ordinal = 1")
    first = "SELECT min(document) FROM toolcrib.kb_body"
    run(notes, f"UPDATE toolcrib.kb_body SET text = 'something else' WHERE document = ({first})")
    problems = await notes.verify()

    assert len(problems) == 3
    assert "has lost" in problems[0]
    assert problems[1] == "2 passages have lost their vectors."
    assert problems[2] == "a: the text is not the one that was indexed."


async def test_a_damaged_block_is_said_to_be_so(notes):
    await add(notes, arrival("a"))
    run(notes, "UPDATE toolcrib.kb_block SET head = 'nonsense'")
    (record,) = await notes.segments()

    with pytest.raises(DamagedIndex):
        await notes.segment_rows(record.id)
    assert "does not begin like one" in (await notes.verify())[0]


async def test_while_the_engine_is_away_that_is_said_and_afterwards_all_goes_on():
    with a_postgres() as engine:
        notes = PgKnowledge(StoreSettings(engine.fresh_database(), timeout_s=2))
        await notes.put_collection(NOTES)
        await add(notes, arrival("a"))
        engine.stop()
        with pytest.raises(KnowledgeUnavailable, match=r"does not answer|shutting down"):
            await notes.documents("notes")
        with pytest.raises(KnowledgeUnavailable) as refused:
            await add(notes, arrival("b"))
        engine.start()
        await add(notes, arrival("c"))
        found = [each.source for each in await notes.documents("notes")]
        await notes.close()

    assert found == ["a", "c"]
    assert "@" not in str(refused.value)


async def test_a_database_without_our_tables_says_what_to_do(postgres):
    notes = PgKnowledge(StoreSettings(postgres.empty_database()))
    with pytest.raises(KnowledgeUnavailable) as refused:
        await notes.collections()
    await notes.close()

    assert "toolcrib db upgrade" in refused.value.hint


async def test_pgvector_that_comes_later_is_put_to_use(store_settings):
    with psycopg.connect(store_settings.url) as connection:
        connection.execute("DROP TABLE toolcrib.kb_vector")
        connection.execute("DROP EXTENSION vector")
    notes = PgKnowledge(store_settings)
    await notes.put_collection(NOTES)
    await add(notes, arrival("a"))
    problems = await notes.verify()
    await notes.close()

    assert problems == []


WITHOUT_PGVECTOR = """
DROP TABLE toolcrib.kb_vector; DROP EXTENSION vector;
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'extension "vector" is not available'; END $$;
CREATE EVENT TRIGGER without_pgvector ON ddl_command_start WHEN TAG IN ('CREATE EXTENSION') EXECUTE FUNCTION refuse()"""


async def test_without_pgvector_the_advice_stays_the_same_until_it_is_there(store_settings):
    notes = PgKnowledge(store_settings)
    run(notes, WITHOUT_PGVECTOR)
    for _ in range(3):
        with pytest.raises(KnowledgeUnavailable, match="needs pgvector"):
            await notes.put_collection(NOTES)
    run(notes, "DROP EVENT TRIGGER without_pgvector")
    await notes.put_collection(NOTES)
    await add(notes, arrival("a"))
    problems = await notes.verify()
    await notes.close()

    assert problems == []


async def test_who_waits_to_build_an_index_does_not_hold_up_who_builds_one(notes):
    """A statement that waits for a lock is a moment that an index being built waits for in turn."""
    name = f"toolcrib kb index {notes.fleet}"
    with psycopg.connect(notes.settings.url, autocommit=True) as builder:
        assert kb_index.try_lock(builder, name)
        waiting = asyncio.create_task(asyncio.to_thread(_wait_for, notes.settings.url, name))
        await asyncio.to_thread(until, lambda: _is_waited_for(builder), deadline_s=150, what="somebody waits")
        builder.execute("SET statement_timeout = '5s'")
        await asyncio.to_thread(builder.execute, "CREATE INDEX CONCURRENTLY beside ON toolcrib.kb_vector (document)")
        kb_index.unlock(builder, name)
        await waiting

    assert run(notes, "SELECT count(*) FROM pg_indexes WHERE indexname = 'beside'") == [(1,)]


def _wait_for(url, name):
    with psycopg.connect(url, autocommit=True, application_name="waiting") as connection:
        kb_index.lock(connection, name)
        kb_index.unlock(connection, name)


def _is_waited_for(connection):
    asked = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'waiting' AND query LIKE '%advisory_lock%'"
    return connection.execute(asked).fetchone() is not None
