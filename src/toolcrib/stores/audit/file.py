"""The audit log in a file of this machine: where it is, and how it is read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from toolcrib.core.audit import CALL
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.database import FORMAT, AuditDatabase
from toolcrib.stores.audit.log import NoAuditLog, Row
from toolcrib.stores.audit.reading import AuditQuery, Browse, Stored, ToolUsage, sqlite_usage
from toolcrib.stores.audit.verify import Head
from toolcrib.stores.sqlite_file import BUSY_MS, read_sql, reason_of, way_out

if TYPE_CHECKING:
    import apsw

_END = "SELECT 1 FROM entry WHERE seq > ? AND body ->> 'event' = ? AND body ->> 'execution_id' = ? LIMIT 1"
_ROWS = "SELECT seq, hash, body FROM entry WHERE seq >= ? ORDER BY seq LIMIT ?"


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

    def open(self) -> AuditDatabase:
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


class SqliteLog:
    """A file that is open for reading."""

    def __init__(self, connection: "apsw.Connection") -> None:
        self._connection = connection

    def search(self, query: AuditQuery) -> Iterator[Row]:
        """What fits, the newest first."""
        wanted = {
            "after": query.after,
            "since": query.since_us,
            "until": query.until_us,
            "before": query.before,
            "tool": query.tool,
            "caller": query.caller,
            "outcome": query.outcome,
            "denied": query.denied,
        }
        return self._rows(read_sql("audit_search"), wanted)

    def has_end(self, begun: Stored) -> bool:
        """Whether the end of a call stands further on; most often it is near."""
        return self._connection.execute(_END, (begun.seq, CALL, begun.execution_id)).fetchone() is not None

    def browse(self, wanted: Browse, count: int) -> Iterator[Row]:
        """At most so many of what fits, the newest first."""
        return self._rows(read_sql("audit_browse"), _bound(wanted, count))

    def per_hour(self, wanted: Browse, count: int) -> Iterator[tuple[int, int, int]]:
        """Counted inside SQLite."""
        narrowed = read_sql("audit_browse").rstrip().removesuffix(";")
        counted = (
            "SELECT (body ->> 'time') / 3600000000 AS hour,"  # noqa: S608 - nothing of it comes from outside
            " sum(body ->> 'outcome' = 'success'), sum(body ->> 'outcome' <> 'success')"
            f" FROM ({narrowed}) WHERE body ->> 'event' = '{CALL}' GROUP BY hour"
        )
        rows: Any = self._connection.execute(counted, _bound(wanted, count))
        return ((int(hour), int(good or 0), int(bad or 0)) for hour, good, bad in rows if hour is not None)

    def rows(self, first: int = 1, count: int | None = None) -> Iterator[Row]:
        """From a number on, in order."""
        return self._rows(_ROWS, (first, -1 if count is None else count))

    def checked(self, first: int = 1) -> Iterator[Row]:
        """There is nothing beside the entries."""
        return self.rows(first)

    def usage(self, since_us: int) -> ToolUsage | None:
        """The calls since a moment; ``None`` if the log is empty."""
        return sqlite_usage(self._connection, since_us)

    def head(self) -> Head | None:
        """The end of the chain as its writers know it."""
        row: Any = self._connection.execute("SELECT seq, hash FROM head").fetchone()
        return None if row is None else Head(*row)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One view of the file, whoever appends meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _rows(self, statement: str, bound: Any) -> Iterator[Row]:
        rows: Any = self._connection.execute(statement, bound)
        return iter(rows)


def _bound(wanted: Browse, count: int) -> dict[str, Any]:
    return {
        "tool": wanted.tool,
        "caller": wanted.caller,
        "outcome": wanted.outcome,
        "event": wanted.event,
        "execution": wanted.execution,
        "since": wanted.since_us,
        "until": wanted.until_us,
        "before": wanted.before,
        "count": count,
    }
