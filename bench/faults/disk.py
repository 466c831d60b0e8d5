"""A disk whose n-th operation fails, and that writes down every operation so that power cuts can be tried afterwards.

While it is ``watching``, what this process does with files below one directory goes through it: the functions of ``os``
here, SQLite's through ``bench.faults.sqlite``. The files are real; only fsync is not carried out, because the journal
knows what would be on the disk.
"""

import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch


class Op(NamedTuple):
    """One operation that was carried out. Files are numbers, because names come and go."""

    kind: str
    """create, write, truncate, sync, sync failed, rename, link, unlink, mkdir, rmdir, sync directory."""
    file: int = 0
    path: str = ""
    other: str = ""
    offset: int = 0
    content: bytes = b""


@dataclass(frozen=True)
class Failing:
    """What goes wrong: the n-th operation, and all after it until the disk is mended if ``lasting``."""

    at: int
    error: int = errno.EIO
    lasting: bool = False
    short: bool = False
    """The n-th operation, if it is a write, writes half and says so; that is no failure."""


class Disk:
    """Everything below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.journal: list[Op] = []
        self.count = 0
        self.failed = ""
        """The first operation that failed; empty if none did."""
        self.failing: Failing | None = None
        self.guard = threading.RLock()
        self._files: dict[str, int] = {}
        self._numbers = iter(range(1, 1 << 30))
        self._real: dict[str, Callable[..., Any]] = {}

    def covers(self, path: str) -> bool:
        return path == self.root or path.startswith(f"{self.root}/")

    def mend(self) -> None:
        """Nothing fails from here on."""
        self.failing = None

    def step(self, kind: str, path: str) -> int:
        """Count an operation; the error number it has to fail with, or 0."""
        self.count += 1
        failing = self.failing
        if failing is None or failing.short or self.count < failing.at:
            return 0
        if self.count > failing.at and not failing.lasting:
            return 0
        self.failed = self.failed or f"{kind} {os.path.relpath(path, self.root)}"
        return failing.error

    @property
    def is_short(self) -> bool:
        """Whether the operation that was just counted writes only half."""
        found = self.failing is not None and self.failing.short and self.count == self.failing.at
        if found:
            self.failed = self.failed or "short write"
        return found

    def number(self, path: str) -> int:
        """The file of that name; one the journal does not know was there from the beginning."""
        known = self._files.get(path)
        if known is None:
            known = self._files[path] = next(self._numbers)
        return known

    def create(self, path: str) -> int:
        self._files.pop(path, None)
        number = self.number(path)
        self.journal.append(Op("create", number, path))
        return number

    def note(self, op: Op) -> None:
        self.journal.append(op)
        if op.kind == "rename":
            self._files[op.other] = self._files.pop(op.path, None) or next(self._numbers)
        elif op.kind == "link":
            self._files[op.other] = self.number(op.path)
        elif op.kind == "unlink":
            self._files.pop(op.path, None)

    # The functions of os

    @contextmanager
    def watching(self) -> Iterator[None]:
        names = ("open", "write", "fsync", "replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir")
        self._real = {name: getattr(os, name) for name in names} | {"io.open": io.open}
        ours = {name: getattr(self, f"_{'unlink' if name == 'remove' else name}") for name in names}
        with patch.multiple(os, **ours), patch.object(io, "open", self._io_open):
            yield

    def _refuse(self, kind: str, path: str) -> None:
        number = self.step(kind, path)
        if number:
            raise OSError(number, os.strerror(number), path)

    def _io_open(self, file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if not isinstance(file, int) and self.covers(os.fspath(file)):
            assert not set("wax+") & set(mode), f"{file} is written without os.write: the disk cannot see it"
            with self.guard:
                self._refuse("open", os.fspath(file))
        return self._real["io.open"](file, mode, *args, **options)

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        where = _absolute(path, dir_fd)
        if not self.covers(where):
            return int(self._real["open"](path, flags, mode, dir_fd=dir_fd))
        with self.guard:
            self._refuse("open", where)
            is_new = not os.path.lexists(where)
            descriptor = int(self._real["open"](path, flags, mode, dir_fd=dir_fd))
            if is_new:
                self.create(where)
            elif flags & os.O_TRUNC:
                self.note(Op("truncate", self.number(where)))
            return descriptor

    def _write(self, descriptor: int, content: Any) -> int:
        where = _path_of(descriptor)
        if not self.covers(where):
            return int(self._real["write"](descriptor, content))
        with self.guard:
            number = self.step("write", where)
            half = number or self.is_short
            content = bytes(content)[: len(content) // 2 if half else None]
            offset = os.lseek(descriptor, 0, os.SEEK_CUR)
            written = int(self._real["write"](descriptor, content))
            self.note(Op("write", self.number(where), offset=offset, content=content))
            if number:
                raise OSError(number, os.strerror(number))
            return written

    def _fsync(self, descriptor: int) -> None:
        where = _path_of(descriptor)
        if not self.covers(where):
            return None if self.root.startswith(where) else self._real["fsync"](descriptor)
        with self.guard:
            is_directory = os.path.isdir(where)
            number = self.step("fsync", where)
            if number:
                if not is_directory:
                    self.note(Op("sync failed", self.number(where)))
                raise OSError(number, os.strerror(number))
            self.note(Op("sync directory", path=where) if is_directory else Op("sync", self.number(where)))
        return None

    def _replace(self, old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        source, target = _absolute(old, src_dir_fd), _absolute(new, dst_dir_fd)
        with self.guard:
            if self.covers(target):
                self._refuse("rename", target)
            self._real["replace"](old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            if self.covers(target):
                self.note(Op("rename", path=source, other=target))

    _rename = _replace

    def _link(self, old: Any, new: Any, **options: Any) -> None:
        with self.guard:
            if self.covers(os.fspath(new)):
                self._refuse("link", os.fspath(new))
            self._real["link"](old, new, **options)
            if self.covers(os.fspath(new)):
                self.note(Op("link", path=os.fspath(old), other=os.fspath(new)))

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._change("unlink", path, dir_fd, lambda: self._real["unlink"](path, dir_fd=dir_fd))

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._change("mkdir", path, dir_fd, lambda: self._real["mkdir"](path, mode, dir_fd=dir_fd))

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._change("rmdir", path, dir_fd, lambda: self._real["rmdir"](path, dir_fd=dir_fd))

    def _change(self, kind: str, path: Any, dir_fd: int | None, work: Callable[[], None]) -> None:
        where = _absolute(path, dir_fd)
        if not self.covers(where):
            return work()
        with self.guard:
            self._refuse(kind, where)
            work()
            self.note(Op(kind, path=where))
        return None


def _absolute(path: Any, dir_fd: int | None) -> str:
    text = os.fsdecode(path)
    return text if dir_fd is None else os.path.normpath(os.path.join(_path_of(dir_fd), text))


def _path_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
