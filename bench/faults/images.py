"""What is left on a disk after a power cut, worked out from the journal of what was done before it.

The strict reading of POSIX: only what was forced to the disk is sure to be there. Content counts from the fsync of its
file, a name from the fsync of its directory. An fsync that fails loses what it should have kept for good, even if the
next one succeeds: that is what Linux does.
"""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.faults.disk import Op

SECTOR = 512
_CONTENT = frozenset({"write", "truncate"})
_NAMES = frozenset({"create", "rename", "link", "unlink", "mkdir", "rmdir"})

Choice = Callable[[Op], bool]
"""Whether something that was not forced to the disk got there all the same."""

NOTHING: Choice = lambda _: False  # noqa: E731
EVERYTHING: Choice = lambda _: True  # noqa: E731
NAMES_ONLY: Choice = lambda op: op.kind in _NAMES  # noqa: E731
CONTENT_ONLY: Choice = lambda op: op.kind in _CONTENT  # noqa: E731


def by_chance(seed: int) -> Choice:
    chance = random.Random(seed)
    return lambda _: chance.random() < 0.5


@dataclass
class Image:
    """Files and directories as they are on the disk, and what may or may not have got there yet."""

    files: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    """0 is a directory."""
    waiting: list[Op] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)
    """Every directory there ever was on this disk; what is above them is another's business."""

    def take(self, op: Op) -> None:
        """One more operation."""
        if op.kind == "mkdir":
            self.directories.add(op.path)
        if op.kind in _CONTENT or op.kind in _NAMES:
            self.waiting.append(op)
        elif op.kind == "sync":
            self._settle(lambda waits: waits.kind in _CONTENT and waits.file == op.file)
        elif op.kind == "sync failed":
            self.waiting = [waits for waits in self.waiting if waits.kind not in _CONTENT or waits.file != op.file]
        elif op.kind == "sync directory":
            self._settle(lambda waits: waits.kind in _NAMES and _directory(waits) == op.path)

    def _settle(self, is_forced: Callable[[Op], bool]) -> None:
        waiting, self.waiting = self.waiting, []
        for op in waiting:
            if is_forced(op):
                self._apply(op)
            else:
                self.waiting.append(op)

    def _apply(self, op: Op) -> None:
        if op.kind == "create":
            self.names[op.path] = op.file
            self.files.setdefault(op.file, b"")
        elif op.kind == "mkdir":
            self.names[op.path] = 0
        elif op.kind in ("unlink", "rmdir"):
            self.names.pop(op.path, None)
        elif op.kind in ("rename", "link") and op.path in self.names:
            self.names[op.other] = self.names[op.path]
            if op.kind == "rename":
                del self.names[op.path]
        elif op.kind == "write":
            self.files[op.file] = _written(self.files.get(op.file, b""), op)
        elif op.kind == "truncate":
            self.files[op.file] = self.files.get(op.file, b"")[: op.offset].ljust(op.offset, b"\0")

    def after_cut(self, choice: Choice, *, is_torn: bool = False) -> dict[str, bytes | None]:
        """What is there when the power is back: content by path, ``None`` for directories."""
        left = Image(dict(self.files), dict(self.names), directories=self.directories)
        for op in self.waiting:
            if choice(op):
                left._apply(_torn(op) if is_torn else op)
        return {
            path: None if number == 0 else left.files.get(number, b"")
            for path, number in sorted(left.names.items())
            if left._is_reachable(path)
        }

    def _is_reachable(self, path: str) -> bool:
        above = os.path.dirname(path)
        return above not in self.directories or (self.names.get(above) == 0 and self._is_reachable(above))


def _torn(op: Op) -> Op:
    """A write that the cut met: some whole sectors of it."""
    return op._replace(content=op.content[: len(op.content) // 2 // SECTOR * SECTOR]) if op.kind == "write" else op


def _written(before: bytes, op: Op) -> bytes:
    return before[: op.offset].ljust(op.offset, b"\0") + op.content + before[op.offset + len(op.content) :]


def _directory(op: Op) -> str:
    return os.path.dirname(op.other or op.path)


def of_directory(root: Path, number: Callable[[str], int]) -> Image:
    """A disk on which everything that is there now is safe."""
    image = Image(names={str(root): 0}, directories={str(root)})
    for path in sorted(root.rglob("*")):
        if path.is_dir():
            image.names[str(path)] = 0
            image.directories.add(str(path))
        else:
            image.names[str(path)] = number(str(path))
            image.files[image.names[str(path)]] = path.read_bytes()
    return image


def put_back(root: Path, content: dict[str, bytes | None]) -> None:
    """Make the directory hold exactly this."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    for name in sorted(content):
        found = content[name]
        if name == str(root):
            continue
        if found is None:
            Path(name).mkdir(mode=0o700)
        else:
            Path(name).write_bytes(found)
            Path(name).chmod(0o600)


def replay(start: Image, journal: Sequence[Op]) -> Image:
    """The disk after all of it."""
    for op in journal:
        start.take(op)
    return start
