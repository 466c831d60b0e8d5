import asyncio
import sys

import pytest
from tests.knowledge.conftest import Base

from toolcrib.core.errors import DamagedIndex, UnknownCollection
from toolcrib.core.knowledge import DocumentFilter, Merging
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.retrieve import Search, fold
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.postgres.database import StoreSettings


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    return tmp_path / "kb.db" if request.param == "sqlite" else request.getfixturevalue("store_settings")


async def test_an_empty_collection_has_nothing_to_find(base, files):
    await base.add(files())

    assert (await base.search("anything")).passages == ()


async def test_an_unknown_collection_is_named_with_the_nearest(base, files):
    await base.add(files(a_dot_md="x"))

    with pytest.raises(UnknownCollection, match="Did you mean 'notes'"):
        await base.search("x", "note")


async def test_near_copies_are_shown_once(base, files):
    text = "Ants carry leaves many times their own weight and store them below the ground for the winter months."
    root = files(a_dot_md=text, b_dot_md=f"{text} Really.", c_dot_md="Ants and bees are insects of different kinds.")
    await base.add(root)
    found = await base.found("ants")

    assert "c.md" in found
    assert len({"a.md", "b.md"} & set(found)) == 1


def test_folding_keeps_the_first_of_what_is_alike_and_no_more_than_wanted():
    one = "one two three four five six seven eight nine ten"
    other = "something else entirely here"

    assert fold([one, one.upper(), f"{one} eleven", other, "last"], str, 2) == [one, other]


async def test_several_collections_are_searched_as_one(base, files):
    root = files(a__x_dot_md="Ants carry leaves.", b__y_dot_md="Ants carry stones.")
    await base.add(root / "a", collection="one")
    await base.add(root / "b", collection="two")

    assert sorted(await base.found("ants carry", "one", "two")) == ["x.md", "y.md"]
    assert await base.found("ants carry", "two") == ["y.md"]


async def test_the_order_is_the_same_however_the_index_is_cut(base, files, tmp_path, embedder):
    names = {f"f{n}_dot_md": f"# {n}\n\nThe same words in different orders {n} {'leaf ' * (n % 3)}" for n in range(12)}
    root = files(**names)
    whole = Base(tmp_path / "whole.db", embedder)
    await whole.add(root)
    for name in sorted(names):
        await base.add(root / name.replace("_dot_", "."))
    one = await whole.found("leaf words", top_k=12)
    await whole.store.close()

    assert await base.found("leaf words", top_k=12) == one
    assert len(one) > 3


async def test_a_filter_that_nothing_passes_finds_nothing(base, files):
    await base.add(files(a_dot_md="Ants carry leaves."))

    assert await base.found("ants", wanted=DocumentFilter(types=("pdf",))) == []


def _opening(place):
    if isinstance(place, StoreSettings):
        return f"""
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.stores.postgres.knowledge import PgKnowledge
store = PgKnowledge(StoreSettings({place.url!r}))"""
    return f"""
from toolcrib.stores.knowledge.store import SqliteKnowledge
store = SqliteKnowledge(Path({str(place)!r}))"""


async def test_what_another_process_stores_is_found_at_once(base, files):
    root = files(a_dot_md="Ants carry leaves.")
    await base.add(root)
    await base.found("ants")
    (root / "b.md").write_text("Zebras have stripes.")
    program = f"""
import asyncio
from pathlib import Path
from toolcrib.knowledge.ingest import Ingest
from toolcrib.knowledge.library import refuse_foreign
from toolcrib.knowledge.survey import Adding, SourceRoot
{_opening(base.path)}
ingest = Ingest(store, None, refuse_foreign)
asyncio.run(ingest.add([SourceRoot(Path({str(root)!r}))], Adding("notes")))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)

    assert await process.wait() == 0
    assert await base.found("zebras stripes", top_k=1) == ["b.md"]


async def test_searches_go_on_while_documents_are_added(base, files, embedder):
    root = files(**{f"f{n}_dot_md": f"# {n}\n\nWords about topic{n}." for n in range(40)})
    await base.add(root / "f0.md")
    other = Base(base.path, embedder)
    adding = asyncio.create_task(other.add(root))
    searches = 0
    while not adding.done():
        assert await base.found("topic0", top_k=1) == ["f0.md"]
        searches += 1
    await adding
    await other.store.close()

    assert searches
    assert len({(await base.found(f"topic{n}", top_k=1))[0] for n in range(40)}) == 40


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_an_index_of_another_format_is_made_anew_from_the_texts(base, files):
    await base.add(files(a_dot_md="Ants carry leaves."))
    (record,) = await base.store.segments()
    rows = await base.store.segment_rows(record.id)
    owners = tuple(zip(rows.documents, rows.ordinals, strict=True))
    await base.store.merge(Merging("notes", (record,), b"TCSEG\xff of another time", owners, 0))
    with pytest.raises(DamagedIndex):
        await base.search("ants")
    library = Library(SqliteKnowledge(base.path), lambda: base.embedder)
    found = await library.search(Search("ants", ("notes",)))
    await library.close()

    assert [each.text for each in found.passages] == ["Ants carry leaves."]


async def test_the_total_does_not_depend_on_how_many_results_are_wanted(base, files):
    """One document has the word; all others are only near in meaning, and count as well."""
    animals = {f"{name}_dot_md": f"{name} eat the green leaves of a tree" for name in ("ants", "bees", "cows", "deer")}
    await base.add(files(**animals, other_dot_md="Nothing of that"))

    one, many = await base.search("deer", top_k=1), await base.search("deer", top_k=100)

    assert (len(one.passages), one.total) == (1, many.total)
    assert many.total >= len(many.passages) >= 1
