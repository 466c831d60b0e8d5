"""A list of tasks in memory: what every store is held to."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from toolcrib.core.worklist import (
    TaskChange,
    TaskOutcome,
    UnknownTask,
    WorkTask,
    changed_task,
    new_task,
    noted_task,
    set_free,
)


class MemoryWorkList:
    """The tasks of one workspace, for as long as this process lives."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._now = now
        self._tasks: dict[int, WorkTask] = {}

    async def add(self, title: str, description: str = "", after: Sequence[int] = ()) -> WorkTask:
        """A new task."""
        added = new_task(self._tasks, title, description, after, self._now())
        self._tasks[added.id] = added
        return added

    async def tasks(self) -> list[WorkTask]:
        """All tasks, without their notes."""
        return [replace(task, notes=()) for task in self._tasks.values()]

    async def task(self, task: int) -> WorkTask:
        """One task with its notes."""
        if task not in self._tasks:
            raise UnknownTask(task)
        return self._tasks[task]

    async def change(self, task: int, change: TaskChange) -> TaskOutcome:
        """Change a task."""
        known = await self.task(task)
        changed = changed_task(known, change, self._tasks, self._now())
        before, self._tasks = self._tasks, self._tasks | {task: changed}
        return TaskOutcome(changed, tuple(replace(free, notes=()) for free in set_free(before, self._tasks)))

    async def add_note(self, task: int, text: str) -> WorkTask:
        """Say something of a task."""
        self._tasks[task] = noted_task(await self.task(task), text, self._now())
        return self._tasks[task]

    async def close(self) -> None:
        """Nothing to let go of."""
