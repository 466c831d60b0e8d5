"""What is shown of a result that was put aside: a function of bytes, so that a helper process can do it."""

from typing import Any

import msgspec

from toolcrib.calls.results.document import Document, encode
from toolcrib.calls.results.preview import META, Kept, example, preview_blocks, readable_size
from toolcrib.calls.results.shorten import shorten
from toolcrib.core.names import RESULT_READ
from toolcrib.schema.check import compile_check

SHOW = f"{__name__}:show"
NOT_AN_ERROR = (
    "[The call succeeded. It is marked as an error only because its structured content cannot be shortened in a way "
    "that fits the tool's output schema.]"
)


class Wanted(msgspec.Struct):
    """What must be known to show a result."""

    kept: Kept
    schema: dict[str, Any] | None
    """The tool's output schema."""
    has_failed: bool


def show(raw: bytes, wanted: bytes) -> bytes:
    """The encoded preview of an encoded result."""
    order = msgspec.json.decode(wanted, type=Wanted)
    document, kept = Document(raw), order.kept
    content = preview_blocks(document, kept)
    shown: dict[str, Any] = {"content": content, "_meta": {META: kept.meta}}
    if order.has_failed:
        shown["isError"] = True
    elif order.schema is not None:
        shown |= _structured(document, order.schema, kept)
        if "isError" in shown:
            content.insert(1, {"type": "text", "text": NOT_AN_ERROR})
    return encode(shown)


def show_nothing(wanted: Wanted) -> bytes:
    """The encoded preview of a result that it takes too long to look into."""
    kept = wanted.kept
    words = (
        f"[The result of {kept.tool} is {readable_size(kept.size)}, too much to look into here; it is kept whole. "
        f"Read it with {RESULT_READ} {example(handle=kept.handle)}.]"
    )
    content = [{"type": "text", "text": words}]
    shown: dict[str, Any] = {"content": content, "_meta": {META: kept.meta}}
    if wanted.has_failed or wanted.schema is not None:
        shown["isError"] = True
        content += [] if wanted.has_failed else [{"type": "text", "text": NOT_AN_ERROR}]
    return encode(shown)


def _structured(document: Document, schema: dict[str, Any], kept: Kept) -> dict[str, Any]:
    """What clients demand of a tool with an output schema: data that fits it, or else the mark of an error."""
    try:
        structured = None if document.structured is None else msgspec.json.decode(document.structured)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        structured = None
    short = shorten(structured, compile_check(schema), kept)
    return {"isError": True} if short is None else {"structuredContent": short}
