"""What every parser returns, and which of them a file needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from toolcrib.core.errors import UnreadableSource
from toolcrib.core.knowledge import PLAIN, Outline

FOREIGN = frozenset({"pdf", "docx", "html", "email"})
"""Formats whose parsers are too intricate to be trusted with a stranger's file: they run in a worker of their own."""

SAMPLE = 8192

_CODE = """py pyi js mjs cjs jsx ts tsx go rs java kt kts c h cc cpp cxx hpp cs rb php swift scala lua pl pm r jl ex
exs erl hs ml fs clj dart zig sh bash zsh fish sql proto vue svelte css scss toml yaml yml ini cfg xml tf nix
cmake gradle"""

TYPES: Mapping[str, str] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".txt": "text",
    ".text": "text",
    ".rst": "text",
    ".adoc": "text",
    ".org": "text",
    ".tex": "text",
    ".log": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".eml": "email",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    **{f".{suffix}": "code" for suffix in _CODE.split()},
}
_CONTROL = bytes(byte for byte in range(32) if byte < 9 or 13 < byte < 27 or byte > 27)
_NAMES = {"dockerfile": "code", "makefile": "code", "readme": "text", "license": "text", "changelog": "text"}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document's text, how it is built, and what it says of itself."""

    text: str
    type: str
    title: str = ""
    date: str = ""
    licence: str | None = None
    version: str | None = None
    outline: Outline = PLAIN
    metadata: Mapping[str, Any] = field(default_factory=dict)


def type_of(name: str, sample: bytes) -> str:
    """What kind of document a file is, by its name and its first bytes; raises ``UnreadableSource``."""
    last = name.lower().rpartition("/")[2]
    suffix = last[last.rfind(".", 1) :] if "." in last[1:-1] else ""
    if sample.startswith(b"%PDF-"):
        return "pdf"
    if sample.startswith(b"PK\x03\x04"):
        if suffix == ".docx":
            return "docx"
        raise UnreadableSource("it is an archive", hint="Unpack it and add what is inside.")
    found = TYPES.get(suffix) or _NAMES.get(last)
    if found in ("pdf", "docx"):
        raise UnreadableSource(f"it is named {suffix} but is none")
    if is_binary(sample):
        raise UnreadableSource("it is not text")
    head = sample.lstrip()[:200].lower()
    if found in (None, "text") and head.startswith((b"<!doctype html", b"<html")):
        return "html"
    return found or "text"


def is_binary(sample: bytes) -> bool:
    """Whether these bytes are no text in any encoding we read."""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return False
    control = len(sample) - len(sample.translate(None, _CONTROL))
    return b"\0" in sample or control > len(sample) // 20


def to_utc(value: Any) -> str:
    """A date or time of any common form as ``2026-01-31T12:00:00Z``; empty if it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _shown(datetime.fromtimestamp(value, UTC)) if 0 <= value < 1 << 34 else ""
    if isinstance(value, datetime):
        return _shown(value)
    if isinstance(value, date):
        return f"{value.isoformat()}T00:00:00Z"
    return _from_text(value.strip()) if isinstance(value, str) else ""


def _from_text(value: str) -> str:
    if len(value) > 64 or len(value) < 4:
        return ""
    try:
        return _shown(datetime.fromisoformat(value))
    except ValueError:
        pass
    try:
        return _shown(parsedate_to_datetime(value))
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""


def _shown(moment: datetime) -> str:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return f"{aware.astimezone(UTC).isoformat(timespec='seconds')[:19]}Z"
    except (ValueError, OverflowError):
        return ""
