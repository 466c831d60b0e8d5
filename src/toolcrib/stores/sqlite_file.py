"""A SQLite file of our own: made for its owner alone, opened to survive power cuts, brought up to date by steps."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.errors import ToolcribError
from toolcrib.stores.files import sync_directory

if TYPE_CHECKING:
    import apsw

BUSY_MS = 5_000
SAFE_SQLITE = (3, 51, 3)
"""Older ones can damage a database that two processes write (the WAL-reset bug)."""
_SQL = Path(__file__).with_name("sql")


@dataclass(frozen=True, slots=True)
class Format:
    """What kind of file it is: the name of its steps in ``sql``, how many there are, and how its trouble is told."""

    name: str
    version: int
    error: Callable[..., ToolcribError]
    shown: str
    setting: str


def read_sql(name: str) -> str:
    """One of the statements that are kept as files."""
    return (_SQL / f"{name}.sql").read_text()


def open_file(path: Path, format: Format) -> "apsw.Connection":  # noqa: A002 - it is one
    """A connection that writes durably; the file is made if there is none."""
    _make_file(path)
    return _patiently(lambda: _open(path, format))


def _make_file(path: Path) -> None:
    """Nobody else may read it; SQLite gives its side files the same mode."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    sync_directory(path.parent)


def _open(path: Path, format: Format) -> "apsw.Connection":  # noqa: A002
    import apsw

    refuse_old_sqlite(apsw.sqlite_lib_version(), format)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection, path, format)
    except BaseException:
        connection.close()
        raise
    return connection


def refuse_old_sqlite(version: str, format: Format) -> None:  # noqa: A002
    """Stop before an SQLite that may damage the file gets hold of it."""
    if tuple(map(int, version.split(".")[:3])) < SAFE_SQLITE:
        needed = ".".join(map(str, SAFE_SQLITE))
        raise format.error(
            f"SQLite {version} may damage a file that two processes write.",
            hint=f"Install a current apsw: it brings SQLite {needed} or newer.",
        )


def _patiently(work: Callable[[], "apsw.Connection"]) -> "apsw.Connection":
    """Two processes that create the file at once disturb each other, and SQLite does not wait in every such case."""
    import apsw

    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            return work()
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: "apsw.Connection", path: Path, format: Format) -> None:  # noqa: A002
    """Bring an older file up to date, step by step; a newer one is left alone."""
    if _version(connection) == format.version:
        return
    connection.execute("BEGIN IMMEDIATE")
    for step in range(_version(connection) + 1, format.version + 1):
        connection.execute(read_sql(f"{format.name}_{step}"))
        connection.execute(f"PRAGMA user_version = {step}")
    connection.execute("COMMIT")
    if (found := _version(connection)) > format.version:
        raise format.error(
            f"The {format.shown} {path} was written by a newer toolcrib (format {found}).",
            hint=f"Update toolcrib, or give this one another file with {format.setting}.",
        )


def _version(connection: "apsw.Connection") -> int:
    found: Any = connection.execute("PRAGMA user_version").get
    return int(found)


REASONS = {
    "FullError": "the disk is full",
    "IOError": "the disk reports an error",
    "ReadOnlyError": "the file may not be written",
    "CantOpenError": "the file cannot be opened",
    "PermissionsError": "the file may not be written",
    "BusyError": "another program keeps it locked",
    "CorruptError": "the file is damaged; move it aside and keep it",
    "NotADBError": "the file is not a database",
}


def reason_of(error: Exception) -> str:
    """The trouble in plain words, without a path."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return REASONS.get(type(error).__name__) or f"{type(error).__name__}: {error}"
