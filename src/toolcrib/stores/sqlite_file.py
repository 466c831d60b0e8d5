"""A SQLite file of our own: made for its owner alone, opened to survive power cuts, brought up to date by steps."""

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.core.errors import ToolcribError, remedy_of
from toolcrib.stores.files import force_path, make_directory, refuse_others, sync_directory

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")
BUSY_MS = 5_000
SAFE_SQLITE = (3, 51, 3)
"""Older ones can damage a database that two processes write (the WAL-reset bug)."""
_SQL = Path(__file__).with_name("sql")
_DRAFT = ".new"


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
    if not path.exists():
        make_directory(path.parent, 0o700)
        _make_file(path, format)
    _refuse_empty(path, format)
    sync_directory(path.parent)  # whoever made the file may not have come so far
    return _patiently(lambda: _open(path, format))


def _make_file(path: Path, format: Format) -> None:  # noqa: A002
    """Make it whole beside its place, then give it its name: a file that is there and empty was not left so by us."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_DRAFT}")
    try:
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _open(draft, format).close()
        force_path(path.parent)
        with suppress(FileExistsError):  # another process was quicker
            os.link(draft, path)
    finally:
        for leftover in path.parent.glob(f"{draft.name}*"):
            with suppress(OSError):
                leftover.unlink()


def _refuse_empty(path: Path, format: Format) -> None:  # noqa: A002
    """Also see to it that nobody else may read it; SQLite gives its side files the same mode."""
    status = path.stat()
    refuse_others(status.st_mode)
    if not status.st_size:
        message = f"The {format.shown} {path.name} is empty: it was cut, and what it held is gone."
        raise format.error(message, hint=_DAMAGED, details={"reason": "the file is empty"})
    if status.st_mode & 0o077:
        path.chmod(status.st_mode & 0o700)


def _open(path: Path, format: Format) -> "apsw.Connection":  # noqa: A002
    import apsw

    refuse_old_sqlite(apsw.sqlite_lib_version(), format)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection, path, format)
        connection.execute("PRAGMA journal_mode = WAL")
        # What an fsync failed to keep can still be read, and is never kept by a later one: writing it anew does.
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
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


_ELSEWHERE = "Make room or mend its place (`toolcrib doctor` names it), or choose another with"
_DAMAGED = "Move the file aside and keep it, then put a good copy in its place, or begin anew without."
_DISK_ERROR = "Look at the system's log, and copy the file to another disk."
_TROUBLE = {
    "FullError": ("the disk is full", "Make room on its disk, then try again."),
    "IOError": ("the disk reports an error", _DISK_ERROR),
    "ReadOnlyError": ("the file may not be written", ""),
    "CantOpenError": ("the file cannot be opened", ""),
    "PermissionsError": ("the file may not be written", ""),
    "BusyError": ("another program keeps it locked", "End that program, or try again when it has finished."),
    "LockedError": ("another program keeps it locked", "End that program, or try again when it has finished."),
    "CorruptError": ("the file is damaged; move it aside and keep it", _DAMAGED),
    "NotADBError": ("the file is not a database", _DAMAGED),
    "SQLError": ("the file lacks what it should hold; it is damaged", _DAMAGED),
}


def reason_of(error: Exception) -> str:
    """The trouble in plain words, without a path."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return _TROUBLE.get(type(error).__name__, (f"{type(error).__name__}: {error}", ""))[0]


def way_out(error: Exception, format: Format) -> str:  # noqa: A002
    """What to do about it."""
    known = remedy_of(error) if isinstance(error, OSError) else _TROUBLE.get(type(error).__name__, ("", _DAMAGED))[1]
    return known or f"{_ELSEWHERE} {format.setting}."


def unusable(error: Exception, path: Path, format: Format) -> ToolcribError:  # noqa: A002
    """Trouble with a file as an error of ours. Its directory is not named, for callers on other machines read this."""
    reason = reason_of(error)
    message = f"The {format.shown} {path.name} cannot be used: {reason}."
    return format.error(message, hint=way_out(error, format), details={"reason": reason})


@contextmanager
def transaction(connection: "apsw.Connection") -> Iterator[None]:
    """All or nothing; takes the writer's place before anything is read."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class FileThread:
    """One thread with one connection to a file, opened when it is first needed, and anew after a failure."""

    def __init__(self, path: Path, format: Format) -> None:  # noqa: A002
        self._path, self._format = path, format
        self._thread: ThreadPoolExecutor | None = None
        self._connection: apsw.Connection | None = None

    async def do(self, work: "Callable[[apsw.Connection], T]") -> T:
        """Have work done there; whatever goes wrong with the file is told in our words."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"toolcrib-{self._format.name}")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def _do(self, work: "Callable[[apsw.Connection], T]") -> T:
        try:
            if self._connection is None:
                self._connection = open_file(self._path, self._format)
            return work(self._connection)
        except ToolcribError:
            raise
        except Exception as error:  # the edge of the disk: whatever goes wrong there is told in our words
            self._let_go()
            raise unusable(error, self._path, self._format) from error

    async def close(self) -> None:
        """Let go of the file."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        await asyncio.get_running_loop().run_in_executor(thread, self._let_go)
        thread.shutdown()

    def _let_go(self) -> None:
        if self._connection is not None:
            with suppress(Exception):  # closing: what was acknowledged is on disk already
                self._connection.close()
            self._connection = None
