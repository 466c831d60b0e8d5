"""Listing a directory, and finding files by their names: by descriptors all the way down, links never followed."""

import asyncio
import itertools
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from toolcrib.core.errors import InvalidArguments
from toolcrib.core.globs import Glob, Rule, is_ignored, read_glob, read_rules
from toolcrib.core.requests import Result
from toolcrib.workspace.beneath import DIRECTORY
from toolcrib.workspace.files import said
from toolcrib.workspace.root import WorkspaceRoot

Arguments = Mapping[str, Any]
LISTED = 500
PATTERN_MAX = 500
DEPTH_MAX = 64
IGNORE_FILES = (".gitignore", ".ignore")
_IGNORE_BYTES_MAX = 1 << 20
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

Rules = tuple[tuple[str, tuple[Rule, ...]], ...]


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """Something in a directory, as its own directory tells."""

    path: str
    kind: str
    """``file``, ``directory``, ``link`` or ``other``."""
    size: int
    mtime_s: float
    target: str = ""
    """What a link says it leads to."""


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """What is looked at: hidden entries and those the ignore files leave out only if asked for."""

    hidden: bool = False
    ignored: bool = False
    depth: int = DEPTH_MAX


def walk(root: WorkspaceRoot, start: str, wanted: WalkOptions) -> Iterator[DirectoryEntry]:
    """Everything below ``start``, by name, directories before what is in them; paths are as seen from the root."""
    parts = root.parts(start)
    with root.listing(start) as directory:
        rules = () if wanted.ignored else _rules_above(root, parts)
        yield from _Walk(wanted).below(directory, parts, rules)


def _rules_above(root: WorkspaceRoot, parts: Sequence[str]) -> Rules:
    """The ignore files from the root down to the start count, too."""
    rules: Rules = ()
    for depth in range(len(parts)):
        with root.listing("/".join(parts[:depth]) or ".") as directory:
            rules = (*rules, *_rules_in(directory, parts[:depth]))
    return rules


def _rules_in(directory: int, parts: Sequence[str]) -> Rules:
    here = "".join(f"{part}/" for part in parts)
    read = ((here, read_rules(_read_small(directory, name))) for name in IGNORE_FILES)
    return tuple((where, rules) for where, rules in read if rules)


def _read_small(directory: int, name: str) -> str:
    with suppress(OSError):
        descriptor = os.open(name, _FILE, dir_fd=directory)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read(_IGNORE_BYTES_MAX).decode(errors="replace")
    return ""


class _Walk:
    """One walk; what vanishes on the way is passed over."""

    def __init__(self, wanted: WalkOptions) -> None:
        self._wanted = wanted

    def below(self, directory: int, parts: tuple[str, ...], rules: Rules, depth: int = 1) -> Iterator[DirectoryEntry]:
        if not self._wanted.ignored:
            rules = (*rules, *_rules_in(directory, parts))
        for name in sorted(self._names(directory)):
            entry = _entry(directory, name, "/".join((*parts, name)))
            if entry is None or self._is_left_out(entry, rules):
                continue
            yield entry
            if entry.kind == "directory" and depth < min(self._wanted.depth, DEPTH_MAX):
                yield from self._into(directory, name, (*parts, name), rules, depth + 1)

    def _into(
        self, above: int, name: str, parts: tuple[str, ...], rules: Rules, depth: int
    ) -> Iterator[DirectoryEntry]:
        try:
            directory = os.open(name, DIRECTORY, dir_fd=above)
        except OSError:  # no directory any more, or not for us
            return
        try:
            yield from self.below(directory, parts, rules, depth)
        finally:
            os.close(directory)

    def _names(self, directory: int) -> list[str]:
        return [name for name in os.listdir(directory) if self._wanted.hidden or not name.startswith(".")]

    def _is_left_out(self, entry: DirectoryEntry, rules: Rules) -> bool:
        if entry.path == ".git" or entry.path.endswith("/.git"):
            return not self._wanted.ignored
        return is_ignored(entry.path, entry.kind == "directory", rules)


def _entry(directory: int, name: str, path: str) -> DirectoryEntry | None:
    with suppress(OSError):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
        target = os.readlink(name, dir_fd=directory) if kind == "link" else ""
        return DirectoryEntry(path, kind, status.st_size, status.st_mtime, target)
    return None


_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


class ListTools:
    """The tools that tell what there is."""

    def __init__(self, root: WorkspaceRoot) -> None:
        self._root = root

    async def list_directory(self, arguments: Arguments) -> Result:
        """What is in a directory."""
        start = arguments.get("path", ".")
        wanted = WalkOptions(arguments.get("hidden", False), arguments.get("ignored", True), arguments.get("depth", 1))
        entries, cut = await asyncio.to_thread(self._take, start, wanted, arguments.get("limit", LISTED), None)
        shown = "\n".join(map(_line, entries)) or "(nothing)"
        more = f"\n(only the first {len(entries)}; name a directory further down, or raise limit)" if cut else ""
        return said(shown + more, {"path": start, "entries": [_data(entry) for entry in entries], "cut": cut})

    async def find(self, arguments: Arguments) -> Result:
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
