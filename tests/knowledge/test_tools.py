"""The kb_* tools as a caller meets them: through a Crib, with every schema checked."""

import pytest
from tests.knowledge.conftest import Base

from toolcrib import open_crib
from toolcrib.config.model import Config
from toolcrib.config.sections import KbConfig
from toolcrib.core.access import EVERYTHING
from toolcrib.core.access import Caller as CoreCaller
from toolcrib.crib.knowledge import kb_tools
from toolcrib.knowledge.definitions import TOOLS

GUIDE = """---
title: The ant guide
license: CC-BY-4.0
version: 3
team: insects
---
# Ants

Ants carry leaves many times their own weight. They walk in lines.

# Food

Ants farm mushrooms on the leaves. The queen eats first.
"""


@pytest.fixture
async def kb(tmp_path, files):
    path = tmp_path / "kb.db"
    base = Base(path, None)
    root = files(
        ants_dot_md=GUIDE,
        bees_dot_md="# Bees\n\n" + "Bees dance to tell where flowers are. " * 40,
        notes_dot_txt="Zebra.",
    )
    await base.add(root, collection="animals")
    await base.store.close()
    async with open_crib(Config(kb=KbConfig(enabled=True, path=str(path), docs=False, embedder="none"))) as crib:
        yield Caller(crib, root, path)


class Caller:
    def __init__(self, crib, root, path):
        self.crib, self.root, self.path = crib, root, path

    async def __call__(self, tool, **arguments):
        result = await self.crib.call(f"kb.{tool}", arguments)
        assert result.error is None, result.text
        return result.structured

    async def fails(self, tool, **arguments):
        result = await self.crib.call(f"kb.{tool}", arguments)
        assert result.error is not None
        return result.text

    async def first(self, query):
        return (await self("hybrid_search", query=query, collection_ids=["animals"]))["results"][0]


async def test_nothing_is_opened_before_a_tool_is_called(tmp_path):
    path = tmp_path / "none" / "kb.db"
    async with open_crib(Config(kb=KbConfig(enabled=True, path=str(path)))) as crib:
        assert {name for name in crib.catalog.routes if name.startswith("kb_")} == {
            "kb_hybrid_search",
            "kb_get_document",
            "kb_stats",
            "kb_list_collections",
            "kb_list_documents",
            "kb_resolve_citations",
            "kb_answer",
            "kb_add",
            "kb_remove",
            "kb_reindex",
            "kb_export",
            "kb_import",
        }
    assert not path.parent.exists()


def test_the_tools_read_or_write_as_their_names_say_and_say_what_they_are_for():
    tools = kb_tools(Config(kb=KbConfig(enabled=True)))

    assert {tool.name for tool in tools if tool.security_level == "write"} == {
        "kb_add",
        "kb_remove",
        "kb_reindex",
        "kb_import",
    }
    assert {tool.security_level for tool in tools} == {"read_only", "write"}
    assert all(tool.examples and tool.category and tool.output_schema and tool.timeout_s for tool in tools)


async def test_a_search_answers_in_its_written_shape(kb):
    found = await kb("hybrid_search", query="what do ants carry", collection_ids=["animals"], top_k=1)
    (result,) = found["results"]

    assert result["content"].startswith("# Ants")
    assert result["citation"] == {
        "title": "The ant guide",
        "source_url": (kb.root / "ants.md").as_uri(),
        "license": "CC-BY-4.0",
        "version": "3",
    }
    assert (result["collection_id"], result["title"]) == ("animals", "The ant guide")
    assert 0 < result["score"] <= 1
    assert result["place"]["headings"] == ["Ants"]
    marked = " ".join(result["content"][start:end] for start, end in result["highlights"])
    assert set(marked.split()) == {"Ants", "carry"}
    assert found["query_info"]["total_results"] >= 1
    assert set(found["performance_metrics"]) == {"total_time_ms", "vector_search_time_ms", "bm25_search_time_ms"}


