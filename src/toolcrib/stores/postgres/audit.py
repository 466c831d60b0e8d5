"""The audit log in the shared database: where it is, and how it is read."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from toolcrib.core.audit import CALL
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.log import REFUSED, AuditQuery, Head, NoAuditLog, Row, Stored, ToolUsage, Use
from toolcrib.stores.postgres.audit_append import REMEDY, PgAppend, row_of
from toolcrib.stores.postgres.database import StoreSettings, connect, reason_of

if TYPE_CHECKING:
    from psycopg import Connection


_SPECIAL = frozenset("*?[")


def is_plain(glob: str) -> bool:
    """Whether it stands for itself only."""
    return not _SPECIAL & set(glob)


def regex_of(glob: str) -> str | None:
    """The same as a regular expression over the whole text; ``None`` if nothing can fit it."""
    parts, at = [], 0
    while at < len(glob):
        letter, at = glob[at], at + 1
        if letter == "*":
            part: str | None = ".*"
        elif letter == "?":
            part = "."
        elif letter == "[":
            part, at = _set(glob, at)
        else:
            part = _literal(letter)
        if part is None:
            return None
        parts.append(part)
    return f"^{''.join(parts)}$"


def _literal(letter: str) -> str:
    return letter if letter.isalnum() or letter == "_" or not letter.isascii() else f"\\{letter}"


def _set(glob: str, at: int) -> tuple[str | None, int]:
    """The set that begins at a place, and where it ends; one without an end, or without members, fits nothing."""
    is_inverted = glob[at : at + 1] == "^"
    at += is_inverted
    ranges, at = _ranges(glob, at)
    if at > len(glob):
        return None, at
    members = "".join(f"{_code(low)}-{_code(high)}" for low, high in ranges if low <= high)
    if not members:
        return ("." if is_inverted else None), at
    return f"[{'^' if is_inverted else ''}{members}]", at


def _ranges(glob: str, at: int) -> tuple[list[tuple[str, str]], int]:
    ranges: list[tuple[str, str]] = []
    prior = ""
    if glob[at : at + 1] == "]":
        ranges.append(("]", "]"))
        at += 1
    while at < len(glob) and glob[at] != "]":
        letter, following = glob[at], glob[at + 1 : at + 2]
        if letter == "-" and prior and following not in ("", "]"):
            ranges.append((prior, following))
            prior, at = "", at + 2
        else:
            ranges.append((letter, letter))
            prior, at = letter, at + 1
    return ranges, at + 1


def _code(letter: str) -> str:
    return f"\\U{ord(letter):08x}"


Condition = tuple[str, Any]
"""A part of WHERE with one place for one value."""

FIRST_PAGE = 100
PAGE = 1000
_REFUSED_CALL = "outcome = 'TOOL_PERMISSION_DENIED' OR decision = ANY(%s)"
_FAILED = "outcome <> ALL(%s)"
_WELL = ["", "success"]
_NOTHING: Condition = ("%s::boolean", False)
_CHECKED = (
    "SELECT seq, hash, body, time, event, tool, caller, execution, decision, outcome"
    " FROM toolcrib.audit_entry WHERE fleet = %s AND seq >= %s ORDER BY seq"
)
_END = (
    "SELECT 1 FROM toolcrib.audit_entry"
    " WHERE fleet = %s AND seq > %s AND event = %s AND execution = %s ORDER BY seq LIMIT 1"
)
_FIRST = "SELECT time FROM toolcrib.audit_entry WHERE fleet = %s ORDER BY seq LIMIT 1"
_USES = (
    "SELECT tool, count(*), max(time) FROM toolcrib.audit_entry"
    " WHERE fleet = %s AND time >= %s AND event = %s AND tool <> ''"
    " AND split_part(decision, ' by ', 1) <> ALL(%s) GROUP BY tool"
)


@dataclass(frozen=True, slots=True)
class AuditTable:
    """A log in PostgreSQL, which the replicas of a fleet write together."""

    settings: StoreSettings
    shown: str
    """Its address without passwords."""
    remedy: ClassVar[str] = REMEDY

    @property
    def timeout_s(self) -> float:
        """Whoever has waited for as long as that is refused."""
        return self.settings.timeout_s

    def __str__(self) -> str:
        return f"{self.shown} (name {self.settings.name!r})"

    def open(self) -> PgAppend:
        """For writing; connects when there is something to write."""
        return PgAppend(self.settings)

    @contextmanager
    def reading(self) -> Iterator["PgLog"]:
        """For reading only, over a connection of its own."""
        import psycopg

        try:
            with connect(self.settings) as connection:
                log = PgLog(connection, self.settings.name)
                if log.head() is None and not list(log.rows(count=1)):
                    raise NoAuditLog(f"Nothing was written to the audit log at {self} yet.")
                yield log
        except psycopg.Error as error:
            reason = reason_of(error)
            raise AuditUnavailable(f"The audit log at {self} cannot be read: {reason}.", hint=self.remedy) from error

    def check(self) -> None:
        """Take hold of the chain's end, and let go of it."""
        log = self.open()
        try:
            log.check()
        finally:
            log.close()


