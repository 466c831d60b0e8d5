"""Discovery records on their way into the store and out of it; nobody who waits for tools waits for a file."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from toolcrib.catalog.pins import Comparison, join_pins
from toolcrib.catalog.shelf import RecordStore, Shelf
from toolcrib.config.lock import Record, age_s
from toolcrib.core.errors import ConfigError, StoreUnavailable
from toolcrib.core.events import Emit, Event

RESTORE_AFTER_S = 60.0
AGAIN_S = 2.0


class Storing:
    """The writes under way."""

    def __init__(self, records: RecordStore, emit: Emit) -> None:
        self.records = records
        self._emit = emit
        self._writes: dict[asyncio.Task[None], str] = {}
        self._newest: dict[str, Record] = {}
        self._written: dict[str, Record] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._later: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._reading: asyncio.Task[Mapping[str, Record]] | None = None
        self.on_stored: Callable[[str], None] | None = None
        """Told of each server whose record others can read now; then every record is stored, for they wait for it."""

    def is_due(self, stored: Record) -> bool:
        """Whether a stored success is worth replacing by a newer one that says the same."""
        age = age_s(stored, datetime.now(UTC)) if stored.status == "success" else None
        return self.on_stored is not None or age is None or age >= RESTORE_AFTER_S

    def store_soon(self, shelf: Shelf, how: Comparison) -> None:
        """Have the record written."""
        shelf.stored = shelf.record
        write = asyncio.create_task(self._store(shelf.record, how), name=f"store-{shelf.config.name}")
        self._writes[write] = shelf.config.name
        write.add_done_callback(self._writes.pop)

    async def _store(self, record: Record, how: Comparison) -> None:
        """Have the newest record of a server written: of many that came while one was written, only the last is.

        While the shared database is away it waits for it to come back.
        """
        self._newest[record.server] = record
        async with self._turns.setdefault(record.server, asyncio.Lock()):
            record = self._newest[record.server]
            is_done = record is self._written.get(record.server) or await self._try(record, how)
            if is_done:
                self._written[record.server] = record
        if not is_done:
            again = asyncio.create_task(self._store_later(record, how), name=f"store-later-{record.server}")
            self._later.add(again)
            again.add_done_callback(self._later.discard)

    async def _store_later(self, record: Record, how: Comparison) -> None:
        is_done = False
        while not is_done and not self._closing.is_set() and self._newest.get(record.server) is record:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), AGAIN_S)
            is_done = await self._try(record, how)

    async def _try(self, record: Record, how: Comparison) -> bool:
        """Whether nothing is left to be tried."""
        try:
            await self.records.update(record.server, lambda stored: join_pins(stored, record, how))
        except (ConfigError, StoreUnavailable) as error:
            self._emit(Event("lock.not.written", "warning", {"server": record.server, "error": str(error)}))
            return isinstance(error, ConfigError)
        self.tell(record.server)
        return True

    def tell(self, server: str) -> None:
        """Say that the store has something new of a server."""
        if self.on_stored is not None:
            self.on_stored(server)

    async def flush(self, server: str = "") -> None:
        """Wait until all that was found, or all of one server, is stored."""
        await asyncio.gather(*(write for write, name in self._writes.items() if server in ("", name)))

    async def close(self) -> None:
        """Write what waits, as far as that can be done now."""
        await self.flush()
        self._closing.set()
        await asyncio.gather(*self._later)

    async def read_together(self) -> Mapping[str, Record]:
        """All records; many who want them at once read them once."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._reading)

    async def _read(self) -> Mapping[str, Record]:
        return await self.records.read()
