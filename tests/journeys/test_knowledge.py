"""The six ``kb_*`` tools by every way in: an official client over stdio and HTTP, and the command line."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.fleet import launcher
from tests.fleet.clients import Place, SdkClient
from tests.fleet.gateway import TOOLCRIB, serving, stdio_command
from tests.fleet.running import homely

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

Json = dict[str, Any]
DOORS = ("stdio", "http", "command line")
CLIENTS = {"stdio": SdkClient(2, "legacy"), "http": SdkClient(2, "modern")}
COLLECTION = {"collection_ids": ["handbook"]}

HANDBOOK = """---
title: The handbook
license: CC-BY-4.0
version: 2.1
date: 2026-01-31
---
# Leave

Everybody has thirty days of leave in a year. Ask for it two weeks before it begins.

# Notice

The notice period is three months. It begins with the first day of the next month.
"""


def shape(properties: Json, *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def listed(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


TEXT, NUMBER, COUNT = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0}
MAYBE = {"type": ["string", "null"]}
CITATION = shape(
    {"title": TEXT, "source_url": MAYBE, "license": MAYBE, "version": MAYBE}, "title", "license", "version"
)
FILTERS = shape(
    {"document_types": listed(TEXT), "date_range": shape({"start": TEXT, "end": TEXT})},
)
IDS = listed(TEXT, minItems=1, maxItems=10)
SEARCH_INPUT = shape(
    {
        "query": {"type": "string", "minLength": 1, "maxLength": 1000},
        "collection_ids": IDS,
        "top_k": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "filters": FILTERS,
    },
    "query",
    "collection_ids",
)
RESULT = shape(
    {
        "chunk_id": TEXT,
        "document_id": TEXT,
        "collection_id": TEXT,
        "content": TEXT,
        "title": TEXT,
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "citation": CITATION,
    },
    *("chunk_id", "document_id", "collection_id", "content", "title", "score", "citation"),
)
OUTPUTS: dict[str, Json] = {
    "kb_hybrid_search": shape(
        {
            "results": listed(RESULT, minItems=1),
            "query_info": shape({"processed_query": TEXT, "total_results": COUNT}, "processed_query", "total_results"),
            "performance_metrics": shape(
                {"total_time_ms": COUNT, "vector_search_time_ms": COUNT, "bm25_search_time_ms": COUNT},
                *("total_time_ms", "vector_search_time_ms", "bm25_search_time_ms"),
            ),
        },
        *("results", "query_info", "performance_metrics"),
    ),
    "kb_get_document": shape(
        {"document_id": TEXT, "title": TEXT, "content": TEXT, "citation": CITATION, "total_characters": COUNT},
        *("document_id", "title", "content", "citation", "total_characters"),
    ),
    "kb_stats": shape(
        {
            "status": {"enum": ["healthy", "degraded", "unhealthy"]},
            "reasons": listed(TEXT),
            "collections": listed(
                shape({"collection_id": TEXT, "documents": COUNT, "passages": COUNT}, "documents", "passages"),
                minItems=1,
            ),
        },
        *("status", "reasons", "collections"),
    ),
    "kb_list_collections": shape(
        {
            "collections": listed(
                shape(
                    {"collection_id": TEXT, "name": TEXT, "metadata": {"type": "object"}}, "collection_id", "metadata"
                ),
                minItems=1,
            )
        },
        "collections",
    ),
    "kb_resolve_citations": shape(
        {
            "references": listed(
                shape(
                    {"chunk_id": TEXT, "status": {"const": "stands"}, "citation": CITATION, "reference": TEXT},
                    *("chunk_id", "status", "citation", "reference"),
                ),
                minItems=1,
            )
        },
        "references",
    ),
    "kb_answer": shape(
        {
            "answer": TEXT,
            "mode": {"enum": ["generated", "extractive", "none"]},
            "citations": listed(shape({"marker": TEXT, "chunk_id": TEXT, "citation": CITATION}, "marker", "citation")),
        },
        *("answer", "mode", "citations"),
    ),
}

BAD = [
    ("kb_hybrid_search", {"collection_ids": ["handbook"]}, ["query"]),
    ("kb_hybrid_search", {"query": "x", **COLLECTION, "top_k": 101}, ["top_k", "100"]),
    ("kb_hybrid_search", {"query": "x" * 1001, **COLLECTION}, ["query", "1000"]),
    ("kb_hybrid_search", {"query": "x", "colection_ids": ["handbook"]}, ["collection_ids"]),
    ("kb_hybrid_search", {"query": "x", "collection_ids": ["handbok"]}, ["Did you mean 'handbook'?"]),
    ("kb_get_document", {"document_id": "nothing"}, ["nothing", "kb_hybrid_search"]),
    ("kb_answer", {"question": "", **COLLECTION}, ["question"]),
    ("kb.hybrid_serch", {"query": "x", **COLLECTION}, ["kb_hybrid_search"]),
]


def command(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    argv = [*TOOLCRIB, *words, "--config", str(home / "toolcrib.toml")]
    return launcher.run(argv, stdin="", timeout_s=150, cwd=home, env=homely(home))


@pytest.fixture(scope="module")
def home(fleet: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a handbook in its knowledge base."""
    folder = tmp_path_factory.mktemp("knowledge").resolve()
    (folder / "toolcrib.toml").write_text("[kb]\ndocs = false\nembedder = 'none'\n")
    (folder / "handbook.md").write_text(HANDBOOK)
    added = command(folder, "kb", "add", "handbook.md", "--collection", "handbook")
    assert added.returncode == 0, added.stderr
    return folder


