"""The knowledge base, through its tools: collections, search, answers with citations, and documents."""

import asyncio
import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec

from toolcrib.core.requests import Result
from toolcrib.server.answers import HttpAnswer, HttpProblem
from toolcrib.server.visit import PageRequest, UploadedFile
from toolcrib.server.web.markdown import render_markdown
from toolcrib.server.web.render import PageRoutes, Pages, go_on
from toolcrib.server.web.static_files import GUARDING, NO_STORE
from toolcrib.stores.files import make_directory, replace_bytes
from toolcrib.stores.paths import upload_directory

LIST, SEARCH, ANSWER, DOCUMENT, STATS = (
    "kb_list_collections",
    "kb_hybrid_search",
    "kb_answer",
    "kb_get_document",
    "kb_stats",
)
ADD, REMOVE, REINDEX, DOCUMENTS = "kb_add", "kb_remove", "kb_reindex", "kb_list_documents"
EXPORT, IMPORT = "kb_export", "kb_import"
TOOLS = (LIST, SEARCH, ANSWER, DOCUMENT, STATS)
EVERY = (*TOOLS, ADD, REMOVE, REINDEX, DOCUMENTS, EXPORT, IMPORT)
MOST_SKIPPED = 10
BEFORE = 2_000
"""How many characters before a passage are shown with it."""
TONES = {"healthy": "good", "degraded": "warn", "unhealthy": "bad"}
_MARK = re.compile(r"\[(\d{1,3})\]")


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text that is marked or not."""

    text: str
    is_marked: bool = False


def texts(value: Any) -> Sequence[Any]:
    """A list, whatever came."""
    return value if isinstance(value, list | tuple) else ()


def fields(value: Any) -> Mapping[str, Any]:
    """An object, whatever came."""
    return value if isinstance(value, Mapping) else {}


def text(value: Any) -> str:
    """A text, whatever came."""
    return value if isinstance(value, str) else "" if value is None or isinstance(value, bool) else str(value)


def marked(content: str, spans: Sequence[tuple[int, int]]) -> list[Run]:
    """The text with these ranges of it marked; what is out of order or out of it is left out."""
    runs, at = [], 0
    for start, end in spans:
        if at <= start < end <= len(content):
            runs += [Run(content[at:start]), Run(content[start:end], is_marked=True)]
            at = end
    return [run for run in (*runs, Run(content[at:])) if run.text]


def _spans(value: Any) -> list[tuple[int, int]]:
    pairs = [texts(pair) for pair in texts(value)]
    return sorted((pair[0], pair[1]) for pair in pairs if len(pair) == 2 and all(isinstance(at, int) for at in pair))


def collections(listing: Any, stats: Any) -> list[dict[str, Any]]:
    """The collections with how they are doing; what is wrong with one begins with its name."""
    counted = {text(entry.get("collection_id")): entry for entry in map(fields, _many(stats))}
    reasons = [text(reason) for reason in texts(fields(stats).get("reasons"))]
    return [_collection(fields(entry), counted, reasons) for entry in _many(listing)]


def _many(answer: Any) -> Sequence[Any]:
    return texts(fields(answer).get("collections"))


def _collection(
    entry: Mapping[str, Any], counted: Mapping[str, Mapping[str, Any]], reasons: Sequence[str]
) -> dict[str, Any]:
    name = text(entry.get("collection_id"))
    known = {**entry, **counted.get(name, {})}
    why = [reason.removeprefix(f"{name}: ") for reason in reasons if reason.startswith(f"{name}: ")]
    state = "degraded" if why else "healthy" if name in counted else ""
    return {
        "id": name,
        "name": text(entry.get("name")) or name,
        "about": text(entry.get("description")),
        "documents": known.get("documents") if isinstance(known.get("documents"), int) else None,
        "passages": known.get("passages") if isinstance(known.get("passages"), int) else None,
        "updated": text(known.get("last_added") or known.get("created")),
        "health": state,
        "tone": TONES.get(state, "quiet"),
        "why": " ".join(why),
    }


def health(stats: Any) -> dict[str, Any]:
    """How the whole is doing, and why."""
    state = text(fields(stats).get("status"))
    reasons = [text(reason) for reason in texts(fields(stats).get("reasons"))]
    return {"state": state, "tone": TONES.get(state, "quiet"), "reasons": reasons}


def results(answer: Any) -> list[dict[str, Any]]:
    """The passages a search found."""
    return [_result(fields(entry)) for entry in texts(fields(answer).get("results"))]


def _result(entry: Mapping[str, Any]) -> dict[str, Any]:
    score, place = entry.get("score"), fields(entry.get("place"))
    where = {name: place[name] for name in ("start", "end") if isinstance(place.get(name), int)}
    document = text(entry.get("document_id"))
    return {
        "title": text(entry.get("title")) or text(fields(entry.get("citation")).get("title")) or "Untitled",
        "runs": marked(text(entry.get("content")), _spans(entry.get("highlights"))),
        "score": float(score) if isinstance(score, int | float) else None,
        "collection": text(entry.get("collection_id")),
        "headings": [text(heading) for heading in texts(place.get("headings"))],
        "page": place.get("page") if isinstance(place.get("page"), int) else None,
        "citation": citation(entry.get("citation")),
        "href": document_address(id=document, **where) if document else "",
    }


def citation(value: Any) -> dict[str, str]:
    """Where something comes from; only an address of the web becomes a link."""
    found = fields(value)
    url = text(found.get("source_url"))
    return {
        "title": text(found.get("title")),
        "url": url if url.startswith(("http://", "https://")) else "",
        "source": url,
        "license": text(found.get("license")),
        "version": text(found.get("version")),
    }


def document_address(**wanted: str | int) -> str:
    """The page of a document: by its ``id``, with ``start`` and ``end`` to be marked, or by a passage (``chunk``)."""
    return f"/kb/document?{urlencode(wanted)}"


def answered(value: Any) -> dict[str, Any]:
    """An answer with its citations, and how far each sentence is supported by them."""
    found = fields(value)
    cited = [_cited(fields(entry)) for entry in texts(found.get("citations"))]
    return {
        "text": text(found.get("answer")),
        "mode": text(found.get("mode")),
        "model": text(found.get("model")),
        "sentences": [_sentence(fields(entry)) for entry in texts(found.get("support"))],
        "citations": cited,
        "marks": {entry["mark"] for entry in cited},
    }


def _cited(entry: Mapping[str, Any]) -> dict[str, Any]:
    chunk = text(entry.get("chunk_id"))
    where = citation(entry.get("citation"))
    return {
        **where,
        "mark": text(entry.get("marker")).strip("[]"),
        "content": text(entry.get("content")),
        "href": document_address(chunk=chunk) if chunk else "",
        "title": where["title"] or "Untitled",
    }


def _sentence(entry: Mapping[str, Any]) -> dict[str, Any]:
    score = entry.get("score")
    return {
        "runs": linked(text(entry.get("sentence"))),
        "is_supported": entry.get("supported") is True,
        "support": float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None,
    }


def linked(sentence: str) -> list[Run]:
    """A sentence with its marks ``[1]`` as runs of their own: marked runs hold the number."""
    runs, at = [], 0
    for found in _MARK.finditer(sentence):
        runs += [Run(sentence[at : found.start()]), Run(found[1], is_marked=True)]
        at = found.end()
    return [run for run in (*runs, Run(sentence[at:])) if run.text]


@dataclass(frozen=True, slots=True)
class Reading:
    """Which document is read, from where, and what of it is marked; places are counted in characters."""

    document: str
    start: int = 0
    marked: tuple[int, int] | None = None


def reading_of(value: Any) -> Reading:
    """Where a passage stands that was asked for alone."""
    place = fields(fields(value).get("place"))
    start, end = place.get("start"), place.get("end")
    spans = (start, end) if isinstance(start, int) and isinstance(end, int) else None
    return Reading(text(fields(value).get("document_id")), max(0, (spans or (0, 0))[0] - BEFORE), spans)


def document(value: Any, reading: Reading) -> dict[str, Any]:
    """A part of a document with one passage of it marked."""
    found = fields(value)
    content, place = text(found.get("content")), fields(found.get("place"))
    start = place.get("start") if isinstance(place.get("start"), int) else reading.start
    start = start if isinstance(start, int) else 0
    spans = [(reading.marked[0] - start, reading.marked[1] - start)] if reading.marked else []
    further, name = found.get("next"), text(found.get("document_id"))
    facts = {"Type": "type", "Date": "date", "Pages": "pages"}
    is_markdown = text(found.get("type")) == "markdown"
    return {
        "title": text(found.get("title")) or "Untitled",
        "runs": marked(content, spans),
        "rendered": render_markdown(content, spans[0] if spans else None) if is_markdown else None,
        "is_marked": bool(spans),
        "citation": citation(found.get("citation")),
        "collection": text(found.get("collection_id")),
        "facts": [(label, text(found.get(key))) for label, key in facts.items() if text(found.get(key))],
        "from_start": document_address(id=name) if start > 0 else "",
        "further": f"{document_address(id=name)}&from={further}" if isinstance(further, int) else "",
    }


ROUTES = PageRoutes()
NOTHING: Mapping[str, str] = {}
TOP_K = 10
SHOWN = 50
LONGEST_QUERY = 1_000


@ROUTES.get("/kb")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    return pages.render(visit, "kb/index.html", **await _index(visit))


@ROUTES.get("/kb/document")
async def _read(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    reading = await _reading(visit)
    wanted = {"unit": "characters", "start": reading.start}
    answer = await _document(visit, {"document_id": reading.document, "range": wanted})
    return pages.render(visit, "kb/document.html", document=document(answer, reading))


@ROUTES.get("/kb/collection")
async def _collection_page(pages: Pages, visit: PageRequest) -> HttpAnswer:
    """The documents of one collection, some at a time."""
    visit.need_known()
    values = await _index(visit)
    wanted = visit.query.get("id", "")[:200]
    entry = next((one for one in values["collections"] if one["id"] == wanted), None)
    if entry is None:
        raise HttpProblem(404, "RESOURCE_NOT_FOUND", f"There is no collection {wanted!r}.")
    listed: Any = {}
    if values["can_list"]:
        asked = {"collection_id": wanted, "limit": SHOWN} | (
            {"after": after} if (after := visit.query.get("after")) else {}
        )
        listed = (await _ask(visit, DOCUMENTS, asked)).data
    return pages.render(
        visit, "kb/collection.html", **values | {"entry": entry, "listed": documents_of(listed, wanted)}
    )


def documents_of(answer: Any, collection: str) -> dict[str, Any]:
    """The documents of a listing, with the way to each and to the next ones."""
    found = fields(answer)
    further = text(found.get("next"))
    return {
        "documents": [_listed_document(fields(entry)) for entry in texts(found.get("documents"))],
        "further": f"/kb/collection?{urlencode({'id': collection, 'after': further})}" if further else "",
    }


def _listed_document(entry: Mapping[str, Any]) -> dict[str, Any]:
    name, size = text(entry.get("document_id")), entry.get("bytes")
    return {
        "id": name,
        "title": text(entry.get("title")) or text(entry.get("source")) or "Untitled",
        "source": text(entry.get("source")),
        "type": text(entry.get("type")),
        "bytes": size if isinstance(size, int) else None,
        "added": text(entry.get("added")),
        "href": document_address(id=name),
    }


@ROUTES.post("/kb/upload")
async def _upload(pages: Pages, visit: PageRequest) -> HttpAnswer:
    """Take files of the visitor's own machine in: they are kept beside the knowledge base, and added from there."""
    visit.need_known()
    sent, files = visit.files()
    collection = sent.get("collection", "").strip() or "default"
    if not files:
        return await _done(pages, visit, "Choose at least one file.", "kb_added", collection, sent)
    folder = upload_directory(visit.served.project.around.env)
    paths = [await asyncio.to_thread(_keep, folder, file) for file in files]
    report = await _work(pages, visit, ADD, {"sources": paths, "collection_id": collection})
    problem = _trouble(report)
    if problem is None and (reasons := skipped(report.data)):
        problem = f"Left out of {collection}: {reasons}"
    return await _done(pages, visit, problem, "kb_added", collection, sent)