async def test_how_many_there_are_is_told_whatever_number_is_wanted(kb):
    one, all_of_them = [
        await kb("hybrid_search", query="ants or bees", collection_ids=["*"], top_k=top_k) for top_k in (1, 100)
    ]
    totals = {found["query_info"]["total_results"] for found in (one, all_of_them)}

    assert (len(one["results"]), len(all_of_them["results"]) > 1) == (1, True)
    assert totals == {len(all_of_them["results"])}


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"document_types": ["text"]}, []),
        ({"document_types": ["markdown"], "metadata": {"team": "insects"}}, ["The ant guide"]),
        ({"date_range": {"start": "2999-01-01T00:00:00Z"}}, []),
        ({"date_range": {"end": "2999-01-01T00:00:00Z"}}, ["The ant guide"]),
    ],
)
async def test_filters_hold_before_anything_is_ranked(kb, filters, names):
    found = await kb("hybrid_search", query="ants mushrooms", collection_ids=["animals"], filters=filters)

    assert [result["title"] for result in found["results"]] == names


async def test_a_star_searches_every_collection(kb):
    everywhere = await kb("hybrid_search", query="ants mushrooms", collection_ids=["*"])
    there = await kb("hybrid_search", query="ants mushrooms", collection_ids=["animals"])

    assert everywhere["results"] == there["results"] != []


async def test_an_unknown_collection_is_an_error_with_the_nearest_name(kb):
    assert "Did you mean 'animals'?" in await kb.fails("hybrid_search", query="x", collection_ids=["animal"])


@pytest.mark.parametrize(
    "arguments",
    [{"query": "", "collection_ids": ["a"]}, {"query": "x", "collection_ids": []},
     {"query": "x", "collection_ids": ["a"] * 11},
     {"query": "x" * 1001, "collection_ids": ["a"]}, {"query": "x", "collection_ids": ["a"], "top_k": 101},
     {"query": "x"}],
)  # fmt: skip
async def test_arguments_outside_the_limits_are_refused(kb, arguments):
    result = await kb.crib.call("kb_hybrid_search", arguments)

    assert result.error.code == "TOOL_INVALID_INPUT"


async def test_a_document_is_read_whole_and_in_parts(kb):
    found = await kb.first("ants mushrooms")
    whole = await kb("get_document", document_id=found["document_id"])
    text = whole["content"]

    async def part(**wanted):
        return (await kb("get_document", document_id=found["document_id"], **wanted))["content"]

    assert (text[:7], text[-22:]) == ("# Ants\n", "The queen eats first.\n")
    assert [(entry["level"], entry["title"]) for entry in whole["outline"]] == [(1, "Ants"), (1, "Food")]
    assert await part(range={"unit": "characters", "start": 2, "end": 6}) == "Ants"
    assert await part(range={"unit": "lines", "start": 5, "end": 5}) == "# Food\n"
    assert await part(heading="food") == text[text.index("# Food") :]
    assert await part(range={"unit": "characters", "start": 9_999}) == ""
    assert "no pages" in await kb.fails(
        "get_document", document_id=found["document_id"], range={"unit": "pages", "start": 1}
    )
    assert "'Ants', 'Food'" in await kb.fails("get_document", document_id=found["document_id"], heading="Drink")
    assert "No document" in await kb.fails("get_document", document_id="nothing")


async def test_a_long_document_comes_in_pieces_that_make_the_whole(kb):
    found = await kb.first("bees dance flowers")
    pieces, at = [], 0
    while at is not None:
        wanted = {"unit": "characters", "start": at}
        answer = await kb("get_document", document_id=found["document_id"], range=wanted, max_characters=500)
        pieces.append(answer["content"])
        at = answer["next"]

    assert len(pieces) > 2
    assert "".join(pieces) == (await kb("get_document", document_id=found["document_id"]))["content"]


async def test_a_passage_is_read_with_its_neighbours(kb):
    found = await kb.first("bees dance flowers")
    alone = await kb("get_document", chunk_id=found["chunk_id"], neighbours=0)
    more = await kb("get_document", chunk_id=found["chunk_id"], neighbours=5)

    assert alone["content"] == found["content"]
    assert len(more["content"]) > len(alone["content"])


async def test_citations_are_resolved_and_checked(kb):
    found = await kb.first("ants carry leaves")
    quote = {"chunk_id": found["chunk_id"], "quote": "ants carry  leaves"}
    wrong = {"chunk_id": found["chunk_id"], "quote": "ants carry stones"}
    answer = await kb(
        "resolve_citations", citations=[found["chunk_id"], quote, wrong, "none-1-x"], text="So [1], not [7]."
    )
    first, second, third, fourth = answer["references"]

    assert (first["status"], first["quote_stands"], first["citation"]["license"]) == ("stands", None, "CC-BY-4.0")
    assert first["reference"] == (
        f"The ant guide, version 3, “Ants”, {(kb.root / 'ants.md').as_uri()}, licence CC-BY-4.0"
    )
    assert (second["quote_stands"], third["quote_stands"]) == (True, False)
    assert (fourth["status"], fourth["number"]) == ("missing", 4)
    assert answer["markers"] == [
        {"marker": "[1]", "number": 1, "known": True},
        {"marker": "[7]", "number": 7, "known": False},
    ]


