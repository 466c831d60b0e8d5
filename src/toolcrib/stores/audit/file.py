"""The audit log in a file of this machine: how it is made, appended to and read. All of it may wait for the disk."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import asdict

from toolcrib.core.audit import CALL
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.log import (
    REFUSED,
    AuditQuery,
    Head,
    InDoubtError,
    NoAuditLog,
    Row,
    Stored,
    ToolUsage,
    Use,
    body_of,
    cut_entry,
    extend,
)
from toolcrib.stores.sqlite_file import BUSY_MS, Format, open_file, read_sql, reason_of, way_out

if TYPE_CHECKING:
    import apsw

FORMAT = Format("audit", 1, AuditUnavailable, "audit log", "[audit] path")
_CLOSED = (-1, -1)

_APPEND = (
    "INSERT INTO entry (seq, hash, body) SELECT ?1 + rowid - 1, substr(?2, rowid * 32 - 31, 32), value FROM carray(?3)"
)
_MOVE_HEAD = "UPDATE head SET seq = ?, hash = ?"
_END = "SELECT 1 FROM entry WHERE seq > ? AND body ->> 'event' = ? AND body ->> 'execution_id' = ? LIMIT 1"
_ROWS = "SELECT seq, hash, body FROM entry WHERE seq >= ? ORDER BY seq LIMIT ?"
_TIME = "SELECT body ->> 'time' FROM entry WHERE seq = ?"
_ENDS = "SELECT min(seq), max(seq) FROM entry"


@dataclass(frozen=True, slots=True)
class AuditFile:
    """A log in one SQLite file, which several processes may share."""

    path: Path
    timeout_s: ClassVar[float | None] = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def remedy(self) -> str:
        """Without its directory, for callers on other machines read this."""
        return (
            f"Make room or mend the place of {self.path.name} (`toolcrib doctor` names it); "
            "if it is damaged, move it aside and keep it. See [audit] in the configuration."
        )

    def open(self) -> "AuditDatabase":
        """For writing; the file is made if there is none."""
        return AuditDatabase(self.path)

    @contextmanager
    def reading(self) -> Iterator["SqliteLog"]:
        """For reading only; trouble with the file is told in plain words."""
        import apsw

        if not self.path.exists():
            raise NoAuditLog(f"There is no audit log at {self.path}.")
        if not self.path.is_file():
            kind = "directory" if self.path.is_dir() else "pipe or a device"
            raise AuditUnavailable(f"The audit log {self.path} is a {kind}.", hint="Move it away.")
        try:
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                connection.set_busy_timeout(BUSY_MS)
                yield SqliteLog(connection)
            finally:
                connection.close()
        except apsw.Error as error:
            message = f"The audit log {self.path} cannot be read: {reason_of(error)}."
            raise AuditUnavailable(message, hint=way_out(error, FORMAT)) from error

    def check(self) -> None:
        """Look at what the file system says of the file, or of where it will be."""
        place = next(parent for parent in (self.path, *self.path.parents) if parent.exists())
        if self.path.is_dir() or not os.access(place, os.W_OK):
            raise AuditUnavailable(f"The audit log {self.path} may not be written.", hint=self.remedy)


class AuditDatabase:
    """One connection that appends; used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_file(path, FORMAT)
        self._identity: tuple[int, int] | None = _identity(path)
        self.head = self._read_head()

    @property
    def is_in_place(self) -> bool:
        """Whether the file that was opened is still the one at the path."""
        return _identity(self._path) == self._identity

    def append(self, bodies: Sequence[bytes]) -> None:
        """Add the entries to the chain, durably, all or none.

        Whoever appends takes a failure as the end of this connection, so nothing is rolled back by hand.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        head = self._read_head()  # another process may have written since
        if head.seq < self.head.seq:
            bodies = [body_of(time.time_ns(), cut_entry(self.head, head.seq)), *bodies]
        self.head = head
        end = self._append(bodies)
        self._commit(end)
        self.head = end

    def _append(self, bodies: Sequence[bytes]) -> Head:
        """One statement for all rows, so that the interpreter's lock is given away once for the whole batch."""
        import apsw

        hashes, end = extend(self.head, bodies)
        texts = apsw.carray(tuple([body.decode() for body in bodies]))
        self._connection.execute(_APPEND, (self.head.seq + 1, b"".join(hashes), texts))
        self._connection.execute(_MOVE_HEAD, (end.seq, end.hash))
        return end

    def _commit(self, end: Head) -> None:
        """A commit that fails may be found to count all the same when the file is opened anew."""
        import apsw

        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            raise InDoubtError(reason_of(error), end) from error

    def _read_head(self) -> Head:
        head = _head_of(self._connection)
        if head is None:
            raise AuditUnavailable("It has lost its head.", hint="Run `toolcrib audit verify`.")
        return head

    def has(self, end: Head) -> bool:
        """Whether the chain has this entry."""
        row: Any = self._connection.execute("SELECT hash FROM entry WHERE seq = ?", (end.seq,)).fetchone()
        return row is not None and row[0] == end.hash

    def close(self) -> None:
        """Let go of the file; it is opened anew for what comes next."""
        self._identity = _CLOSED
        with suppress(Exception):  # closing: what was acknowledged is on disk already
            self._connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - on the way of every batch
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _head_of(connection: "apsw.Connection") -> Head | None:
    row: Any = connection.execute("SELECT seq, hash FROM head").fetchone()
    return None if row is None else Head(*row)


