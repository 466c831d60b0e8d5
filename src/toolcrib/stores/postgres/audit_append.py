"""Appending to the chain that all replicas share: whoever holds the row of its head writes.

The connection is used through libpq's own calls: in a thread that may block, they cost half of what cursors do.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.log import Head, InDoubtError, body_of, cut_entry, extend
from toolcrib.stores.postgres.database import DeadlineGuard, StoreSettings, connect, read_sql, reason_of

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult


SEPARATOR = "\x1e"
"""Stands in no JSON, so in no body."""
_UNFIT = str.maketrans({"\0": "�", SEPARATOR: "�"})


class Columns(msgspec.Struct, gc=False):
    """In the order of the table."""

    time: int = 0
    event: str = ""
    tool: str = ""
    caller: str = ""
    execution_id: str = ""
    decision: str = ""
    outcome: str = ""


_NONE = Columns()
_decode = msgspec.json.Decoder(Columns).decode


def columns_of(body: bytes | str) -> Columns:
    """Taken from the body; nothing if it is no entry."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NONE


def row_of(body: str) -> tuple[int | str, ...]:
    """What the columns of a body hold in the table."""
    found = columns_of(body)
    return (found.time, *(value.translate(_UNFIT) for value in _texts(found)))


def joined_columns(bodies: Sequence[bytes]) -> list[bytes]:
    """The columns of a batch, each as one text."""
    found = [columns_of(body) for body in bodies]
    texts = zip(*map(_texts, found), strict=True)
    return [SEPARATOR.join([str(columns.time) for columns in found]).encode(), *_joined(texts, len(bodies))]


def _texts(found: Columns) -> tuple[str, ...]:
    return found.event, found.tool, found.caller, found.execution_id, found.decision, found.outcome


def _joined(columns: Iterator[tuple[str, ...]], count: int) -> Iterator[bytes]:
    for values in columns:
        text = SEPARATOR.join(values)
        if "\0" in text or text.count(SEPARATOR) != count - 1:
            text = SEPARATOR.join([value.translate(_UNFIT) for value in values])
        yield text.encode()


LOCK_SHARE, IDLE_SHARE = 0.8, 0.5
"""Parts of the timeout: what waits for the head is refused before its time is over, and whoever stands still while it
holds the head is put out before that, so that the others still get their turn."""
REMEDY = "Check [store] url and that PostgreSQL runs; `toolcrib db status` tells more."
_APPEND = b"toolcrib_audit_append"
_BINARY = (0, 0, 1, *([0] * 9), 1)
"""Which parameters of the statement are bytes: the hashes, and the last of them."""
_SEPARATOR = SEPARATOR.encode()
_BEGIN = (
    "BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {lock_ms};"
    " SET LOCAL idle_in_transaction_session_timeout = {idle_ms};"
    " SELECT seq, encode(hash, 'hex') FROM toolcrib.audit_head WHERE fleet = {fleet} FOR UPDATE"
)
_FIRST = (
    "INSERT INTO toolcrib.audit_head SELECT {fleet}, 0, decode(repeat('00', 32), 'hex')"
    " WHERE NOT EXISTS (SELECT FROM toolcrib.audit_entry WHERE fleet = {fleet}) ON CONFLICT DO NOTHING"
)
_HASH = "SELECT encode(hash, 'hex') FROM toolcrib.audit_entry WHERE fleet = {fleet} AND seq = {seq}"