async def test_a_citation_notices_that_its_text_has_moved_or_changed(kb, files):
    cats, dogs = ("# Cats\n\n" + "Cats sleep on warm roofs. " * 20), ("# Dogs\n\n" + "Dogs guard the yard. " * 20)
    files(pets_dot_md=f"{cats}\n\n{dogs}")
    base = Base(kb.path, None)
    await base.add(kb.root, collection="animals")
    cited = [(await kb.first(query))["chunk_id"] for query in ("cats sleep", "dogs guard")]
    files(pets_dot_md=f"{cats.replace('warm', 'cold')}\n\n# New\n\n{'Birds sing at dawn. ' * 20}\n\n{dogs}")
    await base.add(kb.root, collection="animals")
    await base.store.close()
    answer = await kb("resolve_citations", citations=cited)

    assert [reference["status"] for reference in answer["references"]] == ["changed", "moved"]


async def test_statistics_count_and_judge(kb):
    stats = await kb("stats", collection_ids=["animals"])

    assert (stats["status"], stats["reasons"]) == ("healthy", [])
    assert stats["collections"][0]["documents"] == 3
    assert stats["collections"][0]["document_types"] == {"markdown": 2, "text": 1}
    assert stats["totals"]["passages"] == stats["collections"][0]["passages"] > 3


async def test_statistics_say_what_is_wrong(tmp_path, files, embedder):
    base = Base(tmp_path / "kb.db", embedder)
    await base.add(files(a_dot_md="Some words."), collection="other")
    await base.store.close()
    async with open_crib(
        Config(kb=KbConfig(enabled=True, path=str(tmp_path / "kb.db"), docs=False, embedder="none"))
    ) as crib:
        degraded = (await crib.call("kb_stats", {})).structured

    assert degraded["status"] == "degraded"
    assert "other: only words count. No embedder here makes vectors of 'words'." in degraded["reasons"][0]


async def test_a_file_that_is_no_knowledge_base_is_unhealthy_and_told(tmp_path):
    (tmp_path / "kb.db").write_bytes(b"something else entirely, and long enough" * 100)
    async with open_crib(Config(kb=KbConfig(enabled=True, path=str(tmp_path / "kb.db"), docs=False))) as crib:
        stats = (await crib.call("kb_stats", {})).structured
        failed = await crib.call("kb_list_collections", {})

    assert stats["status"] == "unhealthy"
    assert "not a database" in stats["reasons"][0]
    assert failed.error.code == "TOOL_UNAVAILABLE"


async def test_collections_are_listed_and_filtered(kb):
    listed = (await kb("list_collections"))["collections"]

    assert [(entry["collection_id"], entry["documents"]) for entry in listed] == [("animals", 3)]
    assert (await kb("list_collections", name_contains="ANIM"))["collections"] == listed
    assert (await kb("list_collections", name_contains="plants"))["collections"] == []
    assert (await kb("list_collections", metadata={"a": 1}))["collections"] == []


async def test_without_a_model_an_answer_is_made_of_the_best_sentences(kb):
    answer = await kb("answer", question="What do ants farm?", collection_ids=["animals"])

    assert answer["mode"] == "extractive"
    assert "Ants farm mushrooms on the leaves. [1]" in answer["answer"]
    assert answer["citations"][0]["citation"]["title"] == "The ant guide"
    assert all(entry["supported"] for entry in answer["support"])
    assert answer["model"] is None


async def test_what_the_documents_do_not_say_is_said_plainly(kb):
    answer = await kb("answer", question="Who invented the steam engine?", collection_ids=["animals"])

    assert (answer["mode"], answer["answer"]) == ("none", "The documents do not contain the answer.")
    assert answer["citations"] == []


async def test_a_tool_of_the_users_own_keeps_its_name(tmp_path):
    from toolcrib import tool

    @tool(name="kb_stats", security_level="read_only")
    def mine() -> str:
        """Mine."""
        return "mine"

    config = Config(kb=KbConfig(enabled=True, path=str(tmp_path / "kb.db")))
    async with open_crib(config, tools=[mine]) as crib:
        assert (await crib.call("kb_stats", {})).text == "mine"


