"""Work to be done: tasks, what each waits for, and the rules that hold in every store. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec
from msgspec.structs import replace

from toolcrib.core.errors import CallerError, InvalidArguments

TaskState = Literal["open", "active", "done", "dropped"]
STATES: tuple[TaskState, ...] = ("open", "active", "done", "dropped")
CLOSED = frozenset({"done", "dropped"})
"""States that no longer block the tasks that depend on them."""
TASKS_MAX = 10_000
NOTES_MAX = 1_000


class Note(msgspec.Struct, frozen=True):
    """Something said of a task on the way."""

    time: str
    text: str


class WorkTask(msgspec.Struct, frozen=True):
    """One piece of work."""

    id: int
    title: str
    description: str = ""
    state: TaskState = "open"
    after: tuple[int, ...] = ()
    """The tasks that have to be over before this one can begin, by number."""
    created: str = ""
    changed: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done."""
        return self.state in CLOSED


class TaskChange(msgspec.Struct, frozen=True):
    """What shall be different; ``None`` leaves it as it is."""

    title: str | None = None
    description: str | None = None
    state: TaskState | None = None
    after: tuple[int, ...] | None = None


class TaskOutcome(msgspec.Struct, frozen=True):
    """A task after a change, and which others it set free."""

    task: WorkTask
    unblocked: tuple[WorkTask, ...] = ()


class UnknownTask(CallerError):
    """There is no task of that number."""

    code = "TOOL_NOT_FOUND"

    def __init__(self, task: int) -> None:
        super().__init__(f"There is no task {task}.", hint="See them with task_list.")


class WorkList(Protocol):
    """Where the tasks of one workspace are kept; each method is all or nothing."""

    async def add(self, title: str, description: str = "", after: Sequence[int] = ()) -> WorkTask:
        """A new task; raises ``UnknownTask`` if it shall wait for one that is not there."""

    async def tasks(self) -> list[WorkTask]:
        """All tasks, by number, without their notes."""

    async def task(self, task: int) -> WorkTask:
        """One task with its notes; raises ``UnknownTask``."""

    async def change(self, task: int, change: TaskChange) -> TaskOutcome:
        """Change a task; raises ``InvalidArguments`` if tasks would wait for each other."""

    async def add_note(self, task: int, text: str) -> WorkTask:
        """Say something of a task."""

    async def close(self) -> None:
        """Let go of everything."""


def blockers(task: WorkTask, tasks: Mapping[int, WorkTask]) -> tuple[int, ...]:
    """What a task still waits for."""
    return tuple(number for number in task.after if number in tasks and not tasks[number].is_over)


def set_free(before: Mapping[int, WorkTask], after: Mapping[int, WorkTask]) -> tuple[WorkTask, ...]:
    """The tasks that could not begin before, and can now."""
    return tuple(
        task
        for number, task in sorted(after.items())
        if not task.is_over and number in before and blockers(before[number], before) and not blockers(task, after)
    )


def check_after(task: int, after: Iterable[int], tasks: Mapping[int, WorkTask]) -> tuple[int, ...]:
    """What a task may wait for; raises ``UnknownTask``, or ``InvalidArguments`` if it would wait for itself."""
    wanted = tuple(dict.fromkeys(after))
    for number in wanted:
        if number != task and number not in tasks:
            raise UnknownTask(number)
    circle = _find_circle(task, {number: known.after for number, known in tasks.items()} | {task: wanted})
    if circle:
        shown = " after ".join(map(str, circle))
        raise InvalidArguments(f"Tasks would wait for each other: {shown}.", hint="Leave one of them out.")
    return wanted


def _find_circle(task: int, after: Mapping[int, tuple[int, ...]]) -> list[int]:
    """A way from a task back to itself, if there is one."""
    came_from: dict[int, int] = {}
    left = [task]
    while left:
        here = left.pop()
        for there in after.get(here, ()):
            if there == task:
                return _way_back(task, here, came_from)
            if there not in came_from:
                came_from[there] = here
                left.append(there)
    return []


def _way_back(task: int, here: int, came_from: Mapping[int, int]) -> list[int]:
    way = [task]
    while here != task:
        way.append(here)
        here = came_from[here]
    return [task, *reversed(way[1:]), task]


def changed_task(known: WorkTask, change: TaskChange, tasks: Mapping[int, WorkTask], now: str) -> WorkTask:
    """A task after a change; raises what ``check_after`` does."""
    return replace(
        known,
        title=known.title if change.title is None else change.title,
        description=known.description if change.description is None else change.description,
        state=change.state or known.state,
        after=known.after if change.after is None else check_after(known.id, change.after, tasks),
        changed=now,
    )


def new_task(tasks: Mapping[int, WorkTask], title: str, description: str, after: Iterable[int], now: str) -> WorkTask:
    """One more task; raises what ``check_after`` does."""
    _check_room(len(tasks), TASKS_MAX, "tasks")
    number = max(tasks, default=0) + 1
    return WorkTask(number, title, description, "open", check_after(number, after, tasks), now, now)


def noted_task(known: WorkTask, text: str, now: str) -> WorkTask:
    """A task about which something more was said."""
    _check_room(len(known.notes), NOTES_MAX, "notes")
    return replace(known, notes=(*known.notes, Note(now, text)), changed=now)


def _check_room(count: int, most: int, what: str) -> None:
    """Refuse what would grow without end."""
    if count >= most:
        raise InvalidArguments(f"There are {count} {what} already.", hint="No more than that are kept.")
