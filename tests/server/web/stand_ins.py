"""Native tools for the pages: one with every kind of parameter, hostile ones, and a stand-in for the knowledge base."""

import asyncio
import base64
from typing import Any

from toolcrib.core.requests import Result
from toolcrib.sources.native.functions import tool

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC"

EVERYTHING = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "What it is about", "minLength": 2, "maxLength": 80},
        "body": {"type": "string", "description": "As much as you like"},
        "priority": {"enum": ["low", "normal", "high"], "default": "normal"},
        "count": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "weight": {"type": ["number", "null"]},
        "urgent": {"type": "boolean"},
        "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 4},
        "days": {"type": "array", "items": {"enum": ["Mon", "Tue", "Wed"]}},
        "place": {
            "type": "object",
            "description": "Where it happens",
            "properties": {"city": {"type": "string"}, "floor": {"type": "integer"}},
            "required": ["city"],
        },
        "extra": {"type": "object"},
    },
    "required": ["title"],
    "additionalProperties": False,
}


@tool(input_schema=EVERYTHING, security_level="write", examples=[{"title": "Water the plants", "labels": ["home"]}])
def plan(arguments: dict[str, Any]) -> dict[str, Any]:
    """Plan something.

    Takes every kind of parameter there is and gives back what it understood.
    """
    return {"planned": arguments}


@tool(security_level="read_only", description=f"Says {HOSTILE}")
def shout(text: str = HOSTILE) -> str:
    return f"{text} \u202eevil {HOSTILE}"


@tool(security_level="read_only")
def snapshot() -> Result:
    """A picture of nothing in particular."""
    blocks = [
        {"type": "image", "mimeType": "image/png", "data": PIXEL},
        {"type": "image", "mimeType": "image/svg+xml", "data": base64.b64encode(b"<svg onload=alert(1)>").decode()},
        {"type": "image", "mimeType": 'image/png" onerror="x', "data": PIXEL},
        {"type": "text", "text": "one pixel"},
    ]
    return Result({"content": blocks})


@tool(security_level="read_only")
async def dawdle(seconds: float = 30.0) -> str:
    """Take its time."""
    await asyncio.sleep(seconds)
    return "done"


@tool(security_level="admin")
def launch(target: str) -> str:
    """Do something that matters."""
    return f"launched {target}"


PASSAGE = "Turn the key to the left, then press the green button. <b>Do not</b> press the red one."
CITATION = {
    "title": "Handbook",
    "source_url": "https://docs.example/handbook",
    "license": "CC-BY-4.0",
    "version": "v2.1",
}


@tool(name="kb_list_collections", security_level="read_only", input_schema={"type": "object"})
def list_collections(arguments: dict[str, Any]) -> dict[str, Any]:
    """The collections that can be searched."""
    common = {"metadata": {}, "created": "2026-01-01T00:00:00Z"}
    return {
        "collections": [
            {"collection_id": "handbook", "name": "Handbook", "description": "How things work", "documents": 12}
            | {"passages": 1204, **common},
            {
                "collection_id": "notes",
                "name": "Notes",
                "description": HOSTILE,
                "documents": 3,
                "passages": 31,
                **common,
            },
        ]
    }


@tool(name="kb_stats", security_level="read_only", input_schema={"type": "object"})
def stats(arguments: dict[str, Any]) -> dict[str, Any]:
    """How the collections are doing."""
    return {
        "status": "degraded",
        "reasons": ["notes: its index is in 50 pieces, which slows searches."],
        "collections": [
            {"collection_id": "handbook", "documents": 12, "passages": 1204, "last_added": "2026-02-01T00:00:00Z"},
            {"collection_id": "notes", "documents": 3, "passages": 31, "last_added": None},
        ],
        "totals": {"collections": 2, "documents": 15, "passages": 1235, "index_bytes": 4096},
    }


IDS = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 10}
QUESTION = {"type": "string", "minLength": 1, "maxLength": 1000}


@tool(
    name="kb_hybrid_search",
    security_level="read_only",
    input_schema={
        "type": "object",
        "properties": {
            "query": QUESTION,
            "collection_ids": IDS,
            "top_k": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        },
        "required": ["query", "collection_ids"],
    },
)
def hybrid_search(arguments: dict[str, Any]) -> dict[str, Any]:
    """Search by words and by meaning."""
    found = {
        "chunk_id": "doc_1-0-abc",
        "document_id": "doc_1",
        "collection_id": arguments["collection_ids"][0],
        "content": PASSAGE,
        "title": "Starting the machine",
        "score": 0.85,
        "citation": CITATION,
        "place": {"start": 9, "end": 9 + len(PASSAGE), "page": 3, "headings": ["Machines", "Starting"]},
        "highlights": [[PASSAGE.index("green"), PASSAGE.index("green") + 5]],
    }
    tricky = {**CITATION, "source_url": "javascript:alert(1)"}
    results = [found, {**found, "chunk_id": "x", "score": 0.4, "citation": tricky}]
    return {
        "results": [] if arguments["query"] == "nothing" else results,
        "query_info": {"processed_query": arguments["query"], "total_results": 2},
        "performance_metrics": {"total_time_ms": 4, "vector_search_time_ms": 2, "bm25_search_time_ms": 1},
    }


TEXT = f"Before.\n\n{PASSAGE}\n\nAfter {HOSTILE}"


@tool(name="kb_get_document", security_level="read_only", input_schema={"type": "object"})
def get_document(arguments: dict[str, Any]) -> dict[str, Any]:
    """One document, or a part of it."""
    if arguments.get("chunk_id") == "doc_1-0-abc":
        start, end = 9, 9 + len(PASSAGE)
    elif arguments.get("document_id") == "doc_1":
        start, end = arguments.get("range", {"start": 0})["start"], len(TEXT) - 5
    else:
        raise ValueError(f"No document {arguments!r}.")
    return {
        "document_id": "doc_1",
        "collection_id": "handbook",
        "title": "Starting",
        "type": "markdown",
        "date": None,
        "metadata": {},
        "citation": CITATION,
        "content": TEXT[start:end],
        "place": {"start": start, "end": end, "page": None},
        "total_characters": len(TEXT),
        "next": end,
        "outline": [],
        "pages": None,
    }


@tool(
    name="kb_answer",
    security_level="read_only",
    input_schema={
        "type": "object",
        "properties": {"question": QUESTION, "collection_ids": IDS},
        "required": ["question", "collection_ids"],
    },
)
def answer(arguments: dict[str, Any]) -> dict[str, Any]:
    """An answer with its sources."""
    first = "Turn the key to the left, then press the green button [1]."
    return {
        "answer": f"{first} It will play music.",
        "mode": "extractive",
        "citations": [{"marker": "[1]", "chunk_id": "doc_1-0-abc", "citation": CITATION, "content": PASSAGE}],
        "support": [
            {"sentence": first, "supported": True, "score": 0.96, "markers": ["[1]"]},
            {"sentence": "It will play music.", "supported": False, "score": 0.1, "markers": []},
        ],
        "model": None,
        "performance_metrics": {"total_time_ms": 5, "search_time_ms": 4, "model_time_ms": 0},
    }
