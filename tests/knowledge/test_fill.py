"""Vectors by another embedder: made in the background, put in place at once, and words alone while it is away."""

import asyncio

import pytest
from tests.doubles.knowledge import MemoryKnowledge
from tests.knowledge.conftest import WordEmbedder, open_store
from tests.knowledge.embedding_server import DIMENSIONS, embedding_server

from toolcrib.core.errors import EmbedderUnavailable, UnknownEmbedder
from toolcrib.core.knowledge import CollectionChange, DocumentFilter, document_id
from toolcrib.knowledge.embedding import Embedders, InProcess, Prefixes
from toolcrib.knowledge.endpoints import Endpoint, EndpointEmbedder
from toolcrib.knowledge.fill import Background, choose_embedder, fill, vector_complaints
from toolcrib.knowledge.index import Index
from toolcrib.knowledge.ingest import Ingest
from toolcrib.knowledge.library import refuse_foreign
from toolcrib.knowledge.retrieve import Retriever, Search
from toolcrib.knowledge.survey import Adding, SourceRoot

SMALL = "openai:small"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request, tmp_path):
    if request.param == "memory":
        made = MemoryKnowledge()
    else:
        is_file = request.param == "sqlite"
        made = open_store(tmp_path / "kb.db" if is_file else request.getfixturevalue("store_settings"))
    yield made
    await made.close()


@pytest.fixture
async def server():
    async with embedding_server() as made:
        yield made


class Shelf:
    """A store with the embedders ``words``, which computes here, and ``far``, which is behind HTTP."""

    def __init__(self, store, server, **said):
        self.store = store
        far = Endpoint("far", "openai", "small", server.url, batch=4, **said)
        makers = {"words": lambda: InProcess(WordEmbedder()), "far": lambda: EndpointEmbedder(far, ())}
        self.embedders = Embedders(makers, "words")
        self.retriever = Retriever(store, Index(store, self.embedders))

    async def add(self, root, collection="notes", embedder=""):
        ingest = Ingest(self.store, self.embedders, refuse_foreign)
        return await ingest.add([SourceRoot(root)], Adding(collection, embedder=embedder))

    async def search(self, query, *collections, top_k=5):
        return await self.retriever.search(Search(query, collections or ("notes",), top_k))

    async def vectors(self, query="ants"):
        """The model that answers, and how near the best passage is."""
        best = (await self.search(query)).passages[0]
        return (await self.collection()).embedder, round(best.vector, 3)

    async def collection(self, name="notes"):
        return next(each for each in await self.store.collections() if each.id == name)

    async def change(self, name="far", **said):
        return await choose_embedder(self.store, self.embedders, "notes", name, **said)

    async def fill(self, collection="notes"):
        told = []
        await fill(self.store, self.embedders, collection, told.append)
        return [each.percent for each in told]

    async def complaints(self, collection="notes"):
        held = await self.store.counts(collection)
        return await vector_complaints(self.embedders, await self.collection(collection), held)


@pytest.fixture
async def shelf(store, server):
    made = Shelf(store, server)
    yield made
    await made.embedders.close()


@pytest.fixture
def animals(files):
    return files(**{f"d{n}_dot_md": f"# Animal {n}\n\nants carry leaf{n} and bees dance dance{n}." for n in range(10)})


async def test_a_collection_records_who_made_its_vectors(shelf, animals):
    await shelf.add(animals, embedder="far")
    await shelf.add(animals, "other")

    assert ((await shelf.collection()).embedder_name, (await shelf.collection()).embedder) == ("far", SMALL)
    assert (await shelf.collection()).dimensions == DIMENSIONS
    assert (await shelf.collection("other")).embedding.name == "words"
    assert (await shelf.search("leaf3")).passages[0].vector > 0


