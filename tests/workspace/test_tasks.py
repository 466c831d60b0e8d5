"""The task tools, as a model sees them."""

import pytest
from tests.doubles.worklist import MemoryWorkList

from toolcrib.core.errors import InvalidArguments
from toolcrib.workspace.tasks import TaskTools


@pytest.fixture
async def tasks():
    tools = TaskTools(MemoryWorkList(lambda: "now"))
    await tools.create({"title": "Build"})
    await tools.create({"title": "Test", "after": [1]})
    await tools.create({"title": "Release", "description": "to all", "after": [1, 2]})
    return tools


async def test_a_list_tells_what_each_task_waits_for(tasks):
    listed = await tasks.list_tasks({})

    assert [(task["id"], task["waits_for"]) for task in listed["tasks"]] == [(1, []), (2, [1]), (3, [1, 2])]
    assert (listed["total"], listed["open"]) == (3, 3)


async def test_what_can_begin_is_listed_alone(tasks):
    before = await tasks.list_tasks({"state": "ready"})
    done = await tasks.complete({"id": 1, "note": "It builds."})
    after = await tasks.list_tasks({"state": "ready"})

    assert [task["id"] for task in before["tasks"]] == [1]
    assert done["unblocked"] == [{"id": 2, "title": "Test"}]
    assert [task["id"] for task in after["tasks"]] == [2]
    assert (await tasks.view({"id": 1}))["notes"] == [{"time": "now", "text": "It builds."}]


async def test_a_task_that_still_waits_cannot_be_completed(tasks):
    with pytest.raises(InvalidArguments, match=r"Task 3 still waits for 1, 2"):
        await tasks.complete({"id": 3, "note": "not yet"})
    assert (await tasks.view({"id": 3}))["notes"] == []


async def test_a_task_is_changed_and_noted(tasks):
    await tasks.add_note({"id": 2, "note": "flaky"})
    changed = await tasks.update({"id": 2, "title": "Test twice", "state": "active", "after": []})

    assert (changed["title"], changed["state"], changed["after"]) == ("Test twice", "active", [])
    assert changed["unblocked"] == [{"id": 2, "title": "Test twice"}]
    assert changed["notes"] == [{"time": "now", "text": "flaky"}]


async def test_a_task_needs_a_title(tasks):
    with pytest.raises(InvalidArguments, match="The title is empty"):
        await tasks.create({"title": "  "})
