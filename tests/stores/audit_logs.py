"""Logs to look at: written by the real thing, then changed behind its back."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw
import psycopg

from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import AuditPlace, AuditQuery, Head, Stored, latest
from toolcrib.stores.audit.verify import Finding, verify
from toolcrib.stores.audit.writer import QueuedAudit
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.database import StoreSettings

_NAMES = itertools.count(1)


async def written(place: Path | AuditPlace, entries: Sequence[AuditEntry], clock_ns: Callable[[], int] = time.time_ns):
    """A log with these entries."""
    log = QueuedAudit(AuditFile(place) if isinstance(place, Path) else place, clock_ns)
    for entry in entries:
        await log.commit(entry)
    await log.close()
    return place


def numbered(count: int) -> list[AuditEntry]:
    return [AuditEntry("call", tool=f"tool{number}", outcome="success") for number in range(1, count + 1)]


def tamper(path: Path, *statements: str) -> None:
    """Change the file as somebody would who knows SQLite."""
    connection = apsw.Connection(str(path))
    connection.execute("DROP TRIGGER entry_is_never_changed; DROP TRIGGER entry_is_never_deleted")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def tamper_table(settings: StoreSettings, *statements: str) -> None:
    """Change the tables as somebody would who owns them; ``entry`` and ``head`` are what belongs to the fleet."""
    with psycopg.connect(settings.url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for name in ("entry", "head"):
            rows = f"SELECT * FROM toolcrib.audit_{name} WHERE fleet = '{settings.name}'"
            connection.execute(f"CREATE TEMP VIEW {name} AS {rows}")
        for statement in statements:
            connection.execute(statement)


@dataclass(frozen=True)
class Kept:
    """A log of some engine."""

    place: AuditPlace
    tamper: Callable[..., None]
    """Run statements on ``entry`` and ``head`` that both engines understand."""

    async def write(self, entries: Sequence[AuditEntry], clock_ns: Callable[[], int] = time.time_ns) -> "Kept":
        await written(self.place, entries, clock_ns)
        return self

    def writer(self) -> QueuedAudit:
        return QueuedAudit(self.place, time.time_ns)

    def find(self, query: AuditQuery | None = None, count: int | None = None) -> list[Stored]:
        return find(self.place, query or AuditQuery(), count)

    def tools(self) -> list[str]:
        return [entry.tool or entry.event for entry in self.find()]

    def walk(self, noted: Head | None = None) -> Finding:
        return walk(self.place, noted)


def in_file(path: Path) -> Kept:
    return Kept(AuditFile(path), lambda *statements: tamper(path, *statements))


def in_table(url: str) -> Kept:
    """A log of a fleet that nobody has heard of yet."""
    settings = StoreSettings(url, name=f"fleet {next(_NAMES)}")
    return Kept(AuditTable(settings, "postgresql://here"), lambda *statements: tamper_table(settings, *statements))


def walk(place: Path | AuditPlace, noted: Head | None = None) -> Finding:
    with (AuditFile(place) if isinstance(place, Path) else place).reading() as log:
        return verify(log, noted)


EVERYTHING = AuditQuery()


def find(place: Path | AuditPlace, query: AuditQuery = EVERYTHING, count: int | None = None) -> list[Stored]:
    with (AuditFile(place) if isinstance(place, Path) else place).reading() as log:
        return latest(log, query, count)
