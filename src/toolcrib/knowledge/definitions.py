"""How the ``kb_*`` tools are described to a model: their schemas, and one example each. Data only."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def _object(properties: Schema, *required: str, **more: Any) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {}) | more


def _closed(properties: Schema, *required: str, **more: Any) -> Schema:
    """An object of what a call gives: a name that nobody knows is a slip, which would go unnoticed otherwise."""
    return _object(properties, *required, additionalProperties=False, **more)


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items} | more


def _all(schema: Schema, *names: str) -> Schema:
    return dict.fromkeys(names, schema)


def _tool(name: str, description: str, kind: tuple[str, ...], **more: Any) -> Schema:
    """What a registry has to know; ``kind`` is a category and then capabilities. Most tools read, and soon answer."""
    said = {"name": name, "description": description, "category": kind[0], "capabilities": kind[1:]}
    return said | {"security_level": "read_only", "timeout_s": 5.0} | more


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer"}
MAYBE: Schema = {"type": ["string", "null"]}
FREE: Schema = {"type": "object"}

EVERY_COLLECTION = "*"
NOTHING = "The documents do not contain the answer."
COLLECTION_IDS = _list(
    TEXT, minItems=1, maxItems=10, description="Collections to search; kb_list_collections names them, * is all of them"
)
FILTERS = _closed(
    {
        "document_types": _list(TEXT, description="markdown, text, html, pdf, docx, code, csv, json, email"),
        "date_range": _closed(
            {"start": TEXT | {"format": "date-time"}, "end": TEXT | {"format": "date-time"}}, description="Inclusive"
        ),
        "metadata": FREE | {"description": 'Values that a document\'s metadata must have, such as {"team": "a"}'},
    },
    description="Only documents that fit are searched",
)
CITATION = _object({"title": TEXT, "source_url": MAYBE, "license": MAYBE, "version": MAYBE}, "title")
PLACE = _object(
    {"start": COUNT, "end": COUNT, "page": {"type": ["integer", "null"]}, "headings": _list(TEXT)}, "start", "end"
)
PERFORMANCE = _object({"total_time_ms": COUNT, "vector_search_time_ms": COUNT, "bm25_search_time_ms": COUNT})
RESULT = _object(
    {
        **_all(TEXT, "chunk_id", "document_id", "collection_id", "content", "title"),
        "score": NUMBER,
        "citation": CITATION,
        "place": PLACE,
        "highlights": _list(_list(COUNT), description="Character ranges of content that the query's words stand in"),
    },
    "chunk_id",
    "content",
    "score",
    "citation",
)

SEARCH = _tool(
    "kb_hybrid_search",
    (
        "Search the knowledge base by words and by meaning at once. Returns the best passages with where they come"
        " from. Read more of a document around a passage with kb_get_document."
    ),
    ("search", "hybrid_search", "citations"),
    input_schema=_closed(
        {
            "query": TEXT | {"minLength": 1, "maxLength": 1000, "description": "Search query text"},
            "collection_ids": COLLECTION_IDS,
            "top_k": COUNT | {"minimum": 1, "maximum": 100, "default": 10, "description": "Most results to return"},
            "filters": FILTERS,
        },
        "query",
        "collection_ids",
    ),
    output_schema=_object(
        {
            "results": _list(RESULT),
            "query_info": _object({"processed_query": TEXT, "total_results": COUNT}),
            "performance_metrics": PERFORMANCE,
            "warnings": _list(TEXT, description="Why something was searched by words alone"),
        },
        "results",
    ),
    examples=[{"query": "how are tools isolated", "collection_ids": ["toolcrib"], "top_k": 5}],
)

DOCUMENT = _tool(
    "kb_get_document",
    (
        "Read a document of the knowledge base, whole or in part: a range of characters, lines or pages, the part under"
        " a heading, or a passage with its neighbours. Long texts come in pieces; next says where to go on."
    ),
    ("document", "documents"),
    input_schema=_closed(
        {
            "document_id": TEXT
            | {"description": "From a search result, or a document's path or address; not needed with chunk_id"},
            "chunk_id": TEXT | {"description": "A passage from a search result, to read it with its neighbours"},
            "neighbours": COUNT
            | {"minimum": 0, "maximum": 50, "default": 1, "description": "Passages before and after"},
            "range": _closed(
                {
                    "unit": TEXT | {"enum": ["characters", "lines", "pages"]},
                    "start": COUNT | {"minimum": 0, "description": "Characters from 0; lines and pages from 1"},
                    "end": COUNT | {"minimum": 0, "description": "Characters: exclusive; lines and pages: inclusive"},
                },
                "unit",
                "start",
            ),
            "heading": TEXT | {"description": "Only the part under this heading, as the outline names it"},
            "max_characters": COUNT | {"minimum": 100, "maximum": 200000, "default": 20000},
        }
    ),
    output_schema=_object(
        {
            **_all(TEXT, "document_id", "collection_id", "title", "type"),
            "date": MAYBE,
            "metadata": FREE,
            "citation": CITATION,
            "content": TEXT,
            "place": PLACE,
            "total_characters": COUNT,
            "next": {"type": ["integer", "null"], "description": "Character to go on from, if the text was cut"},
            "wanted_end": COUNT | {"description": "Character at which the part that was asked for ends"},
            "outline": _list(_object({"level": COUNT, "title": TEXT, "start": COUNT})),
            "pages": {"type": ["integer", "null"]},
        },
        "document_id",
        "content",
        "total_characters",
    ),
    examples=[{"document_id": "0f3c", "range": {"unit": "lines", "start": 1, "end": 40}}, {"chunk_id": "0f3c-2-ab"}],
)

COUNTS = _object(
    {
        "collection_id": TEXT,
        **_all(COUNT, "documents", "passages", "characters"),
        "document_types": FREE,
        "embedder": TEXT,
        "embedder_name": TEXT,
        "dimensions": COUNT,
        "waiting_for_vectors": COUNT,
        "re_embedding": {
            "type": ["object", "null"],
            "properties": {"embedder_name": TEXT, "embedder": TEXT, "percent": COUNT},
        },
        "segments": COUNT,
        "index_bytes": COUNT,
        "last_added": MAYBE,
    },
    "collection_id",
    "documents",
    "passages",
)
STATS = _tool(
    "kb_stats",
    "How much the knowledge base holds, and whether it is healthy, degraded or unhealthy, and why.",
    ("collection", "statistics"),
    input_schema=_closed({"collection_ids": _list(TEXT, maxItems=10, description="All collections if not given")}),
    output_schema=_object(
        {
            "status": TEXT | {"enum": ["healthy", "degraded", "unhealthy"]},
            "reasons": _list(TEXT),
            "collections": _list(COUNTS),
            "totals": _object({"collections": COUNT, "documents": COUNT, "passages": COUNT, "index_bytes": COUNT}),
        },
        "status",
        "reasons",
        "collections",
    ),
    examples=[{}],
)

COLLECTIONS = _tool(
    "kb_list_collections",
    "List the collections of the knowledge base that can be searched, with what is in them.",
    ("collection", "collections"),
    input_schema=_closed(
        {
            "name_contains": TEXT | {"description": "Only collections whose id, name or description contains this"},
            "metadata": FREE | {"description": "Values that a collection's metadata must have"},
        }
    ),
    output_schema=_object(
        {
            "collections": _list(
                _object(
                    {
                        **_all(TEXT, "collection_id", "name", "description"),
                        "metadata": FREE,
                        "documents": COUNT,
                        "passages": COUNT,
                        "created": TEXT,
                    },
                    "collection_id",
                    "name",
                )
            )
        },
        "collections",
    ),
    examples=[{}, {"name_contains": "handbook"}],
)

CITATIONS = _tool(
    "kb_resolve_citations",
    (
        "Turn passage ids into full references: title, source, licence, version, page, headings; and check that the"
        " passage, or a quote from it, still stands there. Markers such as [2] in text mean the second citation."
    ),
    ("document", "citations"),
    input_schema=_closed(
        {
            "citations": _list(
                {
                    "anyOf": [
                        TEXT | {"minLength": 1, "maxLength": 200},
                        _closed({"chunk_id": TEXT, "quote": TEXT}, "chunk_id"),
                    ]
                },
                minItems=1,
                maxItems=100,
                description="Passage ids, each alone or with a quote to be checked",
            ),
            "text": TEXT | {"description": "A text with markers like [1], to be told which of them mean what"},
        },
        "citations",
    ),
    output_schema=_object(
        {
            "references": _list(
                _object(
                    {
                        "number": COUNT,
                        "chunk_id": TEXT,
                        "status": TEXT | {"enum": ["stands", "moved", "changed", "missing"]},
                        "quote_stands": {"type": ["boolean", "null"]},
                        **_all(MAYBE, "content", "document_id", "collection_id"),
                        "citation": CITATION,
                        "place": PLACE,
                        "reference": TEXT,
                    },
                    "number",
                    "chunk_id",
                    "status",
                )
            ),
            "markers": _list(
                _object({"marker": TEXT, "number": COUNT, "known": {"type": "boolean"}}, "marker", "known")
            ),
        },
        "references",
    ),
    examples=[{"citations": ["0f3c-2-ab12cd34"]}],
)

ANSWER = _tool(
    "kb_answer",
    (
        "Answer a question from the knowledge base, with citations like [1] and a check of which sentences the cited"
        " passages support. Says so plainly when the documents do not contain the answer."
    ),
    ("analysis", "answers", "citations"),
    input_schema=_closed(
        {
            "question": TEXT | {"minLength": 1, "maxLength": 1000},
            "collection_ids": COLLECTION_IDS,
            "top_k": COUNT | {"minimum": 1, "maximum": 50, "default": 8, "description": "Passages to answer from"},
            "filters": FILTERS,
        },
        "question",
        "collection_ids",
    ),
    output_schema=_object(
        {
            "answer": TEXT,
            "mode": TEXT | {"enum": ["generated", "extractive", "none"]},
            "citations": _list(
                _object(
                    {"marker": TEXT, "chunk_id": TEXT, "citation": CITATION, "place": PLACE, "content": TEXT},
                    "marker",
                    "chunk_id",
                )
            ),
            "support": _list(
                _object(
                    {"sentence": TEXT, "supported": {"type": "boolean"}, "score": NUMBER, "markers": _list(TEXT)},
                    "sentence",
                    "supported",
                )
            ),
            "model": MAYBE,
            "warnings": _list(TEXT, description="Why it was searched by words alone, or the model did not answer"),
            "performance_metrics": _object({"total_time_ms": COUNT, "search_time_ms": COUNT, "model_time_ms": COUNT}),
        },
        "answer",
        "mode",
        "citations",
    ),
    examples=[{"question": "How do I add a server?", "collection_ids": ["toolcrib"]}],
    timeout_s=120.0,
)

DOCUMENTS = _tool(
    "kb_list_documents",
    "List the documents of a collection by source, some at a time; next says after which to go on.",
    ("collection", "documents"),
    input_schema=_closed(
        {
            "collection_id": TEXT,
            "after": TEXT | {"description": "Only documents whose source comes after this one"},
            "limit": COUNT | {"minimum": 1, "maximum": 10_000, "default": 100},
        },
        "collection_id",
    ),
    output_schema=_object(
        {
            "documents": _list(
                _object(
                    {
                        **_all(TEXT, "document_id", "source", "title", "type"),
                        **_all(MAYBE, "date", "license", "version"),
                        "metadata": FREE,
                        "bytes": COUNT,
                        "added": TEXT,
                    },
                    "document_id",
                    "source",
                    "title",
                )
            ),
            "next": MAYBE | {"description": "Give it as after to go on; null at the end"},
        },
        "documents",
    ),
    examples=[{"collection_id": "toolcrib"}],
)

NEW_COLLECTION = TEXT | {"minLength": 1, "maxLength": 200}
CHANGES: Schema = {
    "security_level": "write",
    "timeout_s": 3600.0,
    "annotations": {"destructiveHint": False, "idempotentHint": True},
}
PATH = TEXT | {"minLength": 1, "maxLength": 4096}
MISSING = MAYBE | {"description": "Why they are found by words alone until vectors are made"}
ADD = _tool(
    "kb_add",
    (
        "Add files, folders and web pages to a collection of the knowledge base, or bring it up to date with them: what"
        " is new or changed is read, what is gone from a folder leaves. Interrupted, it goes on when called again."
    ),
    ("collection", "documents"),
    input_schema=_closed(
        {
            "sources": _list(
                PATH,
                minItems=1,
                maxItems=10_000,
                description="Paths below the folders that the configuration allows, and public http(s) addresses",
            ),
            "collection_id": NEW_COLLECTION | {"default": "default", "description": "Where they go; made if new"},
            "title": TEXT | {"description": "What to call them, instead of what they say themselves"},
            "license": TEXT,
            "version": TEXT,
            "source_url": TEXT | {"description": "The address to cite them by, instead of where they were read"},
            "metadata": FREE | {"description": "Something to filter by"},
            "embedder": TEXT | {"description": "Who makes the collection's vectors"},
            "later": {"type": "boolean", "description": "Only note it for `toolcrib kb work`; needs a shared database"},
        },
        "sources",
    ),
    output_schema=_object(
        {
            "collection_id": TEXT,
            **_all(COUNT, "added", "changed", "removed", "unchanged", "left", "passages"),
            "seconds": NUMBER,
            "vectors_missing": MISSING,
            "skipped": _list(_object({"source": TEXT, "reason": TEXT}, "source", "reason")),
            "waiting": COUNT | {"description": "Sources that were noted for later"},
        },
        "collection_id",
    ),
    examples=[{"sources": ["https://example.org/guide.html"], "collection_id": "web"}],
    **CHANGES,
)

REMOVE = _tool(
    "kb_remove",
    "Take documents, or a whole collection, out of the knowledge base. No file is touched.",
    ("collection", "documents"),
    annotations={"destructiveHint": True},
    input_schema=_closed(
        {
            "collection_id": TEXT,
            "documents": _list(TEXT, minItems=1, maxItems=10_000, description="Ids, sources, or folders of sources"),
            "whole_collection": {"type": "boolean", "description": "Take all of it out; instead of documents"},
        },
        "collection_id",
    ),
    output_schema=_object({"collection_id": TEXT, "removed": COUNT}, "collection_id", "removed"),
    examples=[{"collection_id": "web", "documents": ["https://example.org/guide.html"]}],
    security_level="write",
    timeout_s=60.0,
)

REINDEX = _tool(
    "kb_reindex",
    (
        "Build the index of collections anew from the texts that are kept, and make the vectors that are missing; or"
        " have another embedder make them. The old ones answer until the new ones are complete."
    ),
    ("collection", "documents"),
    input_schema=_closed(
        {
            "collection_ids": _list(TEXT, minItems=1, description="All collections if not given"),
            "vectors_only": {"type": "boolean", "description": "Leave the index of words as it is"},
            "embedder": TEXT | {"description": "Who makes the vectors from now on; none gives them up"},
            "again": {"type": "boolean", "description": "Make all vectors anew, even by the same model"},
            "later": {"type": "boolean", "description": "Leave the vectors to a running toolcrib"},
        }
    ),
    output_schema=_object({"collections": _list(COUNTS)}, "collections"),
    examples=[{}, {"collection_ids": ["handbook"], "vectors_only": True, "embedder": "bundled"}],
    **CHANGES,
)

EXPORT = _tool(
    "kb_export",
    (
        "Documents with their whole texts as lines of JSON, to be kept elsewhere: written to a file, one below the"
        " other, kb_import takes them in again. Some at a time; next says where to go on."
    ),
    ("document", "documents"),
    input_schema=_closed(
        {
            "collection_ids": _list(TEXT, minItems=1, description="All collections if not given"),
            "after": TEXT | {"description": "What next said"},
            "max_characters": COUNT | {"minimum": 1000, "maximum": 4_000_000, "default": 200_000},
        }
    ),
    output_schema=_object(
        {
            "lines": _list(TEXT),
            "documents": COUNT,
            "next": MAYBE | {"description": "Give it as after to go on; null at the end"},
        },
        "lines",
        "documents",
    ),
    examples=[{"collection_ids": ["handbook"]}],
    timeout_s=60.0,
)

IMPORT = _tool(
    "kb_import",
    "Take in the documents of a file that kb_export's lines were written to, and index them.",
    ("collection", "documents"),
    input_schema=_closed(
        {"source": PATH | {"description": "A file below the folders that the configuration allows"}}, "source"
    ),
    output_schema=_object(
        {"documents": COUNT, "collection_ids": _list(TEXT), "vectors_missing": MISSING}, "documents", "collection_ids"
    ),
    examples=[{"source": "backup.jsonl"}],
    **CHANGES,
)

TOOLS: Mapping[str, Schema] = {
    "hybrid_search": SEARCH,
    "get_document": DOCUMENT,
    "stats": STATS,
    "list_collections": COLLECTIONS,
    "list_documents": DOCUMENTS,
    "resolve_citations": CITATIONS,
    "answer": ANSWER,
    "add": ADD,
    "remove": REMOVE,
    "reindex": REINDEX,
    "export": EXPORT,
    "import_": IMPORT,
}
"""By the method of ``KnowledgeTools`` that answers."""
