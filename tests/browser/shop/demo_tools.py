"""A small knowledge base for the demonstration: tools that answer in the shapes of the real ones."""

from typing import Any

from toolcrib.sources.native.functions import tool

Json = dict[str, Any]

OBJECT: Json = {"type": "object"}
PASSAGES = [
    (
        "Returning goods",
        "Customers may return goods within 30 days. The refund is paid the way the order was paid, "
        "within five working days after the parcel has arrived at the warehouse.",
        "https://handbook.example/returns",
    ),
    (
        "Damaged parcels",
        "If a parcel arrives damaged, offer a replacement first. A refund needs a photo of the damage, "
        "but no return of the goods.",
        "https://handbook.example/damage",
    ),
]


def citation(number: int) -> Json:
    title, _, url = PASSAGES[number]
    return {"title": title, "source_url": url, "license": "CC-BY-4.0", "version": "2026-03"}


def passage(number: int, score: float) -> Json:
    title, content, _ = PASSAGES[number]
    ids = {"chunk_id": f"doc_{number}-0", "document_id": f"doc_{number}", "collection_id": "handbook"}
    return {**ids, "content": content, "title": title, "score": score, "citation": citation(number)}


@tool(name="kb_list_collections", security_level="read_only", input_schema=OBJECT)
def list_collections(arguments: Json) -> Json:
    """The collections that can be searched."""
    handbook = {"collection_id": "handbook", "name": "Handbook", "description": "How we work", "document_count": 48}
    notes = {"collection_id": "notes", "name": "Meeting notes", "description": "Since 2024", "document_count": 312}
    return {"collections": [handbook, notes]}


@tool(name="kb_stats", security_level="read_only", input_schema=OBJECT)
def stats(arguments: Json) -> Json:
    """How the collections are doing."""
    unread = {"status": "degraded", "reason": "3 files could not be read"}
    return {
        "collections": [
            {"collection_id": "handbook", "chunk_count": 1204, "health": {"status": "healthy"}},
            {"collection_id": "notes", "chunk_count": 6310, "health": unread},
        ]
    }


@tool(name="kb_hybrid_search", security_level="read_only", input_schema=OBJECT)
def hybrid_search(arguments: Json) -> Json:
    """Search by words and by meaning."""
    return {
        "results": [passage(0, 0.91), passage(1, 0.74)],
        "query_info": {"processed_query": arguments["query"], "total_results": 2},
        "performance_metrics": {"total_time_ms": 6, "vector_search_time_ms": 3, "bm25_search_time_ms": 2},
    }


@tool(name="kb_get_document", security_level="read_only", input_schema=OBJECT)
def get_document(arguments: Json) -> Json:
    """One document."""
    number = int(arguments["document_id"].removeprefix("doc_"))
    title, content, _ = PASSAGES[number]
    head = f"# {title}\n\nThis page is for *everybody* who answers customers."
    text = f"{head}\n\n{content}\n\n- Ask your **lead** when you are not sure.\n- Look at `orders` first."
    ids = {"document_id": arguments["document_id"], "collection_id": "handbook", "title": title, "type": "markdown"}
    return {**ids, "content": text, "citation": citation(number)}


@tool(name="kb_answer", security_level="read_only", input_schema=OBJECT)
def answer(arguments: Json) -> Json:
    """An answer with its sources."""
    first, second = "Goods may be returned within 30 days [1].", "Most customers prefer a voucher."
    return {
        "answer": f"{first} {second}",
        "mode": "extractive",
        "sentences": [
            {"text": first, "supported": True, "support": 0.96},
            {"text": second, "supported": False, "support": 0.12},
        ],
        "citations": [{"marker": "[1]", **passage(0, 0.91), **citation(0)}],
    }


@tool(name="kb_list_documents", security_level="read_only", input_schema=OBJECT)
def list_documents(arguments: Json) -> Json:
    """The documents of a collection."""
    documents = [
        {"document_id": f"doc_{number}", "source": url, "title": title, "type": "markdown", "bytes": len(content)}
        for number, (title, content, url) in enumerate(PASSAGES)
    ]
    return {"documents": documents, "next": None}