REMOTE = CoreCaller("token:abc", "token", EVERYTHING)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"filters": {"document_type": ["text"]}}, "did you mean 'document_types'?"),
        ({"filters": {"date_range": {"from": "2026-01-01"}}}, "unknown field 'from'; allowed: start, end"),
        ({"filters": {"date_range": {"start": "yesterday"}}}, "date_range.start: 'yesterday' is no date. Write 2026-"),
        ({"topk": 3}, "did you mean 'top_k'?"),
    ],
)  # fmt: skip
async def test_a_slip_in_a_filter_is_an_error_that_names_what_was_meant(kb, more, told):
    assert told in await kb.fails("hybrid_search", query="ants", collection_ids=["animals"], **more)


@pytest.mark.parametrize("tool", [entry["name"] for entry in TOOLS.values()])
async def test_no_kb_tool_takes_an_argument_that_it_does_not_know(kb, tool):
    result = await kb.crib.call(tool, {"no_such_argument": 1})

    assert result.error.code == "TOOL_INVALID_INPUT"
    assert "unknown field 'no_such_argument'" in result.text


async def test_a_citation_shows_the_address_that_a_document_gives_of_itself_or_was_added_with(kb, tmp_path):
    """``source_url`` or ``url`` of front matter, then what whoever added it said, then where it was read."""
    here = tmp_path / "more"
    here.mkdir()
    (here / "own.md").write_text("---\nsource_url: https://example.org/wasps\n---\n# Wasps\n\nWasps build with paper.")
    (here / "url.md").write_text("---\nurl: https://example.org/moths\n---\n# Moths\n\nMoths love lamps.")
    (here / "script.md").write_text("---\nurl: javascript:alert(1)\n---\n# Crickets\n\nCrickets chirp.")
    (tmp_path / "told.md").write_text("# Beetles\n\nBeetles shine.")
    config = Config(
        kb=KbConfig(enabled=True, path=str(kb.path), docs=False, embedder="none", add_from=(str(tmp_path),))
    )
    async with open_crib(config) as crib:
        caller = Caller(crib, kb.root, kb.path)
        await caller("add", sources=[str(here)], collection_id="animals")
        await caller(
            "add", sources=[str(tmp_path / "told.md")], collection_id="animals", source_url="https://a.example/b"
        )
        refused = await caller.fails("add", sources=[str(here)], collection_id="animals", source_url="/home/me")
        cited = {query: (await caller.first(query))["citation"]["source_url"] for query in
                 ("wasps paper", "moths lamps", "crickets chirp", "beetles shine")}  # fmt: skip

    assert list(cited.values()) == [
        "https://example.org/wasps",
        "https://example.org/moths",
        (here / "script.md").as_uri(),
        "https://a.example/b",
    ]
    assert "source_url: '/home/me' is no web address." in refused


async def test_a_caller_from_elsewhere_is_never_told_a_path_of_this_machine(kb):
    found = await kb.first("ants mushrooms")
    wanted = {
        "hybrid_search": {"query": "ants mushrooms", "collection_ids": ["animals"]},
        "get_document": {"document_id": found["document_id"]},
        "resolve_citations": {"citations": [found["chunk_id"]]},
        "answer": {"question": "What do ants carry?", "collection_ids": ["animals"]},
        "list_documents": {"collection_id": "animals", "limit": 1},
        "export": {"collection_ids": ["animals"]},
    }
    told = {tool: await kb.crib.call(f"kb_{tool}", given, caller=REMOTE) for tool, given in wanted.items()}
    first = told["list_documents"].structured
    rest = await kb.crib.call("kb_list_documents", {"collection_id": "animals", "after": first["next"]}, caller=REMOTE)

    assert all(result.success and str(kb.root) not in result.text for result in told.values())
    assert told["hybrid_search"].structured["results"][0]["citation"]["source_url"] is None
    assert told["resolve_citations"].structured["references"][0]["reference"].split(", ")[-2] == "ants.md"
    assert [entry["source"] for entry in (*first["documents"], *rest.structured["documents"])] == [
        "ants.md",
        "bees.md",
        "notes.txt",
    ]
    assert (await kb.first("ants mushrooms"))["citation"]["source_url"] == (kb.root / "ants.md").as_uri()
