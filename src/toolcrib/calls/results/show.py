"""What is shown of a result that was put aside: a function of bytes, so that a helper process can do it."""

from typing import Any

import msgspec

from toolcrib.calls.results.document import ResultDocument, encode
from toolcrib.calls.results.preview import META, Kept, example, preview_blocks, readable_size
from toolcrib.calls.results.shape import whole_blob
from toolcrib.core.names import RESULT_READ
from toolcrib.schema.check import SchemaCheck, compile_check

_STEPS = ((2000, 20), (400, 5), (100, 1))
"""Characters of a string, items of an array: less and less until it fits."""
_DEEPEST = 60
BLOB_SHOWN = 24  # characters of base64: enough to see what it is


def shorten(value: Any, check: SchemaCheck, kept: Kept) -> Any:
    """The value with long strings and arrays shortened; ``None`` if no form of it is both valid and honest."""
    if check.unchecked_reason or not isinstance(value, dict):
        return None
    for characters, count in _STEPS:
        shears = _Shears(characters, count, kept)
        short = shears.cut(value, "", 0)
        for form in (short | {META: kept.meta | {"note": _NOTE}}, short):
            is_honest = META in form or not shears.dropped
            if is_honest and len(encode(form)) <= kept.limit // 2 and check.is_quick_for(form) and check.accepts(form):
                return form
    return None


_NOTE = f"This is not all: long strings and arrays are shortened. Read the rest with {RESULT_READ}."


class _Shears:
    """Shortens one value to one measure, and remembers whether anything went without a trace."""

    def __init__(self, characters: int, count: int, kept: Kept) -> None:
        self._characters, self._count, self._kept = characters, count, kept
        self.dropped = False

    def cut(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, str):
            return self._cut_text(value, path)
        if depth > _DEEPEST:
            self.dropped = True
            return None
        if isinstance(value, list):
            self.dropped = self.dropped or len(value) > self._count
            return [self.cut(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value[: self._count])]
        if isinstance(value, dict):
            return {key: self.cut(item, f"{path}.{key}".lstrip("."), depth + 1) for key, item in value.items()}
        return value

    def _cut_text(self, text: str, path: str) -> str:
        if len(text) <= self._characters:
            return text
        shown = BLOB_SHOWN if whole_blob(text) else self._characters
        more = example(handle=self._kept.handle, path=path)
        left = readable_size(len(text) - shown)
        return f"{text[:shown]}… [shortened by toolcrib, {left} more: {RESULT_READ} {more}]"


SHOW = f"{__name__}:show"
NOT_AN_ERROR = (
    "[The call succeeded. It is marked as an error only because its structured content cannot be shortened in a way "
    "that fits the tool's output schema.]"
)


class ShownAs(msgspec.Struct):
    """What must be known to show a result."""

    kept: Kept
    schema: dict[str, Any] | None
    """The tool's output schema."""
    has_failed: bool


def show(raw: bytes, wanted: bytes) -> bytes:
    """The encoded preview of an encoded result."""
    order = msgspec.json.decode(wanted, type=ShownAs)
    document, kept = ResultDocument(raw), order.kept
    content = preview_blocks(document, kept)
    shown: dict[str, Any] = {"content": content, "_meta": {META: kept.meta}}
    if order.has_failed:
        shown["isError"] = True
    elif order.schema is not None:
        shown |= _structured(document, order.schema, kept)
        if "isError" in shown:
            content.insert(1, {"type": "text", "text": NOT_AN_ERROR})
    return encode(shown)


def show_nothing(wanted: ShownAs) -> bytes:
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


def _structured(document: ResultDocument, schema: dict[str, Any], kept: Kept) -> dict[str, Any]:
    """What clients demand of a tool with an output schema: data that fits it, or else the mark of an error."""
    try:
        structured = None if document.structured is None else msgspec.json.decode(document.structured)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        structured = None
    short = shorten(structured, compile_check(schema), kept)
    return {"isError": True} if short is None else {"structuredContent": short}
