"""What discovery found and people answered, for a running Crib: in the lock file, or in memory."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from toolcrib.config.lock import Answer, Record, timestamp, with_answer
from toolcrib.core.errors import ConfigError
from toolcrib.stores.lockfile import LockFile


class LockRecords:
    """Discovery records in the lock file; file work happens beside the event loop, in the order it was asked for."""

    def __init__(self, file: LockFile) -> None:
        self._file = file
        self._turn = asyncio.Lock()

    async def read(self) -> Mapping[str, Record]:
        """All records; a lock that cannot be read is an error, for with it every pin would be forgotten."""
        return self._file.read().records

    async def update(self, server: str, change: Callable[[Record | None], Record | None]) -> None:
        """Change one record; the last that was asked for is the last that is written."""
        async with self._turn:
            await asyncio.to_thread(self._file.update, server, change)


class LockAnswers:
    """What people answered once and for all, in the lock file, where they can read and edit it."""

    def __init__(self, file: LockFile) -> None:
        self._file = file

    async def find(self, tool: str, caller: str) -> bool | None:
        """What was answered; an unreadable lock holds no answer."""
        try:
            answer = self._file.read().approvals.get(tool, {}).get(caller)
        except ConfigError:
            return None
        return None if answer is None else answer.allow

    async def write(self, tool: str, caller: str, allow: bool, by: str) -> None:
        """Keep an answer."""
        answer = Answer(allow, timestamp(datetime.now(UTC)), by)
        await asyncio.to_thread(self._file.change, lambda lock: with_answer(lock, tool, caller, answer))


class MemoryRecords:
    """Discovery records for as long as the program runs."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    async def read(self) -> Mapping[str, Record]:
        """All records."""
        return self._records

    async def update(self, server: str, change: Callable[[Record | None], Record | None]) -> None:
        """Change one record."""
        changed = change(self._records.get(server))
        if changed is None:
            self._records.pop(server, None)
        else:
            self._records[server] = changed
