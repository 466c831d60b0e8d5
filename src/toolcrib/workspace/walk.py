"""The files below a directory of the workspace: by descriptors all the way down, links never followed."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from toolcrib.core.globs import Rule, is_ignored, read_rules
from toolcrib.workspace.beneath import DIRECTORY
from toolcrib.workspace.root import WorkspaceRoot

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
