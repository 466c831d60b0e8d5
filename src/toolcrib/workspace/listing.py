"""Listing a directory, and finding files by their names."""

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.core.call import ToolResult
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.globs import Glob, read_glob
from toolcrib.workspace.files import said
from toolcrib.workspace.root import WorkspaceRoot
from toolcrib.workspace.walk import DirectoryEntry, WalkOptions, walk

Arguments = Mapping[str, Any]
LISTED = 500
PATTERN_MAX = 500


class ListTools:
    """The tools that tell what there is."""

    def __init__(self, root: WorkspaceRoot) -> None:
        self._root = root

    async def list_directory(self, arguments: Arguments) -> ToolResult:
        """What is in a directory."""
        start = arguments.get("path", ".")
        wanted = WalkOptions(arguments.get("hidden", False), arguments.get("ignored", True), arguments.get("depth", 1))
        entries, cut = await asyncio.to_thread(self._take, start, wanted, arguments.get("limit", LISTED), None)
        shown = "\n".join(map(_line, entries)) or "(nothing)"
        more = f"\n(only the first {len(entries)}; name a directory further down, or raise limit)" if cut else ""
        return said(shown + more, {"path": start, "entries": [_data(entry) for entry in entries], "cut": cut})

    async def find(self, arguments: Arguments) -> ToolResult:
        """The files whose paths fit a pattern."""
        pattern = check_glob(arguments["pattern"])
        wanted = WalkOptions(arguments.get("hidden", False), arguments.get("ignored", False))
        limit = arguments.get("limit", LISTED)
        kind = arguments.get("kind", "file")
        entries, cut = await asyncio.to_thread(self._take, arguments.get("path", "."), wanted, limit, (pattern, kind))
        shown = "\n".join(entry.path for entry in entries) or "(nothing fits)"
        more = f"\n(only the first {len(entries)}; narrow the pattern, or raise limit)" if cut else ""
        return said(shown + more, {"paths": [entry.path for entry in entries], "cut": cut})

    def _take(
        self, start: str, wanted: WalkOptions, limit: int, fits: tuple[Glob, str] | None
    ) -> tuple[list[DirectoryEntry], bool]:
        found: Iterator[DirectoryEntry] = walk(self._root, start, wanted)
        if fits is not None:
            base = "/".join(self._root.parts(start))
            found = (entry for entry in found if _fits(entry, base, *fits))
        taken = list(itertools.islice(found, limit + 1))
        return taken[:limit], len(taken) > limit


def check_glob(pattern: str) -> Glob:
    """A pattern of a bearable length; raises ``InvalidArguments``."""
    if len(pattern) > PATTERN_MAX or not pattern.strip("/"):
        raise InvalidArguments("The pattern is empty, or too long.", hint='Write one such as "src/**/*.py".')
    return read_glob(pattern)


def _fits(entry: DirectoryEntry, base: str, pattern: Glob, kind: str) -> bool:
    return kind in ("any", entry.kind) and pattern.matches(entry.path[len(base) + 1 :] if base else entry.path)


def _line(entry: DirectoryEntry) -> str:
    if entry.kind == "file":
        return f"{entry.path}  {entry.size}"
    return {"directory": f"{entry.path}/", "link": f"{entry.path} -> {entry.target}"}.get(
        entry.kind, f"{entry.path}  (no ordinary file)"
    )


def _data(entry: DirectoryEntry) -> dict[str, Any]:
    kept: dict[str, Any] = {"path": entry.path, "kind": entry.kind}
    if entry.kind == "file":
        kept |= {"size": entry.size, "mtime": round(entry.mtime_s, 3)}
    return kept | ({"target": entry.target} if entry.kind == "link" else {})
