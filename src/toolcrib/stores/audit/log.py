"""What an audit log is, whatever it is kept in: a chain of entries, appended to by one thread and read by others.

What a place does may wait for a disk or a network, so none of it belongs on an event loop.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import msgspec

from toolcrib.core.audit import CALL_BEGUN, CUT, AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.core.kinds import Ruling

T = TypeVar("T")
Row = tuple[int, bytes, str]
"""An entry as it is kept: its number, its hash, its body."""
GENESIS = bytes(32)
REFUSED = frozenset(ruling.value for ruling in Ruling if ruling.is_refusal)
NEWEST = 5_000
"""How many of the newest entries are counted by the hour."""
_SHA256 = hashlib.sha256()
_encode = msgspec.json.Encoder(enc_hook=str).encode


class Head(msgspec.Struct, frozen=True):
    """The end of a chain: a number and a hash that stand for everything up to there."""

    seq: int = 0
    hash: bytes = GENESIS

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Head":
        """From ``SEQ:HASH``; anything else is a ``ValueError``."""
        seq, _, digest = text.strip().partition(":")
        head = cls(int(seq), bytes.fromhex(digest))
        if len(head.hash) != len(GENESIS) or head.seq < 0:
            raise ValueError("a head is a number and 64 hexadecimal digits")
        return head


def link(previous: bytes, seq: int, body: bytes) -> bytes:
    """The hash of an entry: over the one before it, its number, and its body as stored."""
    digest = _SHA256.copy()  # half the cost of a new one
    digest.update(b"%b%d\n%b" % (previous, seq, body))
    return digest.digest()


def extend(head: Head, bodies: Sequence[bytes]) -> tuple[list[bytes], Head]:
    """The hashes of entries that follow a head, and the head after them."""
    hashes, previous = [], head.hash
    for seq, body in enumerate(bodies, head.seq + 1):
        previous = link(previous, seq, body)
        hashes.append(previous)
    return hashes, Head(head.seq + len(hashes), previous)


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


def cut_entry(known: Head, last: int) -> AuditEntry:
    """What this process wrote and finds no more."""
    return AuditEntry(CUT, details={"head": str(known), "last": last})


class Stored(AuditEntry, frozen=True, kw_only=True, gc=False):
    """An entry as it was written: with its time in microseconds since 1970, its number and its hash."""

    time: int = 0
    seq: int = 0
    hash: str = ""


_decode = msgspec.json.Decoder(Stored).decode


def stored(seq: int, digest: bytes, body: str) -> Stored:
    """One row; a body that is no entry any more is shown as one that says so."""
    try:
        entry = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        entry = Stored("unreadable")
    return msgspec.structs.replace(entry, seq=seq, hash=digest.hex())


class AuditQuery(msgspec.Struct, frozen=True):
    """Which entries are wanted; the names of tools and callers are patterns with ``*`` and ``?``."""

    tool: str | None = None
    caller: str | None = None
    outcome: str | None = None
    """A pattern, or ``failed`` for everything that did not go well."""
    since_us: int | None = None
    denied: bool = False
    after: int = 0
    until_us: int | None = None
    before: int | None = None
    """Only entries of a smaller number, to read on where an answer ended."""
    event: str | None = None
    execution: str | None = None


class Use(msgspec.Struct, frozen=True):
    """How often a tool was called, and when last."""

    calls: int
    last_us: int


class ToolUsage(msgspec.Struct, frozen=True):
    """The calls of a span of time, by exposed name. What was refused to its caller is no use of a tool."""

    since_us: int
    """From when on there is a record: later than was asked for, if the log begins later."""
    tools: Mapping[str, Use] = {}


class NoAuditLog(AuditUnavailable):
    """Nothing was ever written there."""


class InDoubtError(AuditUnavailable):
    """The connection was lost while entries were committed: nobody knows whether they count."""

    def __init__(self, reason: str, end: Head) -> None:
        super().__init__(f"{reason}.")
        self.end = end
        """What the chain ends with if they do."""


class AppendLog(Protocol):
    """A log that is written; used by one thread. After a failure it is closed, and may be used again."""

    @property
    def is_in_place(self) -> bool:
        """Whether it can be used on; if not, it has to be opened anew."""

    @property
    def head(self) -> Head:
        """The end of the chain after the last entry that was added here."""

    def append(self, bodies: Sequence[bytes]) -> None:
        """Add entries to the chain, durably, all or none; ``InDoubtError`` if that is not known."""

    def has(self, end: Head) -> bool:
        """Whether a batch that was in doubt became part of the chain; the answer is final."""

    def close(self) -> None:
        """Let go of it."""


class AuditLog(Protocol):
    """A log that is read, while others write."""

    def search(self, query: AuditQuery, count: int | None = None) -> Iterator[Row]:
        """What fits, the newest first; at most so many."""

    def has_end(self, begun: Stored) -> bool:
        """Whether the end of a call stands further on."""

    def per_hour(self, query: AuditQuery, count: int) -> Iterator[tuple[int, int, int]]:
        """Hours since 1970, calls that went well, calls that did not; of as many of the newest that fit."""

    def rows(self, first: int = 1, count: int | None = None) -> Iterator[Row]:
        """From a number on, in order."""

    def checked(self, first: int = 1) -> Iterator[Row]:
        """The same; where what is kept beside an entry for finding it does not fit it, its hash is empty."""

    def usage(self, since_us: int) -> ToolUsage | None:
        """The calls since a moment; ``None`` if the log is empty."""

    def head(self) -> Head | None:
        """The end of the chain as its writers know it."""

    def snapshot(self) -> AbstractContextManager[None]:
        """All that is read inside is of one moment."""


class AuditPlace(Protocol):
    """Where a log is; ``str`` of it is for people, and has no password in it."""

    @property
    def remedy(self) -> str:
        """What to do when it cannot be written."""

    @property
    def timeout_s(self) -> float | None:
        """How long whoever must wait for an entry waits before the place counts as away; ``None``: for ever."""

    def open(self) -> AppendLog:
        """For writing."""

    def reading(self) -> AbstractContextManager[AuditLog]:
        """For reading only; ``NoAuditLog`` if nothing was ever written."""

    def check(self) -> None:
        """Try whether it could be written right now, and write nothing; ``AuditUnavailable`` if not."""


def ask(place: AuditPlace, question: Callable[[AuditLog], T]) -> T:
    """The answer of a log that is opened for this one question."""
    with place.reading() as log:
        return question(log)


def latest(log: AuditLog, query: AuditQuery, count: int | None = None) -> list[Stored]:
    """The newest entries that fit, oldest of them first; a beginning is left out once its end is there."""
    is_cut = query.before is not None or query.until_us is not None
    found: list[Stored] = []
    ended: set[str] = set()
    for row in log.search(query):
        entry = stored(*row)
        if entry.event != CALL_BEGUN:
            ended.add(entry.execution_id)
        elif entry.execution_id in ended or (is_cut and log.has_end(entry)):
            continue
        found.append(entry)
        if len(found) == count:
            break
    return found[::-1]


def browse(log: AuditLog, query: AuditQuery, count: int) -> list[Stored]:
    """The newest entries that fit, beginnings and ends, newest first."""
    return [stored(*row) for row in log.search(query, count)]


def in_order(log: AuditLog, since_us: int | None = None) -> Iterator[Stored]:
    """Every entry, from the first on."""
    for row in log.rows():
        entry = stored(*row)
        if since_us is None or entry.time >= since_us:
            yield entry


def following(log: AuditLog, after: int, count: int) -> list[Stored]:
    """The next entries after a number, in order."""
    return [stored(*row) for row in log.rows(after + 1, count)]


class Linked(msgspec.Struct, frozen=True):
    """An entry, and whether its hash follows from the one before it."""

    entry: Stored
    is_whole: bool


def around(log: AuditLog, seq: int) -> list[Linked]:
    """An entry and those beside it, in order."""
    rows = [row for row in log.rows(seq - 2, 4) if row[0] <= seq + 1]
    hashes = {number: digest for number, digest, _ in rows} | {0: GENESIS}
    return [
        Linked(stored(number, digest, body), link(hashes.get(number - 1, b""), number, body.encode()) == digest)
        for number, digest, body in rows
        if number >= seq - 1
    ]


def per_hour(log: AuditLog, query: AuditQuery) -> dict[int, tuple[int, int]]:
    """How many calls went well and how many did not, by hours since 1970; of the newest entries that fit."""
    return {hour: (good, bad) for hour, good, bad in log.per_hour(query, NEWEST)}
