"""Tasks in the shared database: replicas that work on the same directory have one list."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolcrib.core.worklist import (
    Note,
    TaskChange,
    TaskOutcome,
    UnknownTask,
    WorkTask,
    changed_task,
    new_task,
    noted_task,
    set_free,
)
from toolcrib.stores.postgres.database import PgDatabase, from_text, to_text
from toolcrib.stores.postgres.lock import changing

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_TASKS = """
SELECT id, title, description, state, after, created, changed FROM toolcrib.task
WHERE fleet = %s AND workspace = %s ORDER BY id
"""
_NOTES = "SELECT time, text FROM toolcrib.note WHERE fleet = %s AND workspace = %s AND task = %s ORDER BY place"
_ADD = """
INSERT INTO toolcrib.task (fleet, workspace, id, title, description, state, after, created, changed)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_CHANGE = """
UPDATE toolcrib.task SET title = %s, description = %s, state = %s, after = %s, changed = %s
WHERE fleet = %s AND workspace = %s AND id = %s
"""
_ADD_NOTE = """
INSERT INTO toolcrib.note (fleet, workspace, task, place, time, text) VALUES (%s, %s, %s, %s, %s, %s)
"""


class PgWorkList:
    """The tasks of one workspace; the database is somebody else's to close."""

    def __init__(self, database: PgDatabase, workspace: str, now: Callable[[], str]) -> None:
        self._database, self._now = database, now
        self._place = database.name, to_text(workspace)

    async def add(self, title: str, description: str = "", after: Sequence[int] = ()) -> WorkTask:
        """A new task."""
        async with self._changing() as connection:
            added = new_task(await self._tasks(connection), title, description, after, self._now())
            await connection.execute(_ADD, (*self._place, added.id, *_row(added)[:4], added.created, added.changed))
        return added

    async def tasks(self) -> list[WorkTask]:
        """All tasks, without their notes."""
        async with self._database.transaction() as connection:
            return list((await self._tasks(connection)).values())

    async def task(self, task: int) -> WorkTask:
        """One task with its notes."""
        async with self._database.transaction() as connection:
            return await self._task(connection, task)

    async def change(self, task: int, change: TaskChange) -> TaskOutcome:
        """Change a task."""
        async with self._changing() as connection:
            before, known = await self._tasks(connection), await self._task(connection, task)
            changed = changed_task(known, change, before, self._now())
            await connection.execute(_CHANGE, (*_row(changed), *self._place, task))
        after = before | {task: replace(changed, notes=())}
        return TaskOutcome(changed, set_free(before, after))

    async def add_note(self, task: int, text: str) -> WorkTask:
        """Say something of a task."""
        async with self._changing() as connection:
            noted = noted_task(await self._task(connection, task), text, self._now())
            row = (*self._place, task, len(noted.notes) - 1, noted.changed, to_text(text))
            await connection.execute(_ADD_NOTE, row)
            await connection.execute(_CHANGE, (*_row(noted), *self._place, task))
        return noted

    async def close(self) -> None:
        """Nothing of its own to let go of."""

    def _changing(self) -> "AbstractAsyncContextManager[AsyncConnection[Any]]":
        return changing(self._database, f"tasks {self._place[1]}")

    async def _tasks(self, connection: "AsyncConnection[Any]") -> dict[int, WorkTask]:
        rows = await (await connection.execute(_TASKS, self._place)).fetchall()
        return {row[0]: _to_task(*row) for row in rows}

    async def _task(self, connection: "AsyncConnection[Any]", task: int) -> WorkTask:
        known = (await self._tasks(connection)).get(task)
        if known is None:
            raise UnknownTask(task)
        notes = await (await connection.execute(_NOTES, (*self._place, task))).fetchall()
        return replace(known, notes=tuple(Note(time, from_text(text)) for time, text in notes))


def _row(task: WorkTask) -> tuple[Any, ...]:
    return to_text(task.title), to_text(task.description), task.state, list(task.after), task.changed


def _to_task(number: int, title: str, description: str, *rest: Any) -> WorkTask:
    state, after, created, changed = rest
    return WorkTask(number, from_text(title), from_text(description), state, tuple(after), created, changed)
