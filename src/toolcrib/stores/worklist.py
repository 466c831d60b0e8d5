"""Tasks on disk: one file for all workspaces of a user, one thread, one connection."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from toolcrib.core.errors import WorkListUnavailable
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
from toolcrib.stores.sqlite_file import FileThread, Format, transaction

if TYPE_CHECKING:
    from apsw import Connection


FORMAT = Format("worklist", 1, WorkListUnavailable, "list of tasks", "XDG_STATE_HOME")
TASKS_NAME = "tasks.db"
T = TypeVar("T")

_CHANGE = "UPDATE task SET title = ?3, description = ?4, state = ?5, changed = ?6 WHERE workspace = ?1 AND id = ?2"


class SqliteWorkList:
    """The tasks of one workspace; nothing is opened before the first use."""

    def __init__(self, path: Path, workspace: str, now: Callable[[], str]) -> None:
        self._workspace, self._now = workspace, now
        self._file = FileThread(path, FORMAT)

    async def add(self, title: str, description: str = "", after: Sequence[int] = ()) -> WorkTask:
        """A new task."""
        return await self._do(lambda rows: rows.add(new_task(rows.tasks(), title, description, after, self._now())))

    async def tasks(self) -> list[WorkTask]:
        """All tasks, without their notes."""
        return await self._do(lambda rows: list(rows.tasks().values()))

    async def task(self, task: int) -> WorkTask:
        """One task with its notes."""
        return await self._do(lambda rows: rows.task(task))

    async def change(self, task: int, change: TaskChange) -> TaskOutcome:
        """Change a task."""
        return await self._do(lambda rows: rows.change(task, change, self._now()))

    async def add_note(self, task: int, text: str) -> WorkTask:
        """Say something of a task."""
        return await self._do(lambda rows: rows.add_note(noted_task(rows.task(task), text, self._now())))

    async def _do(self, work: "Callable[[_Rows], T]") -> T:
        def run(connection: "Connection") -> T:
            with transaction(connection):
                return work(_Rows(connection, self._workspace))

        return await self._file.do(run)

    async def close(self) -> None:
        """Let go of the file."""
        await self._file.close()


class _Rows:
    """The rows of one workspace within one transaction."""

    def __init__(self, connection: "Connection", workspace: str) -> None:
        self._connection, self._workspace = connection, workspace

    def _all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(sql, (self._workspace, *values)))

    def tasks(self) -> dict[int, WorkTask]:
        after: dict[int, list[int]] = defaultdict(list)
        for task, waits in self._all("SELECT task, after FROM waits WHERE workspace = ? ORDER BY task, place"):
            after[task].append(waits)
        rows = self._all(
            "SELECT id, title, description, state, created, changed FROM task WHERE workspace = ? ORDER BY id"
        )
        return {row[0]: WorkTask(row[0], row[1], row[2], row[3], tuple(after[row[0]]), row[4], row[5]) for row in rows}

    def task(self, task: int) -> WorkTask:
        known = self.tasks().get(task)
        if known is None:
            raise UnknownTask(task)
        notes = self._all("SELECT time, text FROM note WHERE workspace = ? AND task = ? ORDER BY place", task)
        return replace(known, notes=tuple(Note(time, text) for time, text in notes))

    def add(self, task: WorkTask) -> WorkTask:
        row = (task.id, task.title, task.description, task.state, task.created, task.changed)
        self._all("INSERT INTO task VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
        self._put_waits(task)
        return task

    def change(self, task: int, change: TaskChange, now: str) -> TaskOutcome:
        before = self.tasks()
        known = self.task(task)
        changed = changed_task(known, change, before, now)
        self._all(_CHANGE, task, changed.title, changed.description, changed.state, now)
        self._all("DELETE FROM waits WHERE workspace = ? AND task = ?", task)
        self._put_waits(changed)
        return TaskOutcome(changed, set_free(before, self.tasks()))

    def add_note(self, task: WorkTask) -> WorkTask:
        """The last of its notes is the new one."""
        note = task.notes[-1]
        self._all("INSERT INTO note VALUES (?, ?, ?, ?, ?)", task.id, len(task.notes) - 1, note.time, note.text)
        self._all("UPDATE task SET changed = ?3 WHERE workspace = ?1 AND id = ?2", task.id, task.changed)
        return task

    def _put_waits(self, task: WorkTask) -> None:
        for place, after in enumerate(task.after):
            self._all("INSERT INTO waits VALUES (?, ?, ?, ?)", task.id, place, after)