def _keep(folder: Path, file: UploadedFile) -> str:
    """Where an uploaded file is: in a folder of its own for each content, so that nothing is overwritten by a name."""
    name = re.sub(r"[^\w.() -]", "_", file.name.replace("\\", "/").rpartition("/")[2]).lstrip(". ")[-120:] or "file.txt"
    path = folder / hashlib.sha256(file.content).hexdigest()[:16] / name
    make_directory(path.parent, 0o700)
    replace_bytes(path, file.content, 0o600)
    return str(path)


@ROUTES.get("/kb/export")
async def _export(_pages: Pages, visit: PageRequest) -> None:
    """The documents of a collection as JSON lines, a part at a time; whoever reads slowly is waited for."""
    visit.need_known()
    exchange, wanted = visit.exchange, {"collection_ids": [visit.query.get("collection", "")[:200]]}
    result = await _ask(visit, EXPORT, wanted)
    if result.error is not None:
        raise HttpProblem(
            404, "RESOURCE_NOT_FOUND", f"This collection cannot be exported. {result.error.message[:300]}"
        )
    named = (b"content-disposition", b'attachment; filename="toolcrib-kb.jsonl"')
    exchange.start_stream(200, b"application/jsonl", (NO_STORE, named, *GUARDING))
    try:
        while result.error is None:
            part = fields(result.data)
            exchange.write("".join(f"{text(line)}\n" for line in texts(part.get("lines"))).encode())
            await exchange.drain()
            if not part.get("next"):
                return
            result = await _ask(visit, EXPORT, wanted | {"after": part["next"]})
        exchange.write(msgspec.json.encode({"error": result.error.message}))  # kb_import refuses such a line
    finally:
        if exchange.streaming:
            exchange.end()


