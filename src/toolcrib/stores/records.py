"""What discovery found and people answered, for a running Crib: in the lock file, or in memory."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from toolcrib.config.lock import Change, Lock, Record, StandingAnswer, timestamp, with_answer
from toolcrib.core.errors import ConfigError
from toolcrib.stores.lockfile import LockFile, stamp_of


class FileLedger:
    """The lock file, where people can read and edit it; file work happens beside the event loop, in the order it was
    asked for."""

    def __init__(self, file: LockFile) -> None:
        self._file = file
        self._turn = asyncio.Lock()

    async def lock(self) -> Lock:
        """All of it; a lock that cannot be read is an error, for with it every pin would be forgotten."""
        return await asyncio.to_thread(self._file.read)

    async def read(self) -> Mapping[str, Record]:
        """All records."""
        return (await self._read()).records

    async def _read(self) -> Lock:
        """As it is known, or read beside the event loop: a lock of thousands of tools takes a while."""
        return self._file.read() if self._file.is_read() else await asyncio.to_thread(self._file.read)

    async def update(self, server: str, change: Change) -> None:
        """Change one record; the last that was asked for is the last that is written."""
        async with self._turn:
            await asyncio.to_thread(self._file.update, server, change)

    async def find(self, tool: str, caller: str) -> bool | None:
        """What was answered; an unreadable lock holds no answer."""
        try:
            answer = (await self._read()).approvals.get(tool, {}).get(caller)
        except ConfigError:
            return None
        return None if answer is None else answer.allow

    async def write(self, tool: str, caller: str, allow: bool, by: str) -> None:
        """Keep an answer."""
        answer = StandingAnswer(allow, timestamp(datetime.now(UTC)), by)
        await asyncio.to_thread(self._file.change, lambda lock: with_answer(lock, tool, caller, answer))

    async def forget(self, tool: str, callers: Sequence[str] | None = None) -> list[str]:
        """Take answers back; where there are none the file is left alone."""
        gone: list[str] = []

        def take_back(lock: Lock) -> Lock:
            gone.extend(_wanted(lock, tool, callers))
            for caller in gone:
                lock = with_answer(lock, tool, caller, None)
            return lock

        if _wanted(self._file.read(), tool, callers):
            await asyncio.to_thread(self._file.change, take_back)
        return gone

    async def stamp(self) -> object:
        """What changes when the file does."""
        return stamp_of(self._file.path)


def _wanted(lock: Lock, tool: str, callers: Sequence[str] | None) -> list[str]:
    return sorted(name for name in lock.approvals.get(tool, {}) if callers is None or name in callers)


class MemoryRecords:
    """Discovery records for as long as the program runs."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    async def read(self) -> Mapping[str, Record]:
        """All records."""
        return self._records

    async def update(self, server: str, change: Change) -> None:
        """Change one record."""
        changed = change(self._records.get(server))
        if changed is None:
            self._records.pop(server, None)
        else:
            self._records[server] = changed