class PgAppend:
    """The connection that appends; used by one thread, and made anew when it is lost."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._connection: Connection[Any] | None = None
        self._guard: DeadlineGuard | None = None
        timeout_ms = max(1, round(settings.timeout_s * 1000))
        self._limits = {"lock_ms": _part(timeout_ms, LOCK_SHARE), "idle_ms": _part(timeout_ms, IDLE_SHARE)}
        self._due = 0.0
        """When what is being done has to be over, by the monotonic clock."""
        self._fleet = ""
        self._known = Head()
        self._sent: Head | None = None
        """What the chain ends with if the batch counts whose commit is under way."""

    @property
    def is_in_place(self) -> bool:
        """It finds its way back by itself."""
        return True

    @property
    def head(self) -> Head:
        """The end of the chain after the last entry that was added here."""
        return self._known

    def append(self, bodies: Sequence[bytes]) -> None:
        """Add the entries, durably, all or none; a connection that was lost meanwhile is made anew once, in time."""
        import psycopg

        was_open, self._sent = self._connection is not None, None
        self._begin()
        try:
            try:
                self._append(bodies)
            except psycopg.Error:
                if not was_open or not self._is_lost() or time.monotonic() >= self._due:
                    raise
                self.close()
                if self._sent is None or not self._has(self._sent):
                    self._sent = None
                    self._append(bodies)
        except (psycopg.Error, OSError) as error:
            raise self._failure(error) from error

    def has(self, end: Head) -> bool:
        """Whether the chain has this entry; whoever tried to write it holds the head no longer."""
        import psycopg

        self._begin()
        try:
            return self._has(end)
        except (psycopg.Error, OSError) as error:
            raise AuditUnavailable(f"{_words(error)}.") from error

    def check(self) -> None:
        """Take hold of the head, or make one, and take it all back."""
        import psycopg

        self._begin()
        try:
            if not self._run(_BEGIN, **self._limits).ntuples:
                self._run(_FIRST)
            self._run("ROLLBACK")
        except (psycopg.Error, OSError) as error:
            raise AuditUnavailable(f"The audit log cannot be written: {_words(error)}.", hint=REMEDY) from error

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.close()
        if connection is not None:
            with suppress(Exception):  # closing: what was acknowledged is on disk already
                connection.close()

    def _begin(self) -> None:
        """From now on the clock runs: the whole work, not each statement of it, has the configured time."""
        self._due = time.monotonic() + self._settings.timeout_s

    def _append(self, bodies: Sequence[bytes]) -> None:
        head = self._lock_head()
        if head.seq < self._known.seq:
            bodies = [body_of(time.time_ns(), cut_entry(self._known, head.seq)), *bodies]
        end = self._add(head, bodies)
        self._sent = end
        self._run("COMMIT")
        self._known, self._sent = end, None

    def _add(self, head: Head, bodies: Sequence[bytes]) -> Head:
        hashes, end = extend(head, bodies)
        fleet, first, last = self._settings.name.encode(), b"%d" % (head.seq + 1), b"%d" % end.seq
        texts = (_SEPARATOR.join(bodies), *joined_columns(bodies))
        given = [fleet, first, b"".join(hashes), *texts, last, end.hash]
        with self._used() as wire:
            _need(wire.exec_prepared(_APPEND, given, _BINARY))
        return end

    def _has(self, end: Head) -> bool:
        self._lock_head()
        result = self._run(_HASH, seq=end.seq)
        found = result.get_value(0, 0) if result.ntuples else None
        self._run("ROLLBACK")
        return found == end.hash.hex().encode()

    def _lock_head(self) -> Head:
        """Begin a transaction in which nobody else appends."""
        result = self._run(_BEGIN, **self._limits)
        if not result.ntuples:
            self._run(f"{_FIRST}; COMMIT")
            result = self._run(_BEGIN, **self._limits)
        if not result.ntuples:
            self.close()
            raise AuditUnavailable("It has lost its head.", hint="Run `toolcrib audit verify`.")
        seq, digest = result.get_value(0, 0) or b"", result.get_value(0, 1) or b""
        return Head(int(seq), bytes.fromhex(digest.decode()))

    def _run(self, statement: str, **values: int) -> "PGresult":
        with self._used() as wire:
            return _need(wire.exec_(statement.format(fleet=self._fleet, **values).encode()))

    @contextmanager
    def _used(self) -> "Iterator[PGconn]":
        """The connection, for one statement."""
        if self._connection is None or self._guard is None:
            self._connection, self._guard = self._open()
        with self._guard.watching(self._due):
            yield self._connection.pgconn

    def _open(self) -> "tuple[Connection[Any], DeadlineGuard]":
        from psycopg.sql import Literal

        connection = connect(self._settings)
        guard = DeadlineGuard(connection, self._settings.timeout_s)
        try:
            with guard.watching(self._due):
                _need(connection.pgconn.exec_(b"SET client_encoding = 'UTF8'"))
                _need(connection.pgconn.prepare(_APPEND, read_sql("audit_append").encode()))
            self._fleet = Literal(self._settings.name).as_string(connection)
        except BaseException:
            guard.close()
            connection.close()
            raise
        return connection, guard

    def _is_lost(self) -> bool:
        """Whether the connection is gone, or stands in a transaction that came to nothing."""
        return self._connection is None or self._connection.closed or self._sent is not None

    def _failure(self, error: Exception) -> AuditUnavailable:
        if self._sent is not None:
            return InDoubtError(_words(error), self._sent)
        return AuditUnavailable(f"{_words(error)}.")


def _part(timeout_ms: int, share: float) -> int:
    return max(1, round(timeout_ms * share))


def _words(error: Exception) -> str:
    return f"the shared database cannot be used ({reason_of(error)})"


def _need(result: "PGresult") -> "PGresult":
    """The result, if it is one; otherwise what went wrong is raised."""
    import psycopg
    from psycopg.pq import DiagnosticField, ExecStatus

    if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        return result
    state = result.error_field(DiagnosticField.SQLSTATE)
    words = result.error_message.decode(errors="replace").strip()
    if state is None:
        raise psycopg.OperationalError(words)
    try:
        raise psycopg.errors.lookup(state.decode())(words)
    except KeyError:
        raise psycopg.DatabaseError(words) from None