class PgLog:
    """The entries of one fleet."""

    def __init__(self, connection: "Connection[Any]", fleet: str) -> None:
        self._connection, self._fleet = connection, fleet
        self._numbers = itertools.count(1)

    def search(self, query: AuditQuery, count: int | None = None) -> Iterator[Row]:
        """What fits, the newest first."""
        conditions = list(_conditions(query))
        return self._found(conditions) if count is None else iter(self._page(conditions, count))

    def has_end(self, begun: Stored) -> bool:
        """Whether the end of a call stands further on; most often it is near."""
        wanted = (self._fleet, begun.seq, CALL, begun.execution_id)
        return self._connection.execute(_END, wanted).fetchone() is not None

    def per_hour(self, query: AuditQuery, count: int) -> Iterator[tuple[int, int, int]]:
        """Counted inside PostgreSQL."""
        narrowed, values = self._narrowed("time, event, outcome", list(_conditions(query)), count)
        counted = (
            "SELECT time / 3600000000, count(*) FILTER (WHERE outcome = 'success'),"  # noqa: S608 - only our own text
            f" count(*) FILTER (WHERE outcome NOT IN ('', 'success')) FROM ({narrowed}) AS newest"
            " WHERE event = %s GROUP BY 1"
        )
        return iter(self._connection.execute(counted.encode(), [*values, CALL]).fetchall())

    def rows(self, first: int = 1, count: int | None = None) -> Iterator[Row]:
        """From a number on, in order."""
        chosen = "SELECT seq, hash, body FROM toolcrib.audit_entry WHERE fleet = %s AND seq >= %s ORDER BY seq LIMIT %s"
        return self._streamed(chosen, (self._fleet, first, count))

    def checked(self, first: int = 1) -> Iterator[Row]:
        """From a number on, in order; the hash is empty where the columns do not say what the body says."""
        for seq, digest, body, *columns in self._streamed(_CHECKED, (self._fleet, first)):
            yield seq, digest if row_of(body) == tuple(columns) else b"", body

    def usage(self, since_us: int) -> ToolUsage | None:
        """The calls since a moment; ``None`` if the log is empty."""
        first = self._connection.execute(_FIRST, (self._fleet,)).fetchone()
        if first is None:
            return None
        found = self._connection.execute(_USES, (self._fleet, since_us, CALL, sorted(REFUSED))).fetchall()
        return ToolUsage(max(since_us, first[0]), {tool: Use(calls, last) for tool, calls, last in found})

    def head(self) -> Head | None:
        """The end of the chain as its writers know it."""
        asked = "SELECT seq, hash FROM toolcrib.audit_head WHERE fleet = %s"
        row = self._connection.execute(asked, (self._fleet,)).fetchone()
        return None if row is None else Head(*row)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One view of the table, whoever appends meanwhile."""
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def _found(self, conditions: Sequence[Condition]) -> Iterator[Row]:
        """A page at a time, each planned for its length: what is rare is found by the index, what is common by going
        back from the end. A cursor would be planned for the whole, and read all of the log for what is rare."""
        below: list[Condition] = []
        for size in itertools.chain([FIRST_PAGE], itertools.repeat(PAGE)):
            rows = self._page([*conditions, *below], size)
            yield from rows
            if len(rows) < size:
                return
            below = [("seq < %s", rows[-1][0])]

    def _page(self, conditions: Sequence[Condition], count: int) -> list[Row]:
        statement, values = self._narrowed("seq, hash, body", conditions, count)
        return self._connection.execute(statement.encode(), values, prepare=False).fetchall()

    def _narrowed(self, columns: str, conditions: Sequence[Condition], count: int) -> tuple[str, list[Any]]:
        """A statement, and the values for its places; all of its text is ours."""
        where = "".join(f" AND ({text})" for text, _ in conditions)
        chosen = f"SELECT {columns} FROM toolcrib.audit_entry WHERE fleet = %s{where} ORDER BY seq DESC LIMIT %s"  # noqa: S608
        return chosen, [self._fleet, *(value for _, value in conditions), count]

    def _streamed(self, statement: str, values: Sequence[Any]) -> Iterator[Any]:
        """Rows as they are wanted, a few at a time."""
        name = f"audit_{next(self._numbers)}"
        with self._connection.transaction(), self._connection.cursor(name) as cursor:
            cursor.itersize = PAGE
            cursor.execute(statement.encode(), values)
            yield from cursor


def _conditions(query: AuditQuery) -> Iterator[Condition]:
    if query.after:
        yield "seq > %s", query.after
    if query.before is not None:
        yield "seq < %s", query.before
    if query.since_us is not None:
        yield "time >= %s", query.since_us
    if query.until_us is not None:
        yield "time < %s", query.until_us
    if query.denied:
        yield _REFUSED_CALL, sorted(REFUSED)
    yield from _named("tool", query.tool)
    yield from _named("caller", query.caller)
    if query.outcome == "failed":
        yield _FAILED, _WELL
    else:
        yield from _named("outcome", query.outcome)
    for column, value in (("event", query.event), ("execution", query.execution)):
        if value is not None:
            yield _equal(column, value)


def _named(column: str, pattern: str | None) -> Iterator[Condition]:
    if pattern is None:
        return
    if is_plain(pattern):
        yield _equal(column, pattern)
        return
    regex = regex_of(pattern) if _is_text(pattern) else None
    yield (f"{column} ~ %s", regex) if regex is not None else _NOTHING


def _equal(column: str, value: str) -> Condition:
    return (f"{column} = %s", value) if _is_text(value) else _NOTHING


def _is_text(value: str) -> bool:
    """Whether PostgreSQL can have such a text at all."""
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in value)
