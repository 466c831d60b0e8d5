"""What of one machine is brought into the shared database, part by part: log, lock, tokens, tasks, documents."""

import hashlib
import platform
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.config.lock import write_record
from toolcrib.core.errors import AuditUnavailable, ConfigError
from toolcrib.stores.access_tokens import TokenFile
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import GENESIS, NoAuditLog
from toolcrib.stores.audit.verify import verify
from toolcrib.stores.knowledge.database import FORMAT as KNOWLEDGE
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.postgres.audit_append import row_of
from toolcrib.stores.postgres.copying import Row
from toolcrib.stores.postgres.database import to_text
from toolcrib.stores.postgres.lock import HOLD
from toolcrib.stores.postgres.lock import MARK as LOCK_MARK
from toolcrib.stores.postgres.tokens import MARK as TOKEN_MARK
from toolcrib.stores.sqlite_file import Format, reason_of
from toolcrib.stores.worklist import FORMAT as WORKLIST

if TYPE_CHECKING:
    from psycopg import AsyncConnection


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """Where rows go: the columns after ``fleet``, and what they are put in order by on both sides."""

    name: str
    columns: tuple[str, ...]
    order: str
    mark: str = ""
    """What tells replicas that something is different."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """Rows that are read from a file as a whole: there are few enough."""

    name: str
    source: str
    read: Callable[[], Iterator[Row]]
    table: CopiedTable

    def rows(self, skip: int) -> Iterator[Row]:
        """What the source holds, without the first so many."""
        return islice(self.read(), skip, None)

    async def write(self, connection: "AsyncConnection[Any]", fleet: str, skip: int, rows: Sequence[Row]) -> None:
        """Put a batch in."""
        del skip
        if self.table.mark:
            await connection.execute(HOLD, (fleet, self.table.mark))
        columns, places = ", ".join(self.table.columns), ", ".join(["%s"] * len(self.table.columns))
        insert = f"INSERT INTO toolcrib.{self.table.name} (fleet, {columns}) VALUES (%s, {places})"  # noqa: S608 - ours
        async with connection.cursor() as cursor:
            await cursor.executemany(insert.encode(), [(fleet, *row) for row in rows])

    def arrived(self, connection: "AsyncConnection[Any]", fleet: str) -> AsyncGenerator[Row, None]:
        """What the database holds."""
        columns = ", ".join(self.table.columns)
        select = f"SELECT {columns} FROM toolcrib.{self.table.name} WHERE fleet = %s ORDER BY {self.table.order}"  # noqa: S608
        return _streamed(connection, select, fleet)

    async def remove(self, connection: "AsyncConnection[Any]", fleet: str) -> int | None:
        """Take away what came before."""
        statement = f"DELETE FROM toolcrib.{self.table.name} WHERE fleet = %s"  # noqa: S608
        return (await connection.execute(statement.encode(), (fleet,))).rowcount


async def _streamed(connection: "AsyncConnection[Any]", select: str, fleet: str) -> AsyncGenerator[Row, None]:
    """Rows as they are wanted, a few at a time."""
    async with connection.cursor(name="arrived") as cursor:
        await cursor.execute(select.encode(), (fleet,))
        async for row in cursor:
            yield row


RECORDS = CopiedTable("record", ("server", "body"), 'server COLLATE "C"', LOCK_MARK)
ANSWERS = CopiedTable(
    "answer", ("tool", "caller", "allow", "at", "by"), 'tool COLLATE "C", caller COLLATE "C"', LOCK_MARK
)
TOKENS = CopiedTable("token", ("id", "body"), "place", TOKEN_MARK)
TASKS = CopiedTable(
    "task",
    ("workspace", "id", "title", "description", "state", "after", "created", "changed"),
    'workspace COLLATE "C", id',
)
NOTES = CopiedTable("note", ("workspace", "task", "place", "time", "text"), 'workspace COLLATE "C", task, place')


def whereabouts(path: Path) -> str:
    """A file of this machine, as no other machine calls it."""
    return f"{platform.node()}:{path.absolute()}"


def lock_parts(path: Path) -> list[TablePart]:
    """What discovery found, and what people answered."""
    file, source = LockFile(path), whereabouts(path)

    def records() -> Iterator[Row]:
        found = file.read().records
        yield from sorted((to_text(server), write_record(record)) for server, record in found.items())

    def answers() -> Iterator[Row]:
        yield from sorted(
            (to_text(tool), to_text(caller), kept.allow, kept.at, to_text(kept.by))
            for tool, by_caller in file.read().approvals.items()
            for caller, kept in by_caller.items()
        )

    return [TablePart("records", source, records, RECORDS), TablePart("answers", source, answers, ANSWERS)]


def token_parts(path: Path, now: Callable[[], float]) -> list[TablePart]:
    """The tokens, in the order they were made."""

    def tokens() -> Iterator[Row]:
        for token in TokenFile(path, now).read():
            yield token.id, msgspec.json.encode(token).decode()

    return [TablePart("tokens", whereabouts(path), tokens, TOKENS)]


def task_parts(path: Path) -> list[TablePart]:
    """The tasks of all workspaces of this user, and what was said of them."""
    source = whereabouts(path)
    return [
        TablePart("tasks", source, lambda: _tasks(path), TASKS),
        TablePart("notes", source, lambda: _notes(path), NOTES),
    ]


def _tasks(path: Path) -> Iterator[Row]:
    waits: dict[tuple[str, int], list[int]] = {}
    for workspace, task, after in _select(path, "SELECT workspace, task, after FROM waits ORDER BY 1, 2, place"):
        waits.setdefault((workspace, task), []).append(after)
    shown = "SELECT workspace, id, title, description, state, created, changed FROM task"
    found = [
        (to_text(row[0]), row[1], *map(to_text, row[2:4]), row[4], waits.get((row[0], row[1]), []), *row[5:])
        for row in _select(path, shown)
    ]
    yield from sorted(found, key=lambda row: row[:2])


def _notes(path: Path) -> Iterator[Row]:
    rows = _select(path, "SELECT workspace, task, place, time, text FROM note")
    yield from sorted((to_text(row[0]), *row[1:4], to_text(row[4])) for row in rows)


def _select(path: Path, statement: str, format: Format = WORKLIST) -> Iterator[Row]:  # noqa: A002
    """What one of our files holds, row by row; nothing if there is no such file."""
    if not path.exists():
        return
    import apsw

    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            yield from connection.execute(statement)
    except apsw.Error as error:
        raise format.error(f"The {format.shown} {path} cannot be read: {reason_of(error)}.") from error


_HEAD = "SELECT seq, hash FROM toolcrib.audit_head WHERE fleet = %s FOR UPDATE"
_ENTRY = """
COPY toolcrib.audit_entry
(fleet, seq, hash, body, time, event, tool, caller, execution, decision, outcome) FROM STDIN
"""
_MOVE_HEAD = """
INSERT INTO toolcrib.audit_head (fleet, seq, hash) VALUES (%s, %s, %s)
ON CONFLICT (fleet) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
"""
_ARRIVED = "SELECT seq, hash, body FROM toolcrib.audit_entry WHERE fleet = %s ORDER BY seq"


@dataclass(frozen=True, slots=True)
class AuditPart:
    """The entries of one file; a log that is not whole stays where it is."""

    path: Path
    name: str = "audit entries"

    @property
    def source(self) -> str:
        """Where the file is."""
        return whereabouts(self.path)

    def rows(self, skip: int) -> Iterator[Row]:
        """Entry by entry; the chain is walked before the first one is given."""
        with suppress(NoAuditLog), AuditFile(self.path).reading() as log:
            if skip == 0 and (fault := verify(log).fault) is not None:
                raise AuditUnavailable(
                    f"The audit log {self.path} is not whole: {fault.words}.",
                    hint="Look at it with `toolcrib audit verify`; move it away to copy the rest without it.",
                )
            yield from log.rows(skip + 1)

    async def write(self, connection: "AsyncConnection[Any]", fleet: str, skip: int, rows: Sequence[Row]) -> None:
        """Put entries behind the last one; nobody else may have written any meanwhile."""
        head = await (await connection.execute(_HEAD, (fleet,))).fetchone() or (0, GENESIS)
        if head[0] != skip:
            raise ConfigError(
                f"The shared audit log ends with entry {head[0]}, not with {skip}: a replica writes to it already.",
                hint="Copy to an empty database, or under another [store] name, before replicas are started.",
            )
        async with connection.cursor() as cursor, cursor.copy(_ENTRY) as copy:
            for seq, digest, body in rows:
                await copy.write_row((fleet, seq, digest, body, *row_of(body)))
        await connection.execute(_MOVE_HEAD, (fleet, *rows[-1][:2]))

    def arrived(self, connection: "AsyncConnection[Any]", fleet: str) -> AsyncGenerator[Row, None]:
        """What the database holds."""
        return _streamed(connection, _ARRIVED, fleet)

    async def remove(self, connection: "AsyncConnection[Any]", fleet: str) -> int | None:
        """What an audit log has taken it keeps; the next run goes on behind it."""
        del connection, fleet
        return None


_HERE = "SELECT id, collection, hash, text FROM document JOIN body ON document = key ORDER BY id"
_THERE = """
SELECT d.id, d.collection, d.hash, b.text FROM toolcrib.kb_document d
JOIN toolcrib.kb_body b ON b.fleet = d.fleet AND b.document = d.key WHERE d.fleet = %s ORDER BY d.id
"""


@dataclass(frozen=True, slots=True)
class Documents:
    """What is compared: which documents there are, in which collections, and their texts."""

    path: Path
    name: str = "documents"

    @property
    def source(self) -> str:
        """Where the file is."""
        return whereabouts(self.path)

    def rows(self, skip: int) -> Iterator[Row]:
        """What the file holds."""
        del skip
        for document, collection, stamp, text in _select(self.path, _HERE, KNOWLEDGE):
            yield document, collection, stamp, _digest(text.encode())

    async def arrived(self, connection: "AsyncConnection[Any]", fleet: str) -> AsyncGenerator[Row, None]:
        """What the database holds."""
        async with aclosing(_streamed(connection, _THERE, fleet)) as rows:
            async for document, collection, stamp, text in rows:
                yield document, collection, stamp, _digest(text)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