@ROUTES.post("/kb/add")
async def _add(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    fields = visit.form()
    sources = [line.strip() for line in fields.get("sources", "").splitlines() if line.strip()]
    collection = fields.get("collection", "").strip() or "default"
    report = await _work(pages, visit, ADD, {"sources": sources, "collection_id": collection})
    problem = _trouble(report)
    if problem is None and (reasons := skipped(report.data)):
        problem = f"Left out of {collection}: {reasons}"
    return await _done(pages, visit, problem, "kb_added", collection, fields)


@ROUTES.get("/kb/remove")
async def _ask_removal(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    collection, document, title = (visit.query.get(name, "")[:500] for name in ("collection", "document", "title"))
    return pages.render(visit, "kb/remove.html", collection=collection, document=document, title=title)


@ROUTES.post("/kb/remove")
async def _remove(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    sent = visit.form()
    collection, document = sent.get("collection", ""), sent.get("document", "")
    which: dict[str, Any] = {"documents": [document]} if document else {"whole_collection": True}
    result = await _ask(visit, REMOVE, {"collection_id": collection, **which})
    return await _done(pages, visit, _trouble(result), "kb_removed", sent.get("title", "") or collection)


@ROUTES.post("/kb/reindex")
async def _reindex(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    collection = visit.form().get("collection", "")
    result = await _work(pages, visit, REINDEX, {"collection_ids": [collection]})
    return await _done(pages, visit, _trouble(result), "kb_reindexed", collection)


@ROUTES.post("/kb/import")
async def _import(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    source = visit.form().get("source", "")
    return await _done(pages, visit, _trouble(await _ask(visit, IMPORT, {"source": source})), "kb_imported", source)


def _trouble(result: Result) -> str | None:
    return None if result.error is None else result.error.message


async def _done(
    pages: Pages, visit: PageRequest, problem: str | None, done: str, collection: str, sent: Mapping[str, str] = NOTHING
) -> HttpAnswer:
    """Go on, or say what went wrong above what was sent."""
    if problem is None:
        return go_on("/kb", done, collection)
    values = await _index(visit) | {"problem": problem[:2_000], "fields": sent}
    return pages.render(visit, "kb/index.html", status=422, **values)


def skipped(report: Any) -> str:
    """What could not be added, and why."""
    entries = [fields(entry) for entry in texts(fields(report).get("skipped"))]
    told = [f"{text(entry.get('source'))}: {text(entry.get('reason'))}." for entry in entries[:MOST_SKIPPED]]
    return " ".join(told + ([f"And {len(entries) - MOST_SKIPPED} more."] if len(entries) > MOST_SKIPPED else []))


async def _reading(visit: PageRequest) -> Reading:
    """What an address asks for; where a passage stands is asked first."""
    if chunk := visit.query.get("chunk", "")[:500]:
        return reading_of(await _document(visit, {"chunk_id": chunk, "neighbours": 0}))
    start, end = visit.number("start", 0, 10**9), visit.number("end", 0, 10**9)
    begin = visit.number("from", max(0, start - BEFORE), 10**9)
    return Reading(visit.query.get("id", "")[:500], begin, (start, end) if end > start else None)


async def _document(visit: PageRequest, wanted: Mapping[str, Any]) -> Any:
    result = await _ask(visit, DOCUMENT, wanted)
    if result.error is not None:
        raise HttpProblem(404, "RESOURCE_NOT_FOUND", f"This document cannot be shown. {result.error.message[:300]}")
    return result.data


async def _work(pages: Pages, visit: PageRequest, tool: str, arguments: Mapping[str, Any]) -> Result:
    """Have something done that takes a while; who waits sees how far it is."""
    ran = await visit.view.run(tool, arguments, hear=pages.tried.hear)
    pages.tried.progress.pop(ran.call.id, None)
    return ran.result


async def _ask(visit: PageRequest, tool: str, arguments: Mapping[str, Any]) -> Result:
    return await visit.view.look(tool, arguments)


async def _index(visit: PageRequest) -> dict[str, Any]:
    here = {name for name in EVERY if visit.view.tool(name) is not None}
    query = visit.word("q", LONGEST_QUERY)
    values: dict[str, Any] = {
        "missing": [name for name in TOOLS if name not in here],
        "is_here": LIST in here,
        "can_ask": ANSWER in here,
        "can_add": ADD in here,
        "can_remove": REMOVE in here,
        "can_reindex": REINDEX in here,
        "can_export": EXPORT in here,
        "can_import": IMPORT in here,
        "can_list": DOCUMENTS in here,
        "running": [],
        "fields": {},
        "q": query,
        "mode": "ask" if visit.query.get("mode") == "ask" and ANSWER in here else "search",
        "collection": visit.query.get("collection", "")[:200],
        "collections": [],
        "problem": "",
        "found": None,
        "answer": None,
        "health": health(None),
        "took_s": 0.0,
    }
    if LIST not in here:
        return values
    listing = await _ask(visit, LIST, {})
    stats = await _ask(visit, STATS, {}) if STATS in here else None
    values["problem"] = listing.error.message if listing.error else ""
    values["collections"] = collections(listing.data, stats.data if stats and stats.success else None)
    values["health"] = health(stats.data if stats and stats.success else None)
    return values | (await _found(visit, values) if query and values["collections"] else {})


async def _found(visit: PageRequest, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a search or a question came to."""
    known = [entry["id"] for entry in values["collections"]]
    chosen = [values["collection"]] if values["collection"] in known else ["*"]
    is_question = values["mode"] == "ask"
    asked = {"question": values["q"]} if is_question else {"query": values["q"], "top_k": TOP_K}
    arguments = {**asked, "collection_ids": chosen}
    began = time.perf_counter()
    result = await _ask(visit, ANSWER if is_question else SEARCH, arguments)
    took = {"took_s": time.perf_counter() - began}
    if result.error is not None:
        return took | {"problem": result.error.message}
    if is_question:
        return took | {"answer": answered(result.data)}
    return took | {"found": results(result.data)}
