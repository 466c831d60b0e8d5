"""Background tasks have one owner and end with it."""

import asyncio

import pytest

from toolcrib.core.tasks import TaskScope


async def test_closing_cancels_what_still_runs_and_waits_for_it():
    """Cleaning up is part of ending."""
    cleaned = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(1)

    scope = TaskScope(lambda name, error: None)
    scope.spawn(work(), "work")
    await asyncio.sleep(0)

    await scope.close()

    assert cleaned == [1]


async def test_a_failure_is_told_to_the_owner_by_name():
    """Never lost; a cancellation is none."""
    failures = []

    async def fail() -> None:
        raise ValueError("no")

    scope = TaskScope(lambda name, error: failures.append((name, str(error))))
    task = scope.spawn(fail(), "work")
    await asyncio.wait([task])
    scope.spawn(asyncio.Event().wait(), "waits").cancel()
    await scope.close()

    assert failures == [("work", "no")]


async def test_nothing_begins_after_the_end():
    """The work is closed, not leaked."""
    scope = TaskScope(lambda name, error: None)
    await scope.close()

    with pytest.raises(RuntimeError, match="its owner is closed"):
        scope.spawn(asyncio.Event().wait(), "late")


async def test_a_task_may_close_its_own_scope():
    """It does not wait for itself."""
    scope = TaskScope(lambda name, error: None)

    await asyncio.wait_for(scope.spawn(scope.close(), "last"), 150)
