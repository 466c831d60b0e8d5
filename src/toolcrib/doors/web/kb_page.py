"""The knowledge base, through its tools: collections, search, answers with citations, and documents."""

import time
from collections.abc import Mapping
from typing import Any

from toolcrib.core.call import ToolResult
from toolcrib.doors.http.answers import Answer, Problem
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web import kb_reading
from toolcrib.doors.web.kb_reading import (
    ANSWER,
    BEFORE,
    DOCUMENT,
    LIST,
    MOST_COLLECTIONS,
    SEARCH,
    STATS,
    TOOLS,
    Reading,
)
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.tool_rows import visible

TOP_K = 10
LONGEST_QUERY = 1_000


def kb_routes(pages: Pages) -> list[RouteSpec]:
    """The routes of the knowledge base."""

    async def show(visit: Visit) -> Answer:
        visit.need_known()
        return pages.render(visit, "kb/index.html", **await _index(pages, visit))

    async def read(visit: Visit) -> Answer:
        visit.need_known()
        reading = await _reading(pages, visit)
        wanted = {"unit": "characters", "start": reading.start}
        answer = await _document(pages, visit, {"document_id": reading.document, "range": wanted})
        return pages.render(visit, "kb/document.html", document=kb_reading.document(answer, reading))

    return [RouteSpec("GET", "/kb", show), RouteSpec("GET", "/kb/document", read)]


async def _reading(pages: Pages, visit: Visit) -> Reading:
    """What an address asks for; where a passage stands is asked first."""
    if chunk := visit.query.get("chunk", "")[:500]:
        return kb_reading.reading_of(await _document(pages, visit, {"chunk_id": chunk, "neighbours": 0}))
    start, end = visit.number("start", 0, 10**9), visit.number("end", 0, 10**9)
    begin = visit.number("from", max(0, start - BEFORE), 10**9)
    return Reading(visit.query.get("id", "")[:500], begin, (start, end) if end > start else None)


async def _document(pages: Pages, visit: Visit, wanted: Mapping[str, Any]) -> Any:
    result = await _ask(pages, visit, DOCUMENT, wanted)
    if result.error is not None:
        raise Problem(404, "RESOURCE_NOT_FOUND", f"This document cannot be shown. {result.error.message[:300]}")
    return result.data


async def _ask(pages: Pages, visit: Visit, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
    return await pages.premises.crib.call(tool, arguments, caller=visit.caller)


async def _index(pages: Pages, visit: Visit) -> dict[str, Any]:
    here = {route.name for route in visible(pages.premises.crib, visit)}
    query = visit.query.get("q", "").strip()[:LONGEST_QUERY]
    values: dict[str, Any] = {
        "missing": [name for name in TOOLS if name not in here],
        "is_here": LIST in here,
        "can_ask": ANSWER in here,
        "q": query,
        "mode": "ask" if visit.query.get("mode") == "ask" and ANSWER in here else "search",
        "collection": visit.query.get("collection", "")[:200],
        "collections": [],
        "problem": "",
        "found": None,
        "answer": None,
        "health": kb_reading.health(None),
        "took_s": 0.0,
    }
    if LIST not in here:
        return values
    listing = await _ask(pages, visit, LIST, {})
    stats = await _ask(pages, visit, STATS, {}) if STATS in here else None
    values["problem"] = listing.error.message if listing.error else ""
    values["collections"] = kb_reading.collections(listing.data, stats.data if stats and stats.success else None)
    values["health"] = kb_reading.health(stats.data if stats and stats.success else None)
    return values | (await _found(pages, visit, values) if query and values["collections"] else {})


async def _found(pages: Pages, visit: Visit, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a search or a question came to."""
    known = [entry["id"] for entry in values["collections"]]
    chosen = [values["collection"]] if values["collection"] in known else known[:MOST_COLLECTIONS]
    is_question = values["mode"] == "ask"
    asked = {"question": values["q"]} if is_question else {"query": values["q"], "top_k": TOP_K}
    arguments = {**asked, "collection_ids": chosen}
    began = time.perf_counter()
    result = await _ask(pages, visit, ANSWER if is_question else SEARCH, arguments)
    took = {"took_s": time.perf_counter() - began}
    if result.error is not None:
        return took | {"problem": result.error.message}
    if is_question:
        return took | {"answer": kb_reading.answered(result.data)}
    return took | {"found": kb_reading.results(result.data)}
