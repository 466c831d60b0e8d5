"""What a model gets in place of a large result: what it is, how to read on, its beginning and its end."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.calls.results.document import Attachment, ResultDocument, as_json, cost, fit, fit_last_lines, fit_lines
from toolcrib.calls.results.paths import kind_of, members
from toolcrib.calls.results.shape import find_blob, shape_of
from toolcrib.core.names import RESULT_READ

META = "toolcrib/kept"
HEAD_ROOM = 4096
TAIL_ROOM = 1024
SHAPE_ROOM = 2048
ATTACHMENTS_NAMED = 20
LINES_MORE = 200
LINE_USUAL = 500
"""Text whose lines are longer on average is not read line by line."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a result that was put aside."""

    handle: str
    tool: str
    size: int
    limit: int
    keep_s: float

    @property
    def meta(self) -> dict[str, Any]:
        """For programs: where the whole result is."""
        return {"handle": self.handle, "bytes": self.size, "tool": self.tool, "keep_s": self.keep_s}


def preview_blocks(document: ResultDocument, kept: Kept) -> list[Any]:
    """The content to show: one text, and those attachments that are small enough to go along."""
    excerpt, following = _excerpt(document.text, kept.limit)
    shape = fit(_shape(document), min(SHAPE_ROOM, kept.limit // 4))
    first = (
        f"[Preview by toolcrib: the result of {kept.tool} is {readable_size(kept.size)}, too much to show at once; "
        f"kept whole for {readable_time(kept.keep_s)}. It is {shape}. "
        f"Read on with {RESULT_READ} {_example(document, kept, following)}.]"
    )
    parts = [first, *_named(document), *([excerpt] if excerpt else [])]
    return [{"type": "text", "text": "\n".join(parts)}, *_small_attachments(document, kept.limit // 4)]


def _shape(document: ResultDocument) -> str:
    parts = []
    if _is_worth_telling(document):
        lines = document.text.count("\n") + 1
        parts.append(f"text of {len(document.text):,} characters in {lines:,} line{'s' * (lines > 1)}")
    if document.data is not None:
        table = document.table if document.structured is None and as_json(document.text) is None else None
        parts.append(f"{f'rows ({table.kind})' if table else 'JSON'} of the shape {shape_of(document.data)}")
    if document.attachments:
        parts.append(f"{len(document.attachments)} attachment{'s' * (len(document.attachments) > 1)}")
    return ", and ".join(parts) or f"an MCP result of the shape {shape_of(Raw(document.raw))}"


def _is_worth_telling(document: ResultDocument) -> bool:
    """Whether there is a text beside the data, rather than the same once more."""
    return bool(document.text) and (document.data is None or (bool(document.texts) and as_json(document.text) is None))


def _example(document: ResultDocument, kept: Kept, following: dict[str, int]) -> str:
    """Arguments that work, for the kind of result it is."""
    if document.data is not None:
        return example(handle=kept.handle, path=_first_path(document.data)) + ' or "search": "words"'
    if document.text and (following or not document.attachments):
        return example(handle=kept.handle, **(following or {"offset": 0})) + ' or "search": "words"'
    path = _block_path(document.attachments[0]) if document.attachments else "$.content"
    return example(handle=kept.handle, path=path)


def _block_path(found: Attachment) -> str:
    """The path of the content block, which is handed over as what it is: a picture as a picture."""
    return found.path.partition("]")[0] + "]"


def _first_path(data: Raw) -> str:
    """A path into the largest part."""
    if kind_of(data) != "object" or not (held := members(data)):
        return "[0]"
    name = max(held, key=lambda key: memoryview(held[key]).nbytes)
    plain = name.isascii() and name.replace("_", "").isalnum()
    return name if plain else f"[{example_text(name)}]"


def example(**arguments: Any) -> str:
    """Arguments as a model writes them."""
    return msgspec.json.format(msgspec.json.encode(arguments), indent=0).decode()


def example_text(text: str) -> str:
    """A text in quotes."""
    return msgspec.json.encode(text).decode()


def is_line_like(text: str) -> bool:
    """Whether a text has lines worth counting."""
    lines = text.count("\n")
    return lines > 0 and len(text) / lines <= LINE_USUAL


def _named(document: ResultDocument) -> list[str]:
    named = [
        f"- {found.kind}, {readable_size(found.size)}: path {_block_path(found)} hands it over"
        for found in document.attachments[:ATTACHMENTS_NAMED]
    ]
    more = len(document.attachments) - ATTACHMENTS_NAMED
    return [*named, f"- and {more} more"] if more > 0 else named


def _excerpt(text: str, limit: int) -> tuple[str, dict[str, int]]:
    """The beginning (and the end, of a text with lines), and where to read on, if there is more."""
    room = min(HEAD_ROOM, limit // 4)
    if not is_line_like(text):
        head, end = head_of(text, room)
        left_out = len(text) - end
        more = f"\n[… {left_out:,} more characters]"
        return (head + more, {"offset": end}) if left_out else (head, {})
    head = fit_lines(text, room)
    tail = fit_last_lines(text, len(head), min(TAIL_ROOM, limit // 8))
    left_out = text.count("\n", len(head), len(text) - len(tail))
    line = head.count("\n") + 1
    middle = f"[… {left_out:,} more lines, from line {line} on]\n" if left_out else ""
    shown = head_of(head, room)[0], middle, head_of(tail, TAIL_ROOM)[0]
    return "".join(shown), {"line": line, "count": LINES_MORE} if left_out else {}


def head_of(text: str, room: int) -> tuple[str, int]:
    """The beginning of a text with a word in place of each stretch of binary, and how far into the text it goes."""
    shown, at = "", 0
    while room > 0 and at < len(text):
        blob = find_blob(text, at, at + room)
        part = fit(text[at : blob.start if blob else len(text)], room)
        shown, room, at = shown + part, room - cost(part), at + len(part)
        if blob is None or at < blob.start:
            break
        note = f"[{readable_size(blob.size)} of base64, {blob.kind}, left out here]"
        shown, room, at = shown + note, room - cost(note), blob.end
    return shown, at


def _small_attachments(document: ResultDocument, room: int) -> list[Raw]:
    """Pictures and the like that a model can still be shown, as long as they are small together."""
    shown = []
    for found in document.attachments:
        room -= memoryview(found.raw).nbytes
        if room < 0:
            break
        shown.append(found.raw)
    return shown


def readable_size(size: int) -> str:
    """Bytes for a reader."""
    for unit, factor in (("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


def readable_time(seconds: float) -> str:
    """A duration for a reader."""
    for unit, factor in (("h", 3600), ("min", 60)):
        if seconds >= factor:
            return f"{seconds / factor:g} {unit}"
    return f"{seconds:g} s"
