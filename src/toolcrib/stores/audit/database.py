"""The audit log's file: how it is made, opened and appended to. All but ``body_of`` may wait for the disk."""

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.audit import CUT, AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.log import InDoubtError
from toolcrib.stores.sqlite_file import Format, open_file, reason_of

if TYPE_CHECKING:
    from toolcrib.stores.audit.verify import Head

FORMAT = Format("audit", 1, AuditUnavailable, "audit log", "[audit] path")
GENESIS = bytes(32)
_CLOSED = (-1, -1)

_APPEND = (
    "INSERT INTO entry (seq, hash, body) SELECT ?1 + rowid - 1, substr(?2, rowid * 32 - 31, 32), value FROM carray(?3)"
)
_MOVE_HEAD = "UPDATE head SET seq = ?, hash = ?"
_SHA256 = hashlib.sha256()
_encode = msgspec.json.Encoder(enc_hook=str).encode


def link(previous: bytes, seq: int, body: bytes) -> bytes:
    """The hash of an entry: over the one before it, its number, and its body as stored."""
    digest = _SHA256.copy()  # half the cost of a new one
    digest.update(b"%b%d\n%b" % (previous, seq, body))
    return digest.digest()


def body_of(nanoseconds: int, entry: AuditEntry) -> bytes:
    """The entry as it is stored: JSON with the time since 1970, in microseconds, in front."""
    try:
        encoded = _encode(entry)
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        encoded = _encode(_withheld(entry))
    return b"".join((b'{"time":', b"%d" % (nanoseconds // 1000), b",", encoded[1:]))


def _withheld(entry: AuditEntry) -> AuditEntry:
    """The entry without what no JSON can hold."""
    texts = {
        name: value.encode("ascii", "backslashreplace").decode()
        for name in entry.__struct_fields__
        if isinstance(value := getattr(entry, name), str)
    }
    return msgspec.structs.replace(entry, **texts, details={"withheld": "cannot be written as JSON"})


def cut_entry(known: tuple[int, bytes], last: int) -> AuditEntry:
    """What this process wrote and finds no more."""
    return AuditEntry(CUT, details={"head": f"{known[0]}:{known[1].hex()}", "last": last})


class AuditDatabase:
    """One connection that appends; used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_file(path, FORMAT)
        self._identity: tuple[int, int] | None = _identity(path)
        self._first, self._previous = self._read_tail()

    @property
    def is_in_place(self) -> bool:
        """Whether the file that was opened is still the one at the path."""
        return _identity(self._path) == self._identity

    @property
    def head(self) -> "Head":
        """The end of the chain after the last entry that was added here."""
        from toolcrib.stores.audit.verify import Head

        return Head(self._first - 1, self._previous)

    def append(self, bodies: Sequence[bytes]) -> None:
        """Add the entries to the chain, durably, all or none.

        Whoever appends takes a failure as the end of this connection, so nothing is rolled back by hand.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        known = self._first - 1, self._previous
        self._first, self._previous = self._read_tail()  # another process may have written since
        if self._first <= known[0]:
            bodies = [body_of(time.time_ns(), cut_entry(known, self._first - 1)), *bodies]
        end = self._append(bodies)
        self._commit(end)
        self._first, self._previous = end.seq + 1, end.hash

    def _commit(self, end: "Head") -> None:
        """A commit that fails may be found to count all the same when the file is opened anew."""
        import apsw

        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            raise InDoubtError(reason_of(error), end) from error

    def _append(self, bodies: Sequence[bytes]) -> "Head":
        """One statement for all rows, so that the interpreter's lock is given away once for the whole batch."""
        import apsw

        from toolcrib.stores.audit.verify import Head

        hashes, previous = [], self._previous
        for seq, body in enumerate(bodies, self._first):
            previous = link(previous, seq, body)
            hashes.append(previous)
        texts = apsw.carray(tuple([body.decode() for body in bodies]))
        self._connection.execute(_APPEND, (self._first, b"".join(hashes), texts))
        end = Head(self._first + len(hashes) - 1, previous)
        self._connection.execute(_MOVE_HEAD, (end.seq, end.hash))
        return end

    def _read_tail(self) -> tuple[int, bytes]:
        row: Any = self._connection.execute("SELECT seq, hash FROM head").fetchone()
        if row is None:
            raise AuditUnavailable("It has lost its head.", hint="Run `toolcrib audit verify`.")
        return row[0] + 1, row[1]

    def has(self, end: "Head") -> bool:
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
