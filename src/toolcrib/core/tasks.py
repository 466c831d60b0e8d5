"""One owner for everything that runs in the background."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

OnFailure = Callable[[str, BaseException], None]


class TaskScope:
    """Tasks that end with their owner: closing cancels what still runs and waits for it."""

    def __init__(self, on_failure: OnFailure) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_failure = on_failure
        self._closed = False

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``work`` in the background; a failure is told to the owner, never lost."""
        if self._closed:
            work.close()
            raise RuntimeError(f"cannot start {name!r}: its owner is closed")
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(task.get_name(), error)

    async def close(self) -> None:
        """Cancel all and wait until they are done."""
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
