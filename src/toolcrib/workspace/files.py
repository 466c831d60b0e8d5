"""Reading, writing, changing and listing files of the workspace."""

import asyncio
import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.core.errors import InvalidArguments
from toolcrib.core.requests import Result
from toolcrib.workspace.root import WorkspaceRoot, WrittenFile
from toolcrib.workspace.texts import (
    SAMPLE,
    Edit,
    Encoding,
    apply_edit,
    counts,
    decoded_lines,
    diff,
    encoding_of,
    sample_encoding,
    uses_crlf,
    with_ends_of,
)

Arguments = Mapping[str, Any]
LINES = 2000
LINE_MAX = 2000
SHOWN_MAX = 200_000


def said(text: str, data: Mapping[str, Any]) -> Result:
    """A result that a model reads as text and a program as values."""
    return Result({"content": [{"type": "text", "text": _mended(text)}], "structuredContent": _mended(dict(data))})


def _mended(value: Any) -> Any:
    """The same with what no JSON can carry replaced: names of files can be any bytes."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return {key: _mended(item) for key, item in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file, numbered, and what is known of the rest."""

    lines: list[str]
    first: int
    has_more: bool
    total: int | None
    """``None`` if the file is too long to be counted."""

    def __str__(self) -> str:
        body = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(self.lines, self.first))
        after = self.first + len(self.lines)
        of = f" of {self.total}" if self.total is not None else ""
        if self.has_more:
            return f"{body}\n(lines {self.first} to {after - 1}{of}; go on with offset {after})"
        return body or (f"(the file has {self.total} lines)" if self.total else "(the file is empty)")


class FileTools:
    """The file tools over one root; changes are made one after the other."""

    def __init__(self, root: WorkspaceRoot) -> None:
        self._root = root
        self._turn = asyncio.Lock()

    async def read(self, arguments: Arguments) -> str:
        """Lines of a text file."""
        offset, limit = arguments.get("offset", 1), arguments.get("limit", LINES)
        return str(await asyncio.to_thread(self._read, arguments["path"], offset, limit))

    def _read(self, path: str, offset: int, limit: int) -> Excerpt:
        with self._root.reading(path) as file:
            sample = file.read(SAMPLE)
            encoding = sample_encoding(sample)
            if encoding is None:
                size = os.fstat(file.fileno()).st_size
                raise InvalidArguments(f"{path!r} is not text: {size} bytes of something else.")
            file.seek(0)
            return _excerpt(decoded_lines(file, encoding), offset, limit)

    async def write(self, arguments: Arguments) -> Result:
        """A whole file."""
        wanted = arguments["content"]

        def change(before: bytes | None) -> bytes:
            if before is not None and arguments.get("overwrite", True) is False:
                raise InvalidArguments(f"{arguments['path']!r} is there already.", hint="Set overwrite, or change it.")
            encoding = (encoding_of(before) if before else None) or Encoding()
            crlf = bool(before) and "\r" not in wanted and uses_crlf(encoding.decode(before or b""))
            return encoding.encode(with_ends_of(wanted, crlf=True) if crlf else wanted)

        async with self._turn:
            done = await asyncio.to_thread(self._root.change, arguments["path"], change, make=True)
        return _told(done)

    async def edit(self, arguments: Arguments) -> Result:
        """One text in place of another."""
        count = None if arguments.get("all") else arguments.get("count", 1)
        edit = Edit(arguments["old_text"], arguments["new_text"], count)

        def change(before: bytes | None) -> bytes:
            if before is None:
                raise FileNotFoundError(2, "No such file")
            encoding = encoding_of(before)
            if encoding is None:
                raise InvalidArguments(f"{arguments['path']!r} is not text.")
            return encoding.encode(apply_edit(encoding.decode(before), edit))

        async with self._turn:
            done = await asyncio.to_thread(self._root.change, arguments["path"], change)
        return _told(done)


def _told(done: WrittenFile) -> Result:
    before, after = (_text(content) for content in (done.before, done.after))
    changed = diff(done.path, before, after)
    added, removed = counts(changed)
    deed = "created" if done.before is None else "changed" if done.before != done.after else "unchanged"
    data = {"path": done.path, "outcome": deed, "bytes": len(done.after), "added": added, "removed": removed}
    shown = f"{done.path}: {deed}, {added} lines added, {removed} removed, {len(done.after)} bytes now."
    return said(f"{shown}\n{changed if done.before is not None else ''}".rstrip(), data | {"diff": changed})


def _text(content: bytes | None) -> str:
    encoding = encoding_of(content) if content else None
    return encoding.decode(content or b"") if encoding else ""


def _excerpt(lines: Iterator[str], offset: int, limit: int) -> Excerpt:
    skipped = sum(1 for _ in itertools.islice(lines, offset - 1))
    shown, size = [], 0
    for line in itertools.islice(lines, limit):
        shown.append(_cut(line))
        size += len(shown[-1])
        if size > SHOWN_MAX:
            break
    rest = sum(1 for _ in itertools.islice(lines, 1_000_000))
    total = skipped + len(shown) + rest if rest < 1_000_000 else None
    return Excerpt(shown, min(offset, skipped + 1), bool(rest), total)


def _cut(line: str) -> str:
    text = line.rstrip("\r\n")
    return text if len(text) <= LINE_MAX else f"{text[:LINE_MAX]}... ({len(text) - LINE_MAX} more characters)"