class SqliteLog:
    """A file that is open for reading."""

    def __init__(self, connection: "apsw.Connection") -> None:
        self._connection = connection

    def search(self, query: AuditQuery, count: int | None = None) -> Iterator[Row]:
        """What fits, the newest first."""
        # Counted here: with a bound LIMIT, SQLite compiles the statement anew each time (60 µs).
        return islice(self._rows(read_sql("audit_search"), asdict(query)), count)

    def has_end(self, begun: Stored) -> bool:
        """Whether the end of a call stands further on; most often it is near."""
        return self._connection.execute(_END, (begun.seq, CALL, begun.execution_id)).fetchone() is not None

    def per_hour(self, query: AuditQuery, count: int) -> Iterator[tuple[int, int, int]]:
        """Counted inside SQLite."""
        counted = (
            "SELECT (body ->> 'time') / 3600000000 AS hour,"  # noqa: S608 - nothing of it comes from outside
            " sum(body ->> 'outcome' = 'success'), sum(body ->> 'outcome' <> 'success')"
            f" FROM ({read_sql('audit_search')} LIMIT :count) WHERE body ->> 'event' = '{CALL}' GROUP BY hour"
        )
        rows = self._rows(counted, {**asdict(query), "count": count})
        return ((int(hour), int(good or 0), int(bad or 0)) for hour, good, bad in rows if hour is not None)

    def rows(self, first: int = 1, count: int | None = None) -> Iterator[Row]:
        """From a number on, in order."""
        return self._rows(_ROWS, (first, -1 if count is None else count))

    def checked(self, first: int = 1) -> Iterator[Row]:
        """There is nothing beside the entries."""
        return self.rows(first)

    def usage(self, since_us: int) -> ToolUsage | None:
        """The calls since a moment; ``None`` if the log is empty."""
        ends: Any = self._connection.execute(_ENDS).fetchone()
        if ends is None or ends[0] is None:
            return None
        used: dict[str, Use] = {}
        for what, calls, last in self._rows(read_sql("audit_usage"), {"first": self._first_since(since_us, ends)}):
            event, decision, tool = msgspec.json.decode(what)
            if event == CALL and tool and (decision or "").partition(" by ")[0] not in REFUSED:
                known = used.get(tool, Use(0, 0))
                used[tool] = Use(known.calls + calls, max(known.last_us, self._time(last)))
        return ToolUsage(max(since_us, self._time(ends[0])), used)

    def _first_since(self, moment_us: int, ends: tuple[int, int]) -> int:
        """The number of the first entry since a moment, found by halving: entries are numbered as time goes by."""
        low, high = ends[0], ends[1] + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._time(middle) < moment_us else (low, middle)
        return low

    def _time(self, seq: int) -> int:
        row: Any = self._connection.execute(_TIME, (seq,)).fetchone()
        return row[0] if row and isinstance(row[0], int) else 0

    def head(self) -> Head | None:
        """The end of the chain as its writers know it."""
        return _head_of(self._connection)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One view of the file, whoever appends meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _rows(self, statement: str, bound: Any) -> Iterator[Any]:
        return iter(self._connection.execute(statement, bound))
