"""What every list of tasks promises, held against each engine there is."""

import asyncio
import itertools

import pytest
from msgspec.structs import replace
from tests.doubles.worklist import MemoryWorkList

from toolcrib.core.errors import InvalidArguments, WorkListUnavailable
from toolcrib.core.worklist import Note, TaskChange, TaskOutcome, UnknownTask, WorkTask
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.postgres.worklist import PgWorkList
from toolcrib.stores.worklist import SqliteWorkList


def ticking():
    numbers = itertools.count(1)
    return lambda: f"t{next(numbers)}"


@pytest.fixture
async def works_of(request, tmp_path):
    """Lists over one file or one database, by its kind; each with the workspace it is for."""
    databases, made = [], []

    def open_database():
        databases.append(PgDatabase(request.getfixturevalue("store_settings")))
        return databases[-1]

    def make(kind):
        shared = open_database() if kind == "postgres" else tmp_path / "deep" / "tasks.db"
        engine = {"sqlite": SqliteWorkList, "postgres": PgWorkList}[kind]

        def open_work(workspace):
            made.append(engine(shared, workspace, ticking()))
            return made[-1]

        return open_work

    yield make
    for each in (*made, *databases):
        await each.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def work(request, works_of):
    return MemoryWorkList(ticking()) if request.param == "memory" else works_of(request.param)("here")


async def test_tasks_are_numbered_from_one_and_come_back_as_they_were_put(work):
    first = await work.add("One", "in full 🌍\0")
    second = await work.add("Two", after=[1])

    assert first == WorkTask(1, "One", "in full 🌍\0", "open", (), "t1", "t1")
    assert second == WorkTask(2, "Two", "", "open", (1,), "t2", "t2")
    assert await work.tasks() == [first, second]
    assert await work.task(2) == second


async def test_a_change_leaves_alone_what_it_does_not_name(work):
    await work.add("One", "text")
    changed = await work.change(1, TaskChange(state="active"))

    assert changed == TaskOutcome(WorkTask(1, "One", "text", "active", (), "t1", "t2"))
    assert await work.task(1) == changed.task


async def test_completing_tells_what_became_free(work):
    for title, after in (("a", ()), ("b", ()), ("c", (1,)), ("d", (1, 2)), ("e", (3,))):
        await work.add(title, after=after)
    first = await work.change(1, TaskChange(state="done"))
    second = await work.change(2, TaskChange(state="dropped"))
    again = await work.change(2, TaskChange(state="done"))

    assert [task.title for task in first.unblocked] == ["c"]
    assert [task.title for task in second.unblocked] == ["d"]
    assert again.unblocked == ()


async def test_taking_a_hindrance_away_sets_free_as_well(work):
    await work.add("a")
    await work.add("b", after=[1])
    freed = await work.change(2, TaskChange(after=()))

    assert freed.unblocked == (freed.task,)
    assert freed.task.after == ()


@pytest.mark.parametrize(
    ("task", "after", "circle"),
    [(1, [1], "1 after 1"), (1, [2], "1 after 2 after 1"), (1, [3], "1 after 3 after 2 after 1")],
)
async def test_tasks_that_would_wait_for_each_other_are_refused(work, task, after, circle):
    await work.add("a")
    await work.add("b", after=[1])
    await work.add("c", after=[2])
    before = await work.tasks()

    with pytest.raises(InvalidArguments, match=circle):
        await work.change(task, TaskChange(title="other", after=tuple(after)))
    assert await work.tasks() == before


async def test_what_is_not_there_is_told(work):
    for use in (
        work.task(7),
        work.change(7, TaskChange(state="done")),
        work.add_note(7, "x"),
        work.add("x", after=[7]),
    ):
        with pytest.raises(UnknownTask, match="There is no task 7"):
            await use
    assert await work.tasks() == []


async def test_notes_are_kept_in_order_and_not_listed(work):
    made = await work.add("a")
    await work.add_note(1, "first")
    noted = await work.add_note(1, "second")

    assert noted == replace(made, notes=(Note("t2", "first"), Note("t3", "second")), changed="t3")
    assert await work.task(1) == noted
    assert await work.tasks() == [replace(noted, notes=())]


async def test_the_order_of_what_is_waited_for_is_kept_and_nothing_twice(work):
    for title in "abc":
        await work.add(title)

    assert (await work.add("d", after=[3, 1, 3])).after == (3, 1)


async def test_many_at_once_get_numbers_of_their_own(work):
    made = await asyncio.gather(*(work.add(f"task {number}") for number in range(20)))

    assert sorted(task.id for task in made) == list(range(1, 21))


@pytest.fixture(params=["sqlite", "postgres"])
def open_work(request, works_of):
    return works_of(request.param)


async def test_two_processes_share_a_list_and_two_workspaces_do_not_meet(open_work):
    one, other, elsewhere = map(open_work, ("here", "here", "there"))
    await one.add("mine")
    await elsewhere.add("theirs")
    shared = await other.add("ours", after=[1])
    await one.change(1, TaskChange(state="done"))

    assert [task.title for task in await other.tasks()] == ["mine", "ours"]
    assert shared.id == 2
    assert [task.title for task in await elsewhere.tasks()] == ["theirs"]


async def test_replicas_that_add_and_note_at_once_lose_nothing(open_work):
    one, other = open_work("here"), open_work("here")
    await asyncio.gather(*(work.add("task") for work in (one, other) for _ in range(10)))
    await asyncio.gather(*(work.add_note(1, f"note {n}") for work in (one, other) for n in range(10)))

    assert [task.id for task in await one.tasks()] == list(range(1, 21))
    assert len((await other.task(1)).notes) == 20


async def test_a_list_that_cannot_be_used_says_why(tmp_path):
    (tmp_path / "tasks.db").write_text("this is no database, but long enough to be looked at as one" * 20)
    work = SqliteWorkList(tmp_path / "tasks.db", "here", ticking())

    with pytest.raises(WorkListUnavailable, match="not a database"):
        await work.tasks()
    await work.close()
