"""SQLite on a disk that fails: a layer between SQLite and the files, the default while it is ``registered``."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import apsw

from bench.faults.disk import Disk, Op

NAME = "toolcrib-faults"
_SYNCS_DIRECTORY = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
"""For these SQLite forces the directory to the disk, too, when it first forces a new one."""


@contextmanager
def registered(disk: Disk) -> Iterator[None]:
    """Have every connection that is opened meanwhile use the disk."""
    layer = _Layer(disk)
    try:
        # SQLite's own handling hides some failures, closing among them, which apsw then prints.
        with patch.object(sys, "excepthook", _ignore), patch.object(sys, "unraisablehook", _ignore):
            yield
    finally:
        layer.unregister()


def _ignore(*_: Any) -> None:
    """The disk has it in its books."""


def _error(number: int) -> apsw.Error:
    return apsw.FullError("injected") if number == errno.ENOSPC else apsw.IOError("injected")


class _Layer(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        super().__init__(NAME, "unix", makedefault=True)
        self._disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not self._disk.covers(path):
            return apsw.VFSFile("unix", name, flags)
        with self._disk.guard:
            if self._disk.step("open", path):
                raise apsw.CantOpenError("injected")
            is_new = not os.path.exists(path)
            file = _File(self._disk, name, flags, path)
            if is_new:
                self._disk.create(path)
                file.syncs_directory = bool(flags[0] & _SYNCS_DIRECTORY)
            return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        with self._disk.guard:
            if self._disk.step("unlink", filename):
                raise apsw.IOError("injected")
            there = os.path.exists(filename)
            super().xDelete(filename, False)
            if there:
                self._disk.note(Op("unlink", path=filename))
            if syncdir:
                self._disk.note(Op("sync directory", path=os.path.dirname(filename)))


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int], path: str) -> None:
        super().__init__("unix", name, flags)
        self._disk, self._path = disk, path
        self.syncs_directory = False

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        with self._disk.guard:
            if self._disk.step("read", self._path):
                raise apsw.IOError("injected")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        with self._disk.guard:
            number = self._disk.step("write", self._path)
            content = bytes(data)[: len(data) // 2 if number else None]
            super().xWrite(content, offset)
            self._disk.note(Op("write", self._disk.number(self._path), offset=offset, content=content))
            if number:
                raise _error(number)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        with self._disk.guard:
            if self._disk.step("truncate", self._path):
                raise apsw.IOError("injected")
            super().xTruncate(newsize)
            self._disk.note(Op("truncate", self._disk.number(self._path), offset=newsize))

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802
        with self._disk.guard:
            if self._disk.step("fsync", self._path):
                self._disk.note(Op("sync failed", self._disk.number(self._path)))
                raise apsw.IOError("injected")
            self._disk.note(Op("sync", self._disk.number(self._path)))
            if self.syncs_directory:
                self._disk.note(Op("sync directory", path=os.path.dirname(self._path)))
                self.syncs_directory = False
