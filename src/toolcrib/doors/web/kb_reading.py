"""What the tools of the knowledge base answer, read for the page; what is missing leaves a gap, no error."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

LIST, SEARCH, ANSWER, DOCUMENT, STATS = (
    "kb.list_collections",
    "kb.hybrid_search",
    "kb.answer",
    "kb.get_document",
    "kb.stats",
)
TOOLS = (LIST, SEARCH, ANSWER, DOCUMENT, STATS)
MOST_COLLECTIONS = 10
LONGEST_SHOWN = 60_000
_WORD = re.compile(r"\w{2,}")
_MARK = re.compile(r"\[(\d{1,3})\]")
_SUPPORTED_FROM = 0.5


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


def marked(content: str, query: str) -> list[Run]:
    """The text with the words of a query marked."""
    words = {word.casefold() for word in _WORD.findall(query)}
    if not words:
        return [Run(content)]
    any_word = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    pattern = re.compile(rf"\b(?:{any_word})\w{{0,3}}\b", re.IGNORECASE)
    runs, at = [], 0
    for found in pattern.finditer(content):
        runs += [Run(content[at : found.start()]), Run(found[0], is_marked=True)]
        at = found.end()
    return [run for run in (*runs, Run(content[at:])) if run.text]


def collections(listing: Any, stats: Any) -> list[dict[str, Any]]:
    """The collections with how they are doing."""
    health = {text(entry.get("collection_id") or entry.get("id")): entry for entry in map(fields, _many(stats))}
    return [_collection(fields(entry), health) for entry in _many(listing)]


def _many(answer: Any) -> Sequence[Any]:
    return texts(fields(answer).get("collections"))


def _collection(entry: Mapping[str, Any], health: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    name = text(entry.get("collection_id") or entry.get("id"))
    known = {**entry, **health.get(name, {})}
    state = text(fields(known.get("health")).get("status") or known.get("health") or known.get("status"))
    return {
        "id": name,
        "name": text(entry.get("name")) or name,
        "about": text(entry.get("description")),
        "documents": _count(known, "document_count", "documents"),
        "passages": _count(known, "chunk_count", "passage_count", "passages", "chunks"),
        "updated": text(known.get("last_updated") or known.get("updated_at") or known.get("newest")),
        "health": state,
        "tone": {"healthy": "good", "degraded": "warn", "unhealthy": "bad"}.get(state, "quiet"),
        "why": text(fields(known.get("health")).get("reason") or known.get("reason")),
    }


def _count(known: Mapping[str, Any], *names: str) -> int | None:
    found = next((known[name] for name in names if isinstance(known.get(name), int)), None)
    return found if isinstance(found, int) else None


def results(answer: Any, query: str) -> list[dict[str, Any]]:
    """The passages a search found."""
    found = [fields(entry) for entry in texts(fields(answer).get("results"))]
    return [_result(entry, query) for entry in found]


def _result(entry: Mapping[str, Any], query: str) -> dict[str, Any]:
    content, score = text(entry.get("content")), entry.get("score")
    return {
        "chunk": text(entry.get("chunk_id")),
        "title": text(entry.get("title")) or text(fields(entry.get("citation")).get("title")) or "Untitled",
        "runs": marked(content, query),
        "score": float(score) if isinstance(score, int | float) else None,
        "collection": text(entry.get("collection_id")),
        "citation": citation(entry.get("citation")),
        "href": document_address(text(entry.get("document_id")), content),
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


def document_address(document_id: str, passage: str = "") -> str:
    """The page of a document, with a passage to be marked."""
    if not document_id:
        return ""
    return f"/kb/document?{urlencode({'id': document_id} | ({'passage': passage[:400]} if passage else {}))}"


def answered(value: Any) -> dict[str, Any]:
    """An answer with its citations, and how far each sentence is supported by them."""
    found = fields(value)
    cited = [_cited(fields(entry), place) for place, entry in enumerate(texts(found.get("citations")), 1)]
    return {
        "text": text(found.get("answer")),
        "mode": text(found.get("mode")),
        "model": text(found.get("model")),
        "sentences": [_sentence(fields(entry)) for entry in texts(found.get("sentences"))],
        "citations": cited,
        "marks": {entry["mark"] for entry in cited},
        "found": found.get("found", True) is not False,
    }


def _cited(entry: Mapping[str, Any], place: int) -> dict[str, Any]:
    mark = _MARK.search(text(entry.get("marker")))
    content = text(entry.get("content") or entry.get("quote"))
    where = citation({**entry, **fields(entry.get("citation"))})
    return {
        "mark": mark[1] if mark else text(entry.get("marker") or entry.get("number") or place),
        "content": content,
        "href": document_address(text(entry.get("document_id")), content),
        **where,
        "title": where["title"] or "Untitled",
    }


def _sentence(entry: Mapping[str, Any]) -> dict[str, Any]:
    support, said = entry.get("support"), entry.get("supported")
    is_supported = said if isinstance(said, bool) else isinstance(support, int | float) and support >= _SUPPORTED_FROM
    return {
        "runs": linked(text(entry.get("text") or entry.get("sentence"))),
        "is_supported": is_supported,
        "support": float(support) if isinstance(support, int | float) and not isinstance(support, bool) else None,
    }


def linked(sentence: str) -> list[Run]:
    """A sentence with its marks ``[1]`` as runs of their own: marked runs hold the number."""
    runs, at = [], 0
    for found in _MARK.finditer(sentence):
        runs += [Run(sentence[at : found.start()]), Run(found[1], is_marked=True)]
        at = found.end()
    return [run for run in (*runs, Run(sentence[at:])) if run.text]


def document(value: Any, passage: str) -> dict[str, Any]:
    """A document with one passage of it marked."""
    found = fields(value)
    content = text(found.get("content") or found.get("text"))
    place = content.find(passage) if passage else -1
    start = max(0, place - LONGEST_SHOWN // 2) if len(content) > LONGEST_SHOWN else 0
    shown, at = content[start : start + LONGEST_SHOWN], place - start
    runs = [Run(shown)]
    if place >= 0:
        runs = [Run(shown[:at]), Run(shown[at : at + len(passage)], is_marked=True), Run(shown[at + len(passage) :])]
    facts = {"Collection": "collection_id", "Type": "document_type", "Date": "date", "Source": "source"}
    return {
        "title": text(found.get("title")) or "Untitled",
        "runs": [run for run in runs if run.text],
        "is_cut": len(content) > len(shown),
        "citation": citation(found.get("citation") or found),
        "facts": [(label, text(found.get(name))) for label, name in facts.items() if text(found.get(name))],
    }
