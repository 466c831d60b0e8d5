"""A whole result, taken apart only as far as somebody looks: large ones are skipped over, not turned into objects.

Decoding holds up every other thread, the event loop's too; skipping is ten times quicker than building values.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from toolcrib.calls.results.shape import TextTable, as_table, join_rows

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Head(msgspec.Struct):
    content: Raw | UnsetType = UNSET
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")
    result_type: str = msgspec.field(default="", name="resultType")


class _Resource(msgspec.Struct):
    uri: str = ""
    mime: str = msgspec.field(default="", name="mimeType")
    text: str | None = None
    blob: str | None = None


class _BlockHead(msgspec.Struct):
    type: str = ""
    text: str | None = None
    mime: str = msgspec.field(default="", name="mimeType")
    data: str | None = None
    resource: _Resource | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something in a result that is not text: where it is, what it is, how large."""

    path: str
    kind: str
    size: int
    """Of the bytes themselves, without their base64."""
    raw: Raw
    """The whole content block."""


class ResultDocument:
    """One MCP result, as the bytes it came in."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        try:
            head = msgspec.json.decode(raw, type=_Head)
        except _UNREADABLE:
            head = None
        self.result_type = head.result_type if head else ""
        self.structured = head.structured if head and head.structured is not UNSET else None
        self._content = head.content if head else UNSET
        self._is_readable = head is not None

    @cached_property
    def blocks(self) -> list[tuple[Raw, _BlockHead]]:
        """The content blocks; what is none counts as an empty one."""
        return [(raw, _block(raw)) for raw in _items(self._content)]

    @cached_property
    def texts(self) -> list[str]:
        """Each text, those of embedded resources too."""
        return [text for _, head in self.blocks if (text := _text(head)) is not None]

    @cached_property
    def text(self) -> str:
        """All texts, joined by newlines; of structured content alone, its JSON."""
        if not self._is_readable:
            return self.raw.decode(errors="replace")
        if self.texts or self.structured is None:
            return "\n".join(self.texts)
        return bytes(self.structured).decode(errors="replace")

    @cached_property
    def data(self) -> Raw | None:
        """The structured content, or else the text if it is JSON or holds rows."""
        if self.structured is not None:
            return self.structured
        found = as_json(self.text)
        return found if found is not None or self.table is None else self.table.rows

    @cached_property
    def table(self) -> TextTable | None:
        """The text as rows, if it is more than one value: texts that are each JSON, JSON lines, CSV, TSV."""
        parts = [as_json(text) for text in self.texts] if len(self.texts) > 1 else []
        if parts and None not in parts:
            return TextTable("JSON texts", join_rows([part for part in parts if part is not None]))
        return as_table(self.text)

    @cached_property
    def attachments(self) -> list[Attachment]:
        """Everything that is not text, by the path that reads it."""
        return [found for number, block in enumerate(self.blocks) if (found := _attachment(number, *block))]


def as_json(text: str) -> Raw | None:
    """A text that is a JSON object or array, as such."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text, type=Raw)
    except (*_UNREADABLE, UnicodeEncodeError):
        return None


def _items(raw: Raw | UnsetType) -> list[Raw]:
    try:
        return [] if raw is UNSET else msgspec.json.decode(raw, type=list[Raw])
    except _UNREADABLE:
        return []


def _block(raw: Raw) -> _BlockHead:
    try:
        return msgspec.json.decode(raw, type=_BlockHead)
    except _UNREADABLE:
        return _BlockHead()


def _text(head: _BlockHead) -> str | None:
    if head.type == "text":
        return head.text
    return head.resource.text if head.resource is not None else None


def _attachment(number: int, raw: Raw, head: _BlockHead) -> Attachment | None:
    place = f"$.content[{number}]"
    if head.data is not None:
        return Attachment(f"{place}.data", head.mime or head.type, _decoded_size(head.data), raw)
    if head.resource is not None and head.resource.blob is not None:
        kind = head.resource.mime or "binary resource"
        return Attachment(f"{place}.resource.blob", kind, _decoded_size(head.resource.blob), raw)
    return None


def _decoded_size(base64_text: str) -> int:
    return len(base64_text) * 3 // 4 - base64_text[-2:].count("=")


def encode(value: Any) -> bytes:
    """The value as JSON."""
    return msgspec.json.encode(value)


def cost(text: str) -> int:
    """How many bytes a text takes inside a JSON message."""
    return len(msgspec.json.encode(text)) - 2


def fit(text: str, room: int) -> str:
    """The longest beginning of a text, or nearly so, that takes at most ``room`` bytes."""
    part = text[: max(room, 0)]
    while part and (taken := cost(part)) > room:
        part = part[: min(len(part) - 1, len(part) * room // taken)]
    return part


def fit_lines(text: str, room: int) -> str:
    """Like ``fit``, but whole lines if at least one goes in."""
    part = fit(text, room)
    end = part.rfind("\n") + 1
    return part[:end] if end and len(part) < len(text) else part


def fit_last_lines(text: str, start: int, room: int) -> str:
    """The whole lines at the end of a text, from ``start`` on, that take at most ``room`` bytes."""
    start = max(start, len(text) - room)
    while start < len(text) and (cost(text[start:]) > room or text[start - 1 : start] != "\n"):
        start = text.find("\n", start) + 1 or len(text)
    return text[start:]