@pytest.fixture(scope="module")
def good(home: Path) -> dict[str, Json]:
    """What each tool is asked, with ids that exist."""
    found = json.loads(command(home, "kb", "search", "notice period", "--json").stdout)["results"][0]
    filters = {"document_types": ["markdown"], "date_range": {"start": "2026-01-01T00:00:00Z"}}
    return {
        "kb_hybrid_search": {"query": "notice period", **COLLECTION, "top_k": 3, "filters": filters},
        "kb_get_document": {"document_id": found["document_id"], "range": {"unit": "lines", "start": 1, "end": 3}},
        "kb_stats": COLLECTION,
        "kb_list_collections": {"name_contains": "hand"},
        "kb_resolve_citations": {"citations": [found["chunk_id"]], "text": "Three months. [1]"},
        "kb_answer": {"question": "How long is the notice period?", **COLLECTION},
    }


@pytest.fixture(scope="module")
def tools() -> dict[str, Json]:
    """The tools as clients are shown them, by name; filled by the conversations."""
    return {}


@pytest.fixture(scope="module")
def outcomes(
    home: Path, good: dict[str, Json], tools: dict[str, Json]
) -> "Iterator[Callable[[str], list[tuple[bool, Json, str]]]]":
    """What each call came to by a door: whether it went well, its data, and all of its words."""
    asked = [*good.items(), *((tool, arguments) for tool, arguments, _ in BAD)]
    known: dict[str, list[tuple[bool, Json, str]]] = {}
    with serving(home / "toolcrib.toml") as (url, _):
        places = {
            "stdio": Place(home, argv=stdio_command(home / "toolcrib.toml")),
            "http": Place(home, url=url),
        }

        def through(door: str) -> list[tuple[bool, Json, str]]:
            if door not in known and door in places:
                script = [{"op": "call", "tool": tool, "arguments": arguments} for tool, arguments in asked]
                listing, *said = CLIENTS[door].converse(places[door], [{"op": "list"}, *script])["outcomes"]
                tools.update({tool["name"]: tool for tool in listing["tools"]})
                known[door] = [_of_client(each) for each in said]
            elif door not in known:
                known[door] = [_of_command(home, tool, arguments) for tool, arguments in asked]
            return known[door]

        yield through


def _of_client(outcome: Json) -> tuple[bool, Json, str]:
    result = outcome.get("result") or {}
    is_well = not outcome.get("error") and not result.get("isError")
    return is_well, result.get("structuredContent") or {}, json.dumps(outcome, ensure_ascii=False)


def _of_command(home: Path, tool: str, arguments: Json) -> tuple[bool, Json, str]:
    done = command(home, "call", tool, "--input-json", json.dumps(arguments))
    data = json.loads(done.stdout) if done.returncode == 0 else {}
    return done.returncode == 0, data, done.stdout + done.stderr


@pytest.mark.parametrize("door", DOORS)
def test_every_tool_answers_in_its_written_shape(door: str, outcomes: Any, good: dict[str, Json]):
    jsonschema_rs.validator_for(SEARCH_INPUT).validate(good["kb_hybrid_search"])
    answers = dict(zip(good, outcomes(door)[: len(good)], strict=True))

    assert [text for is_well, _, text in answers.values() if not is_well] == []
    for tool, (_, data, _) in answers.items():
        jsonschema_rs.validator_for(OUTPUTS[tool]).validate(data)
    cited = {"title": "The handbook", "license": "CC-BY-4.0", "version": "2.1"}
    assert answers["kb_hybrid_search"][1]["results"][0]["citation"].items() >= cited.items()
    assert answers["kb_get_document"][1]["content"].strip().startswith("# Leave")
    assert answers["kb_stats"][1]["collections"][0]["documents"] == 1
    assert answers["kb_resolve_citations"][1]["references"][0]["citation"].items() >= cited.items()
    assert answers["kb_resolve_citations"][1]["markers"] == [{"marker": "[1]", "number": 1, "known": True}]
    assert answers["kb_answer"][1]["answer"].startswith("The notice period is three months. [1]")
    assert answers["kb_answer"][1]["citations"][0]["citation"].items() >= cited.items()


@pytest.mark.parametrize("door", DOORS)
def test_what_cannot_be_meant_is_refused_with_what_was_probably_meant(door: str, outcomes: Any, good: dict[str, Json]):
    for (tool, arguments, words), (is_well, _, text) in zip(BAD, outcomes(door)[len(good) :], strict=True):
        assert not is_well, (tool, arguments)
        assert [word for word in words if word not in text] == [], text
        assert "Traceback" not in text


def test_clients_are_shown_the_written_limits(outcomes: Any, tools: dict[str, Json]):
    outcomes("stdio")
    search = tools["kb_hybrid_search"]["inputSchema"]

    assert set(OUTPUTS) <= set(tools)
    assert search["required"] == ["query", "collection_ids"]
    for name, wanted in SEARCH_INPUT["properties"].items():
        shown = {key: value for key, value in search["properties"][name].items() if key in wanted}
        if name != "filters":
            assert shown == wanted
    assert set(FILTERS["properties"]) <= set(search["properties"]["filters"]["properties"])
