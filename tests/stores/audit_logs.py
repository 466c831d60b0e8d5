"""Logs to look at: written by the real thing, then changed behind its back."""

import time
from collections.abc import Sequence
from pathlib import Path

import apsw

from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit import SqliteAudit
from toolcrib.stores.audit_reading import Query, Stored, latest, reading
from toolcrib.stores.audit_verify import Finding, Head, verify


async def written(path: Path, entries: Sequence[AuditEntry]) -> Path:
    """A log with these entries."""
    log = SqliteAudit(path, time.time_ns)
    for entry in entries:
        await log.commit(entry)
    await log.close()
    return path


def numbered(count: int) -> list[AuditEntry]:
    return [AuditEntry("call", tool=f"tool{number}", outcome="success") for number in range(1, count + 1)]


def tamper(path: Path, *statements: str) -> None:
    """Change the file as somebody would who knows SQLite."""
    connection = apsw.Connection(str(path))
    connection.execute("DROP TRIGGER entry_is_never_changed; DROP TRIGGER entry_is_never_deleted")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def walk(path: Path, noted: Head | None = None) -> Finding:
    with reading(path) as connection:
        return verify(connection, noted)


EVERYTHING = Query()


def find(path: Path, query: Query = EVERYTHING, count: int | None = None) -> list[Stored]:
    with reading(path) as connection:
        return latest(connection, query, count)
