"""The lock on disk, shared by every toolcrib process of a project: one server's record is changed at a time. And what
discovery found and people answered, for a running Crib: in that file, or in memory."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from toolcrib.config.lock import (
    Change,
    Lock,
    Record,
    StandingAnswer,
    read_lock,
    timestamp,
    with_answer,
    with_record,
    write_lock,
)
from toolcrib.config.parse import parse
from toolcrib.config.secrets import written_secrets
from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import Stamp, discard_leftovers, locked, read_text, replace_text, stamp_of


class LockFile:
    """A ``toolcrib.lock``. What cannot be written is kept in memory, and ``problem`` says why."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._kept: dict[str, Record | None] = {}
        self._stamp: Stamp | None = None
        self._lock = Lock()

    def read(self) -> Lock:
        """The records as they are now; a damaged file is an error. Read again only if the file has changed."""
        if not self.is_read():
            stamp = stamp_of(self.path)
            self._lock = self._stored()
            self._stamp = stamp
        return self._with_kept(self._lock)

    def is_read(self) -> bool:
        """Whether the file is the one read last, so that reading it costs nothing."""
        stamp = stamp_of(self.path)
        return stamp is not None and stamp == self._stamp

    def update(self, server: str, change: Change) -> Record | None:
        """Change one server's record, whatever other processes write meanwhile; the record that came of it.

        ``change`` is given the present record, and returns the new one, or ``None`` to remove it.
        """
        with ExitStack() as held:
            try:
                held.enter_context(locked(self.path))
                stored = self._stored()
            except ConfigError as error:
                return self._keep(server, change(self._known().records.get(server)), error)
            record = change(self._kept.get(server, stored.records.get(server)))
            try:
                self._store(with_record(self._with_kept(stored), server, record))
            except ConfigError as error:
                return self._keep(server, record, error)
            return record

    def change(self, change: Callable[[Lock], Lock]) -> Lock:
        """Change the lock as a whole, whatever other processes write meanwhile; what cannot be written is an error."""
        with locked(self.path):
            changed = change(self._with_kept(self._stored()))
            self._store(changed)
        return changed

    def _store(self, lock: Lock) -> None:
        """With it goes what could not be written before."""
        discard_leftovers(self.path)
        replace_text(self.path, write_lock(lock))
        self._kept.clear()
        self.problem = ""

    def _stored(self) -> Lock:
        text = read_text(self.path)
        return Lock() if text is None else read_lock(text, str(self.path))

    def _keep(self, server: str, record: Record | None, error: ConfigError) -> Record | None:
        self._kept[server] = record
        self.problem = f"{error} What was found is kept in memory until it can be written."
        return record

    def _known(self) -> Lock:
        try:
            return self.read()
        except ConfigError:
            return self._with_kept(Lock())

    def _with_kept(self, lock: Lock) -> Lock:
        for server, record in tuple(self._kept.items()):  # other threads keep, too
            lock = with_record(lock, server, record)
        return lock


def write_config(path: Path, before: str, after: str) -> None:
    """Put a new text in place; where it adds a secret, nobody else may read the file from then on."""
    if _secrets(after, path) - _secrets(before, path):
        replace_text(path, after, 0o600, keep=0o700)
    else:
        replace_text(path, after)


def _secrets(text: str, path: Path) -> set[str]:
    servers = parse(text, str(path)).servers if text.strip() else {}
    return {secret for entry in servers.values() for secret in written_secrets(entry.fields)}


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
