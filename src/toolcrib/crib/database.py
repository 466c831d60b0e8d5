"""The shared database for whoever looks after it: opened, and filled with what this machine has in files."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from toolcrib.config.model import Config
from toolcrib.core.errors import ConfigError
from toolcrib.crib.backend import find_backend
from toolcrib.crib.loading import Loaded
from toolcrib.knowledge.transfer import move_knowledge
from toolcrib.stores.access_tokens import TOKENS_NAME
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.local import Backend, audit_path, kb_path
from toolcrib.stores.paths import Environment, state_directory
from toolcrib.stores.postgres.copying import BATCH, Copied, CopyPart, begin_anew, copy_by, copy_part
from toolcrib.stores.postgres.copying_parts import AuditPart, Documents, lock_parts, task_parts, token_parts
from toolcrib.stores.postgres.database import PgDatabase, find_store
from toolcrib.stores.postgres.migrate import need_current
from toolcrib.stores.worklist import TASKS_NAME


@asynccontextmanager
async def open_database(config: Config, around: Environment) -> AsyncIterator[PgDatabase]:
    """The database of the configuration; it is an error if there is none."""
    if not config.store.url:
        raise ConfigError(
            "No shared database is configured: everything is in files of this machine.",
            hint='Write [store] url = "postgresql://…" to share it between replicas.',
        )
    database = PgDatabase(find_store(config.store, around.variables))
    try:
        yield database
    finally:
        await database.close()


@dataclass(frozen=True, slots=True)
class CopyWish:
    """What is to be copied, and how."""

    only_project: bool = False
    """Without what all projects of this user have in common."""
    anew: bool = False
    """Parts that are not finished begin once more."""
    batch: int = BATCH
    """Rows that count together."""


async def copy_files(
    database: PgDatabase, loaded: Loaded, around: Environment, wish: CopyWish, report: Callable[[str], None]
) -> list[tuple[Copied, str]]:
    """Bring what this machine has in files into the database, part by part: what was copied, and from where.

    What was stopped goes on where it ended; ``report`` is told how far it is.
    """
    parts: list[CopyPart] = [] if loaded.lock is None else [*lock_parts(loaded.lock)]
    if not wish.only_project:
        parts += _user_parts(loaded.config, around)
    await need_current(database)
    if wish.anew:
        for part in reversed(parts):
            await begin_anew(database, part)
    done = [(await _copy_one(database, part, wish.batch, report), part.source) for part in parts]
    if not wish.only_project and not loaded.config.kb.path:  # a file that is named stays in use
        knowledge = Documents(kb_path(loaded.config.kb, around))
        work = _move_knowledge(knowledge, find_backend(loaded.config, around), report)
        done.append((await copy_by(database, knowledge, work), knowledge.source))
    return done


def _user_parts(config: Config, around: Environment) -> list[CopyPart]:
    """What all projects of this user have in common."""
    state = state_directory(around.env)
    tokens, tasks = token_parts(state / TOKENS_NAME, time.time), task_parts(state / TASKS_NAME)
    return [*tokens, *tasks, AuditPart(audit_path(config, around))]


async def _copy_one(database: PgDatabase, part: CopyPart, batch: int, report: Callable[[str], None]) -> Copied:
    def tell(progress: Copied) -> None:
        report(f"{progress.part}: {progress.rows}")

    tell(Copied(part.name, 0))
    return await copy_part(database, part, tell, batch)


def _move_knowledge(files: Documents, backend: Backend, report: Callable[[str], None]) -> Callable[[], Awaitable[None]]:
    async def move() -> None:
        if not files.path.exists():
            return
        here, there = SqliteKnowledge(files.path), backend.knowledge()
        try:
            await move_knowledge(here, there, lambda count: report(f"documents: {count}"))
        finally:
            await here.close()
            await there.close()

    return move
