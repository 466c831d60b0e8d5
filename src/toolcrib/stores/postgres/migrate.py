"""Bringing the shared database up to date, step by step; one replica at a time, all of a step or nothing."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.core.errors import StoreUnavailable
from toolcrib.stores.postgres.database import SCHEMA, PgDatabase

_STEPS = Path(__file__).with_name("sql") / "steps"
_NAMED = re.compile(r"(\d{3})_(\w+)\.sql")
_LOCK = 0x746F6F6C63726962
"""The advisory lock of upgrades: the letters of ``toolcrib``."""


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One step: a file of SQL that is never changed once it was released."""

    version: int
    name: str
    text: str

    @property
    def hash(self) -> str:
        """What tells whether the file is the one that was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Applied:
    """A step that the database has taken."""

    version: int
    name: str
    hash: str
    at: str


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """What the database has, and what it lacks."""

    server: str
    applied: tuple[Applied, ...]
    missing: tuple[MigrationStep, ...]
    unknown: tuple[Applied, ...]
    """Steps of a newer toolcrib, or files that were changed after they were applied."""

    @property
    def is_current(self) -> bool:
        """Whether this version can work with it."""
        return not self.missing and not self.unknown


def steps() -> tuple[MigrationStep, ...]:
    """All steps, in order."""
    found = [(match, path) for path in sorted(_STEPS.glob("*.sql")) if (match := _NAMED.fullmatch(path.name))]
    return tuple(MigrationStep(int(match[1]), match[2], path.read_text()) for match, path in found)


async def status(database: PgDatabase) -> SchemaStatus:
    """Look, and change nothing."""
    async with database.transaction() as connection:
        return await _status(connection)


async def upgrade(database: PgDatabase) -> list[MigrationStep]:
    """Take the steps that are missing, in one transaction; those that were taken."""
    async with database.transaction() as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        found = await _status(connection)
        if found.unknown:
            raise _newer(found)
        for step in found.missing:
            await connection.execute(step.text.encode())
            await connection.execute(
                "INSERT INTO toolcrib.step (version, name, hash) VALUES (%s, %s, %s)",
                (step.version, step.name, step.hash),
            )
    return list(found.missing)


async def need_current(database: PgDatabase) -> None:
    """Refuse to work with a database that is not as this version needs it."""
    found = await status(database)
    if found.unknown:
        raise _newer(found)
    if found.missing:
        raise StoreUnavailable(
            f"The shared database lacks {len(found.missing)} of {len(steps())} steps.",
            hint="Run `toolcrib db upgrade`.",
        )


async def _status(connection: Any) -> SchemaStatus:
    version = (await (await connection.execute("SHOW server_version")).fetchone())[0]
    applied = await _applied(connection)
    known = {step.version: step for step in steps()}
    taken = {entry.version for entry in applied}
    return SchemaStatus(
        server=version,
        applied=applied,
        missing=tuple(step for step in known.values() if step.version not in taken),
        unknown=tuple(
            entry for entry in applied if entry.version not in known or known[entry.version].hash != entry.hash
        ),
    )


async def _applied(connection: Any) -> tuple[Applied, ...]:
    there = await (await connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.step",))).fetchone()
    if there[0] is None:
        return ()
    shown = 'SELECT version, name, hash, to_char(at, \'YYYY-MM-DD"T"HH24:MI:SS"Z"\') FROM toolcrib.step ORDER BY 1'
    return tuple(Applied(*row) for row in await (await connection.execute(shown)).fetchall())


def _newer(found: SchemaStatus) -> StoreUnavailable:
    names = ", ".join(f"{entry.version:03} {entry.name}" for entry in found.unknown)
    return StoreUnavailable(
        f"The shared database was changed by another version of toolcrib: {names}.",
        hint="Run the newest version of toolcrib that any replica runs.",
    )