async def test_old_vectors_answer_until_the_new_ones_are_complete(shelf, server, animals):
    await shelf.add(animals)
    before = await shelf.vectors()
    words = [each.lexical for each in (await shelf.search("leaf3 bees")).passages]
    server.gate = asyncio.Event()
    await shelf.change()
    filling = asyncio.create_task(shelf.fill())
    while len(server.asked) < 2:
        await asyncio.sleep(0)
    during, told = await shelf.vectors(), (await shelf.complaints())[0]
    server.gate.set()
    percents = await filling

    assert during == before
    assert told.startswith("notes: re-embedding 40 % by 'far'; until then, the vectors of 'words' answer")
    assert percents == [40, 80, 100]
    assert await shelf.vectors() == (SMALL, pytest.approx(before[1], abs=0.2))
    assert (await shelf.collection()).dimensions == DIMENSIONS
    assert [each.lexical for each in (await shelf.search("leaf3 bees")).passages] == words
    assert await shelf.complaints() == []


async def test_vectors_made_later_are_those_that_would_have_been_made_at_once(shelf, animals):
    await shelf.add(animals)
    await shelf.change()
    await shelf.fill()
    await shelf.add(animals, "direct", "far")
    later, direct = [(await shelf.search("bees leaf5", name)).passages for name in ("notes", "direct")]

    assert [(each.text, each.score, each.vector) for each in later] == [
        (each.text, each.score, each.vector) for each in direct
    ]


async def test_an_interrupted_change_goes_on_where_it_was(shelf, store, server, animals):
    await shelf.add(animals)
    await shelf.change()
    server.fails_at = 2
    with pytest.raises(EmbedderUnavailable, match="HTTP 500"):
        await shelf.fill()
    asked = len(server.asked)
    again = Shelf(store, server)
    percents = await again.fill()
    await again.embedders.close()

    assert (asked, percents) == (2, [80, 100])
    assert (await shelf.collection()).embedder == SMALL


async def test_documents_that_come_and_go_meanwhile_are_not_forgotten(shelf, server, animals, files):
    await shelf.add(animals)
    server.gate = asyncio.Event()
    await shelf.change()
    filling = asyncio.create_task(shelf.fill())
    while len(server.asked) < 2:
        await asyncio.sleep(0)
    files(late_dot_md="# Late\n\nwhales sing songs.")
    (animals / "d9.md").unlink()
    await shelf.add(animals)
    server.gate.set()
    await filling
    found = (await shelf.search("whales sing songs")).passages[0]

    assert (found.document.title, found.vector > 0.3) == ("Late", True)
    assert (await shelf.collection()).embedder == SMALL
    assert (await shelf.store.counts("notes")).waiting == 0
    assert await shelf.store.verify() == []


async def test_what_comes_in_while_the_endpoint_is_away_waits_and_is_filled_in(shelf, server, animals, files):
    await shelf.add(animals, embedder="far")
    server.failures = [(503, {}, {"error": "overloaded"})]
    files(late_dot_md="# Late\n\nwhales sing songs.")
    report = await shelf.add(animals)
    found = (await shelf.search("whales sing")).passages[0]
    near = (await shelf.search("leaf3")).passages[0]
    held = await shelf.store.counts("notes")
    percents = await shelf.fill()
    filled = (await shelf.search("whales sing")).passages[0]

    assert "HTTP 503: overloaded" in report.trouble
    assert (found.document.title, found.vector, near.vector > 0) == ("Late", 0.0, True)
    assert (held.lacking, held.waiting, percents) == (1, 1, [100])
    assert filled.vector > 0.3
    assert (await shelf.store.counts("notes")).lacking == 0
    assert len([text for text in server.texts if "leaf3" in text and "Animal" in text]) == 1


async def test_merging_keeps_vectors_beside_those_that_are_still_missing(shelf, server, animals, files):
    await shelf.add(animals, embedder="far")
    for number in range(9):
        server.failures = [(503, {}, {})]
        files(**{f"late{number}_dot_md": f"# Late\n\nwhales sing song{number}."})
        await shelf.add(animals)
    near = (await shelf.search("leaf3")).passages[0]
    await shelf.fill()

    assert len(await shelf.store.segments()) < 10
    assert near.vector > 0
    assert (await shelf.search("whales song7")).passages[0].vector > 0.3


