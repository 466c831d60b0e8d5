"""Structured content that still fits its schema, but says of itself that it is not all.

Clients hold structured content against the tool's output schema, and refuse a result without any unless it is an
error. Data that only looks whole would be worse than none: what was left out must be told in the data itself.
"""

from typing import Any

from toolcrib.calls.results.blobs import whole_blob
from toolcrib.calls.results.document import encode
from toolcrib.calls.results.preview import META, Kept, example, readable_size
from toolcrib.core.names import RESULT_READ
from toolcrib.schema.check import Check

_STEPS = ((2000, 20), (400, 5), (100, 1))
"""Characters of a string, items of an array: less and less until it fits."""
_DEEPEST = 60
BLOB_SHOWN = 24  # characters of base64: enough to see what it is


def shorten(value: Any, check: Check, kept: Kept) -> Any:
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
