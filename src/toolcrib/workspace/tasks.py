"""The tasks of the workspace: what is to be done, in which order, and what was found on the way."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from toolcrib.core.errors import InvalidArguments
from toolcrib.core.worklist import TaskChange, TaskOutcome, WorkList, WorkTask, blockers

Arguments = Mapping[str, Any]
Json = dict[str, Any]


class TaskTools:
    """The ``task_*`` tools over one list."""

    def __init__(self, work: WorkList) -> None:
        self._work = work

    async def create(self, arguments: Arguments) -> Json:
        """A new task."""
        title = arguments["title"].strip()
        if not title:
            raise InvalidArguments("The title is empty.", hint="Say in a few words what is to be done.")
        task = await self._work.add(title, arguments.get("description", ""), arguments.get("after", ()))
        return await self._shown(task)

    async def list_tasks(self, arguments: Arguments) -> Json:
        """The tasks, in short."""
        tasks = await self._work.tasks()
        known = {task.id: task for task in tasks}
        listed = [_short(task, known) for task in tasks if _is_wanted(task, known, arguments.get("state"))]
        limit = arguments.get("limit", 200)
        return {"tasks": listed[:limit], "total": len(listed), "open": sum(not task.is_over for task in tasks)}

    async def view(self, arguments: Arguments) -> Json:
        """One task with everything that was said of it."""
        return await self._shown(await self._work.task(arguments["id"]))

    async def complete(self, arguments: Arguments) -> Json:
        """A task is done."""
        number = arguments["id"]
        tasks = {task.id: task for task in await self._work.tasks()}
        if number in tasks and (waits := blockers(tasks[number], tasks)):
            shown = ", ".join(map(str, waits))
            raise InvalidArguments(f"Task {number} still waits for {shown}.", hint="Complete or drop those first.")
        if note := arguments.get("note"):
            await self._work.add_note(number, note)
        return await self._told(await self._work.change(number, TaskChange(state="done")))

    async def update(self, arguments: Arguments) -> Json:
        """A task is different from now on."""
        after: Sequence[int] | None = arguments.get("after")
        change = TaskChange(
            arguments.get("title"),
            arguments.get("description"),
            arguments.get("state"),
            None if after is None else tuple(after),
        )
        return await self._told(await self._work.change(arguments["id"], change))

    async def add_note(self, arguments: Arguments) -> Json:
        """Something to remember about a task."""
        return await self._shown(await self._work.add_note(arguments["id"], arguments["note"]))

    async def _told(self, outcome: TaskOutcome) -> Json:
        freed = [{"id": task.id, "title": task.title} for task in outcome.unblocked]
        return {**await self._shown(outcome.task), "unblocked": freed}

    async def _shown(self, task: WorkTask) -> Json:
        known = {other.id: other for other in await self._work.tasks()}
        full = _short(task, known) | {"description": task.description, "created": task.created}
        return full | {"changed": task.changed, "notes": [structs.asdict(note) for note in task.notes]}


def _short(task: WorkTask, known: Mapping[int, WorkTask]) -> Json:
    waits = list(blockers(task, known))
    return {"id": task.id, "title": task.title, "state": task.state, "after": list(task.after), "waits_for": waits}


def _is_wanted(task: WorkTask, known: Mapping[int, WorkTask], state: str | None) -> bool:
    if state == "ready":
        return not task.is_over and not blockers(task, known)
    return state is None or task.state == state
