"""What the tools answer with: values of ours as the JSON that the definitions describe. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from toolcrib.core.knowledge import Document, DocumentFilter, Passage, Place
from toolcrib.knowledge.parse.dates import to_utc
from toolcrib.knowledge.retrieve import Findings, FoundPassage

Json = dict[str, Any]


def read_filter(filters: Mapping[str, Any] | None) -> DocumentFilter:
    """The filter that a call's ``filters`` mean."""
    given = filters or {}
    dates = given.get("date_range") or {}
    return DocumentFilter(
        types=tuple(given.get("document_types") or ()),
        since=to_utc(dates.get("start")),
        until=to_utc(dates.get("end")),
        metadata=dict(given.get("metadata") or {}),
    )


def source_url(document: Document) -> str | None:
    """Where the document is, as an address."""
    if "://" in document.source:
        return document.source
    return PurePosixPath(document.source).as_uri() if document.source.startswith("/") else document.source


def citation(document: Document) -> Json:
    """Who is quoted."""
    return {
        "title": document.title,
        "source_url": source_url(document),
        "license": document.licence,
        "version": document.version,
    }


def place(where: Place) -> Json:
    """Where in a document."""
    return {"start": where.start, "end": where.end, "page": where.page, "headings": list(where.headings)}


def result(found: FoundPassage, highlights: Sequence[tuple[int, int]]) -> Json:
    """One result of a search."""
    return {
        "chunk_id": found.passage.id,
        "document_id": found.document.id,
        "collection_id": found.document.collection,
        "content": found.text,
        "title": found.document.title,
        "score": round(found.score, 4),
        "citation": citation(found.document),
        "place": place(found.passage.place),
        "highlights": [list(span) for span in highlights],
    }


def performance(findings: Findings) -> Json:
    """How long it took, in whole milliseconds."""
    timings = findings.timings_ms
    return {
        "total_time_ms": round(timings.get("total", 0)),
        "vector_search_time_ms": round(timings.get("vector", 0)),
        "bm25_search_time_ms": round(timings.get("lexical", 0)),
    }


def reference(document: Document, passage: Passage) -> str:
    """A reference as a person would write it."""
    parts = [document.title]
    if document.version:
        parts.append(f"version {document.version}")
    if passage.place.page is not None:
        parts.append(f"page {passage.place.page}")
    if passage.place.headings:
        parts.append(f"“{' › '.join(passage.place.headings)}”")
    parts.append(source_url(document) or document.source)
    if document.licence:
        parts.append(f"licence {document.licence}")
    return ", ".join(parts)
