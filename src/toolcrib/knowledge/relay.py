"""Work in two parts: the first parts overlap, the second parts follow one another in order."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")


class Relay:
    """A few pieces of work under way at once; at the end of the block all are done, or given up."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: deque[asyncio.Task[None]] = deque()

    async def put(self, prepare: Callable[[], Awaitable[T]], finish: Callable[[T], Awaitable[None]]) -> None:
        """Begin, as soon as there is room; raises what went wrong with work that was put in before."""
        await self._come_down_to(self._most - 1)
        before = self._under_way[-1] if self._under_way else None
        self._under_way.append(asyncio.create_task(_run(prepare, finish, before)))

    async def _come_down_to(self, most: int) -> None:
        while len(self._under_way) > most:
            await self._under_way[0]
            self._under_way.popleft()

    async def __aenter__(self) -> "Relay":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """After an error, what was begun is still done; who is interrupted does not want to wait for that."""
        if error is None or isinstance(error, Exception):
            await self._see_through(is_well=error is None)
        else:
            await self._give_up()

    async def _see_through(self, *, is_well: bool) -> None:
        try:
            await asyncio.gather(*self._under_way, return_exceptions=not is_well)
        except BaseException:
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


async def _run(
    prepare: Callable[[], Awaitable[T]], finish: Callable[[T], Awaitable[None]], before: asyncio.Task[None] | None
) -> None:
    prepared = await prepare()
    if before is not None:
        await before
    await finish(prepared)
