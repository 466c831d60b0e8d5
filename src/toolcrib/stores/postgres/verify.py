"""Whether what the shared database holds is as it should be: one check for each part, each read at one moment."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolcrib.config.lock import read_record
from toolcrib.core.errors import ConfigError, InvalidArguments, StoreUnavailable
from toolcrib.core.worklist import UnknownTask, WorkTask, check_after
from toolcrib.stores.audit.log import NoAuditLog
from toolcrib.stores.audit.verify import Fault, verify
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.database import PgDatabase, from_text
from toolcrib.stores.postgres.migrate import status
from toolcrib.stores.postgres.tokens import READ as TOKENS
from toolcrib.stores.postgres.tokens import to_known

Problems = AsyncIterator[str]
PROBLEMS_SHOWN = 20
_TASKS = "SELECT workspace, id, after FROM toolcrib.task WHERE fleet = %s ORDER BY workspace, id"


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """What a check found."""

    part: str
    problems: tuple[str, ...] = ()


async def verify_store(database: PgDatabase) -> list[StoreFinding]:
    """Look at everything, and change nothing; without its tables there is nothing more to look at."""
    schema = StoreFinding("steps", tuple(await _of_steps(database)))
    if schema.problems:
        return [schema]
    return [schema, *[await _look(part, find(database)) for part, find in CHECKS.items()]]


async def _look(part: str, problems: Problems) -> StoreFinding:
    found: list[str] = []
    async for problem in problems:
        found.append(problem)
        if len(found) == PROBLEMS_SHOWN:
            found.append("And perhaps more: the rest was not looked at.")
            break
    return StoreFinding(part, tuple(found))


async def _of_steps(database: PgDatabase) -> list[str]:
    found = await status(database)
    missing = [f"Step {step.version:03} {step.name} is missing: run `toolcrib db upgrade`." for step in found.missing]
    unknown = [f"Step {step.version:03} {step.name} is of another version of toolcrib." for step in found.unknown]
    return [*missing, *unknown]


async def _rows(database: PgDatabase, statement: str) -> list[tuple[Any, ...]]:
    return await database.rows(statement, (database.name,))


async def _of_records(database: PgDatabase) -> Problems:
    for server, body in await _rows(database, "SELECT server, body FROM toolcrib.record WHERE fleet = %s"):
        try:
            record = read_record(from_text(server), body)
        except ConfigError as error:
            yield error.message
            continue
        if not server:
            yield "A record is of no server."
        for name, pin in record.pins.items():
            if not pin.hash or not pin.identity:
                yield f"The pin of {name!r} of server {server!r} says nothing."


async def _of_answers(database: PgDatabase) -> Problems:
    for tool, caller, at in await _rows(database, "SELECT tool, caller, at FROM toolcrib.answer WHERE fleet = %s"):
        if not tool.strip() or not caller.strip():
            yield f"An answer is for tool {tool!r} and caller {caller!r}, which nobody can be."
        if at and not _is_time(at):
            yield f"The answer for {tool!r} was given at {at!r}, which is no time."


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


async def _of_tokens(database: PgDatabase) -> Problems:
    try:
        tokens = to_known(await _rows(database, TOKENS)).by_id.values()
    except StoreUnavailable as error:
        yield error.message
        return
    lasting = Counter(token.name for token in tokens if token.revoked is None and token.expires is None)
    for name, count in lasting.items():
        if count > 1:
            yield f"{count} tokens that never end are called {name!r}."


async def _of_tasks(database: PgDatabase) -> Problems:
    lists: dict[str, dict[int, WorkTask]] = {}
    for workspace, number, after in await _rows(database, _TASKS):
        lists.setdefault(workspace, {})[number] = WorkTask(number, "", after=tuple(after))
    for workspace, tasks in lists.items():
        for number, task in tasks.items():
            try:
                check_after(number, task.after, tasks)
            except (UnknownTask, InvalidArguments) as error:
                yield f"Task {number} of {from_text(workspace)}: {error.message}"


async def _of_audit(database: PgDatabase) -> Problems:
    fault = await asyncio.to_thread(_fault_of, AuditTable(database.settings, ""))
    if fault is not None:
        yield f"The chain is broken: {fault.words}. `toolcrib audit verify` tells more."


def _fault_of(log: AuditTable) -> Fault | None:
    with suppress(NoAuditLog), log.reading() as entries:
        return verify(entries).fault
    return None


async def _of_knowledge(database: PgDatabase) -> Problems:
    from toolcrib.stores.postgres.knowledge import PgKnowledge  # numpy comes with it

    store = PgKnowledge(database.settings)
    try:
        for problem in await store.verify():
            yield problem
    finally:
        await store.close()


CHECKS: Mapping[str, Callable[[PgDatabase], Problems]] = {
    "records": _of_records,
    "answers": _of_answers,
    "tokens": _of_tokens,
    "tasks": _of_tasks,
    "audit": _of_audit,
    "knowledge": _of_knowledge,
}
"""What tells what is wrong with each part, in words for people, in the order they are told of."""