async def test_a_new_collection_can_begin_while_the_endpoint_is_away(shelf, server, animals):
    server.failures = [(503, {}, {})]
    report = await shelf.add(animals, embedder="far")
    findings = await shelf.search("leaf3")
    await shelf.fill()

    assert (report.added, bool(report.trouble)) == (10, True)
    assert findings.passages[0].document.title == "Animal 3"
    assert findings.warnings == ("notes: only words count; its vectors are still to be made.",)
    assert await shelf.vectors("leaf3") == (SMALL, pytest.approx(0.5, abs=0.4))
    assert (await shelf.search("leaf3")).warnings == ()


async def test_words_alone_search_while_the_endpoint_is_away_and_it_is_said(shelf, server, animals):
    await shelf.add(animals, embedder="far")
    server.failures = [(503, {}, {"error": "overloaded"})]
    findings = await shelf.search("leaf3")
    asked = len(server.asked)
    again = await shelf.search("leaf4")

    assert (findings.passages[0].document.title, findings.passages[0].vector) == ("Animal 3", 0.0)
    assert "Only words count" in findings.warnings[0]
    assert "HTTP 503: overloaded" in findings.warnings[0]
    assert again.warnings == findings.warnings
    assert len(server.asked) == asked
    assert "only words count" in (await shelf.complaints())[0]


async def test_statistics_notice_an_endpoint_that_goes_away_later(shelf, server, animals):
    await shelf.add(animals, embedder="far")
    healthy = await shelf.complaints()
    server.failures = [(401, {}, {"error": {"message": "expired"}})]
    await shelf.search("leaf3")
    degraded = await shelf.complaints()

    assert healthy == []
    assert "its key was refused (HTTP 401: expired)" in degraded[0]


async def test_statistics_tell_why_new_vectors_do_not_come(shelf, server, animals):
    await shelf.add(animals)
    await shelf.change()
    server.failures = [(404, {}, {"error": "model not found"})]
    told = await shelf.complaints()

    assert told[0] == "notes: re-embedding 0 % by 'far'; until then, the vectors of 'words' answer."
    assert "notes: the new vectors cannot be made now. The embedder 'far': it knows no model 'small'" in told[1]


async def test_a_name_that_means_another_model_by_now_makes_all_vectors_anew(shelf, store, server, animals):
    await shelf.add(animals, embedder="far")
    other = Shelf(store, server, prefixes=Prefixes(document="passage: "))
    report = await other.add(animals)
    during = await other.search("leaf3")
    await other.fill()
    after = await other.search("leaf3")
    await other.embedders.close()

    assert (report.unchanged, during.passages[0].vector, after.passages[0].vector > 0) == (10, 0.0, True)
    assert "No embedder here makes vectors of 'openai:small'" in during.warnings[0]
    assert (await shelf.collection()).embedder.startswith("openai:small#")


async def test_a_query_is_embedded_once_however_often_it_is_asked(shelf, server, animals):
    await shelf.add(animals, embedder="far")
    await shelf.add(animals, "other", "far")
    asked = len(server.asked)
    for _ in range(3):
        await shelf.search("leaf3", "notes", "other")

    assert len(server.asked) == asked + 1


async def test_collections_of_several_embedders_are_searched_together(shelf, files):
    root = files(a__ants_dot_md="# Ants\n\nants carry leaves.", b__bees_dot_md="# Bees\n\nbees dance at noon.")
    files(c__whales_dot_md="# Whales\n\nwhales sing.")
    await shelf.add(root / "a", "near", "words")
    await shelf.add(root / "b", "far", "far")
    await shelf.add(root / "c", "plain", "none")
    everything = ("near", "far", "plain")
    first = {query: (await shelf.search(query, *everything)).passages for query in ("ants", "bees", "whales")}

    assert [found[0].document.collection for found in first.values()] == ["near", "far", "plain"]
    assert [found[0].vector > 0 for found in first.values()] == [True, True, False]
    assert all(0 <= each.score <= 1 for found in first.values() for each in found)


