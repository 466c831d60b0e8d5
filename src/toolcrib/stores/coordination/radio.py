"""News among replicas: one ear per process, which is put back on whenever it fell off."""

import asyncio
from collections.abc import Callable
from functools import partial

from toolcrib.core.coordination import Listener, Unsubscribe
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.tasks import OnFailure
from toolcrib.stores.coordination.engine import FREE, PART, Engine

RETRY_S = (0.1, 0.2, 0.4, 0.7)
TOPIC = "news "
"""Before the topics of ``publish``, so that none is the engine's own."""

OnGap = Callable[[], None]


class Radio:
    """Hears what others publish, and whose turn it is at a gate."""

    def __init__(self, engine: Engine, replica: str, on_free: Callable[[str], None], on_failure: OnFailure) -> None:
        self.is_on = asyncio.Event()
        self._engine, self._replica, self._on_free, self._on_failure = engine, replica, on_free, on_failure
        self._listeners: dict[str, list[tuple[Listener, OnGap]]] = {}
        self._waits = iter(RETRY_S)

    async def listen(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._listen_once()
            except CoordinationUnavailable:
                self.is_on.clear()
            except Exception as error:  # whatever was heard: a replica that is deaf is worse
                self.is_on.clear()
                self._on_failure("listening to other replicas", error)
            await asyncio.sleep(next(self._waits, RETRY_S[-1]))

    async def _listen_once(self) -> None:
        async with self._engine.tune() as station:
            self._waits = iter(RETRY_S)
            self.is_on.set()
            self._tell_of_gap()
            async for heard in station:
                if heard.sender != self._replica:
                    self._hear(heard.topic, heard.body)

    def _tell_of_gap(self) -> None:
        """Whoever listened already may have missed something."""
        for listeners in list(self._listeners.values()):
            for _, on_gap in list(listeners):
                self._safely(on_gap)

    def _hear(self, topic: str, body: bytes) -> None:
        if topic == FREE:
            gate, *turns = body.decode().split(PART)
            if self._replica in turns:
                self._on_free(gate)
            return
        for listener, _ in list(self._listeners.get(topic.removeprefix(TOPIC), ())):
            self._safely(partial(listener, body))

    def _safely(self, listener: Callable[[], None]) -> None:
        try:
            listener()
        except Exception as error:  # one listener's trouble does not deafen the others
            self._on_failure("a listener to other replicas", error)

    async def subscribe(self, topic: str, listener: Listener, on_gap: OnGap, wait_s: float) -> Unsubscribe:
        """Listen from now on; while the engine is away, from when it is back, which begins with ``on_gap``."""
        try:
            async with asyncio.timeout(wait_s):
                await self.is_on.wait()
        except TimeoutError:
            pass
        entry = (listener, on_gap)
        self._listeners.setdefault(topic, []).append(entry)

        async def unsubscribe() -> None:
            listeners = self._listeners.get(topic, [])
            if entry in listeners:
                listeners.remove(entry)
            if not listeners:
                self._listeners.pop(topic, None)

        return unsubscribe
