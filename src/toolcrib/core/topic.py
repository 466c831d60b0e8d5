"""Publish and subscribe among replicas, for senders that must not wait while the engine is away."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from toolcrib.core.coordination import Coordination, Listener, Unsubscribe
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.tasks import TaskScope

RETRY_S = 1.0
UNSAID_MAX = 1000
LAST_WORDS_S = 1.0

OnGap = Callable[[], None]


class Topic:
    """Says things in order, in the background. What cannot be said is dropped, and ``on_gap`` is called when the
    others can be reached again: then they may have missed what we said, and we what they said."""

    def __init__(self, coordination: Coordination, name: str, hear: Listener, on_gap: OnGap) -> None:
        self.name = name
        self._coordination, self._hear, self._on_gap = coordination, hear, on_gap
        self._unsaid: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._unsubscribe: Unsubscribe | None = None
        self._tasks = TaskScope(_ignore)

    async def open(self) -> None:
        """Begin to listen; if the others cannot be reached now, as soon as they can."""
        if not await self._subscribed():
            self._tasks.spawn(self._subscribe_later(), f"subscribe-{self.name}")
        self._tasks.spawn(self._say_all(), f"say-{self.name}")

    async def _subscribed(self) -> bool:
        try:
            self._unsubscribe = await self._coordination.subscribe(self.name, self._hear, self._on_gap)
        except CoordinationUnavailable:
            return False
        return True

    async def _subscribe_later(self) -> None:
        while True:
            await asyncio.sleep(RETRY_S)
            if await self._subscribed():
                break
        self._on_gap()

    def say(self, body: bytes) -> None:
        """Tell the others soon; never waits."""
        if len(self._unsaid) < UNSAID_MAX:
            self._unsaid.append(body)
        self._wake.set()

    async def tell(self, body: bytes) -> None:
        """Tell the others now, or raise."""
        await self._coordination.publish(self.name, body)

    async def _say_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while self._unsaid:
                    await self.tell(self._unsaid[0])
                    self._unsaid.popleft()
            except CoordinationUnavailable:
                await self._back()

    async def _back(self) -> None:
        """Wait until the others can be reached; what was not said is said anew by whoever keeps it."""
        while True:
            await asyncio.sleep(RETRY_S)
            if not self._coordination.status().problem:
                break
        self._unsaid.clear()
        self._on_gap()

    async def close(self) -> None:
        """Say what is left to be said, then listen no more."""
        await self._tasks.close()
        with suppress(CoordinationUnavailable, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                for body in self._unsaid:
                    await self.tell(body)
        if self._unsubscribe is not None:
            try:
                await self._unsubscribe()
            except CoordinationUnavailable:  # then nobody tells us anything anyway
                return


def _ignore(name: str, error: BaseException) -> None:
    """A failure of the engine is seen in its status."""
    del name, error