async def test_filters_hold_for_every_embedder(shelf, files):
    root = files(a__ants_dot_md="ants carry leaves", a__ants_dot_txt="ants carry leaves too", b__b_dot_md="ants, too")
    await shelf.add(root / "a", "near", "words")
    await shelf.add(root / "b", "far", "far")
    wanted = Search("ants", ("near", "far"), 5, DocumentFilter(types=("markdown",)))
    found = (await shelf.retriever.search(wanted)).passages

    assert {each.document.type for each in found} == {"markdown"}
    assert {each.document.collection for each in found} == {"near", "far"}


async def test_vectors_can_be_given_up_and_made_anew(shelf, animals):
    await shelf.add(animals)
    await shelf.change("none")
    await shelf.fill()
    without = (await shelf.search("leaf3")).passages[0].vector
    await shelf.change("words")
    await shelf.fill()

    assert without == 0.0
    assert await shelf.vectors("leaf3") == ("words", pytest.approx(0.5, abs=0.4))


async def test_a_choice_that_changes_nothing_makes_nothing(shelf, server, animals):
    await shelf.add(animals, embedder="far")
    asked = len(server.asked)

    assert not await shelf.change("far")
    assert await shelf.fill() == []
    assert len(server.asked) == asked
    assert await shelf.change("far", again=True)
    assert await shelf.fill() == [40, 80, 100]


async def test_an_unknown_embedder_is_refused_with_the_nearest(shelf, animals):
    await shelf.add(animals)
    with pytest.raises(UnknownEmbedder, match="Did you mean 'words'"):
        await shelf.change("word")


async def test_another_length_than_before_is_told_and_mended(shelf, store, server, animals, files):
    await shelf.add(animals, embedder="far")
    server.size = 20
    files(late_dot_md="# Late\n\nwhales sing songs.")
    other = Shelf(store, server)
    report = await other.add(animals)
    await other.change("far", again=True)
    await other.fill()
    await other.embedders.close()

    assert "makes vectors of 20 numbers, but 48 are expected" in report.trouble
    assert (await shelf.collection()).dimensions == 20


async def test_a_running_library_makes_what_is_missing_and_tries_again(shelf, server, animals):
    await shelf.add(animals)
    server.failures = [(503, {}, {})]
    background = Background(shelf.store, shelf.embedders, first_wait_s=0.01)
    background.start()
    await shelf.change()
    await background.look()
    async with asyncio.timeout(150):
        while (await shelf.collection()).embedder != SMALL:
            await asyncio.sleep(0)
    await background.close()

    assert len(server.asked) == 4


async def test_a_removed_document_leaves_nothing_to_wait_for(shelf, server, animals):
    server.failures = [(503, {}, {})]
    await shelf.add(animals / "d1.md", embedder="far")
    source = str((animals / "d1.md").resolve())
    await shelf.store.apply(CollectionChange("notes", removals=(document_id("notes", source),)))

    assert (await shelf.store.counts("notes")).lacking == 0
    assert await shelf.fill() == []


async def test_whoever_comes_second_waits_for_the_first_and_asks_nobody(shelf, store, server, animals):
    await shelf.add(animals)
    server.gate = asyncio.Event()
    await shelf.change()
    first = asyncio.create_task(shelf.fill())
    while len(server.asked) < 2:
        await asyncio.sleep(0)
    seen = asyncio.Event()
    second = asyncio.create_task(fill(store, shelf.embedders, "notes", lambda _: seen.set()))
    await seen.wait()
    server.gate.set()
    await asyncio.gather(first, second)

    assert len(server.asked) == 3
    assert (await shelf.collection()).embedder == SMALL
