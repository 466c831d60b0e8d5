"""What is known of each server: kept, stored, and held in quarantine when it changed."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from toolcrib.catalog.pins import (
    NO_TRUST,
    Comparison,
    Definition,
    FieldTrust,
    accept,
    comparison,
    held_tools,
    join_pins,
    settle,
    why_barred,
)
from toolcrib.config.lock import Pin, Record, age_s, timestamp
from toolcrib.config.model import ServerConfig
from toolcrib.core import events
from toolcrib.core.errors import ConfigError, StoreUnavailable
from toolcrib.core.events import Emit, Event
from toolcrib.core.kinds import DiscoveryStatus, HoldReason, PinMode
from toolcrib.core.offers import Offer, OfferKind, Tool
from toolcrib.core.source import ListPage, ServerSource
from toolcrib.core.view import ServerAttempt, Standing


class RecordStore(Protocol):
    """Where discovery records are kept."""

    async def read(self) -> Mapping[str, Record]:
        """All records."""

    async def update(self, server: str, change: Callable[[Record | None], Record | None]) -> None:
        """Change one record in one step; what others write meanwhile is not lost."""


ATTEMPTS_KEPT = 20


class RunningElsewhere(NamedTuple):
    """What a running toolcrib says of a server."""

    standing: Standing
    asked: str
    """When it last asked the server for its tools; empty for never."""


@dataclass(slots=True)
class ServerShelf:
    """What is known of one server."""

    config: ServerConfig
    source: ServerSource
    record: Record
    tools: tuple[Tool, ...] = ()
    others: tuple[Offer, ...] = ()
    """Its resources, templates and prompts."""
    pages: Mapping[OfferKind, tuple[ListPage, ...]] = field(default_factory=dict)
    """How it lists each kind itself, if it was asked in this run."""
    fresh_until: float = 0.0
    is_known: bool = False
    """Whether ``tools`` and ``others`` come from a discovery of this very configuration."""
    stored: Record = field(init=False)
    """What the record store holds of it."""
    held: Mapping[str, HoldReason] = field(default_factory=dict)
    """What of it is in quarantine, by key, and why."""
    barred: HoldReason | None = None
    """Why the server itself is in quarantine: it is not connected to, so that it gets no token."""
    is_compared: bool = False
    """Whether its tools were compared with their pins in this run."""
    flight: asyncio.Task[Record] | None = None
    since: str = ""
    """When its discoveries began to end as the last one did; empty before the first of this run."""
    retry_at: float | None = None
    """When it is asked again by itself, by the wall clock, if it is."""
    attempts: deque[ServerAttempt] = field(default_factory=lambda: deque(maxlen=ATTEMPTS_KEPT))
    """The last attempts to ask it in this run, the newest at the end."""
    elsewhere: RunningElsewhere | None = None
    """How it stands in the toolcrib that runs for the same configuration, where that one is asked instead of it."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once listings need not wait for it: its first discovery ended, its first attempt failed, or one waited."""

    def __post_init__(self) -> None:
        self.stored = self.record

    @property
    def offers(self) -> tuple[Offer, ...]:
        """All that it offers; the tools themselves where there is nothing else."""
        return (*self.tools, *self.others) if self.others else self.tools

    @property
    def status(self) -> DiscoveryStatus:
        """What came of asking it, or that it is being asked."""
        return DiscoveryStatus.DISCOVERING if self.flight is not None else self.record.status


def barred_words(shelf: ServerShelf) -> str:
    """What is wrong with a server that is in quarantine, and what to do."""
    name = shelf.config.name
    return (
        f"Server {name!r} is in quarantine and is sent nothing: {shelf.barred}. "
        f"Look at its entry in the platform's list, then accept it with `toolcrib approve {name}`."
    )


RESTORE_AFTER_S = 60.0
AGAIN_S = 2.0


class Storing:
    """Writes discovery records in the background, the newest per server."""

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
        age = age_s(stored, datetime.now(UTC)) if stored.status is DiscoveryStatus.SUCCESS else None
        return self.on_stored is not None or age is None or age >= RESTORE_AFTER_S

    def store_soon(self, shelf: ServerShelf, how: Comparison) -> None:
        """Have the record written, unless nothing of it would be of use in another run."""
        if shelf.config.is_own and shelf.config.pins == PinMode.OFF:
            return
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
        """Write once; false if it should be tried again."""
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


class Quarantine:
    """Compares what servers show with what was accepted."""

    def __init__(self, mode: PinMode, emit: Emit) -> None:
        self.mode = mode
        self._emit = emit

    def comparison(self, shelf: ServerShelf) -> Comparison:
        """What the tools of a server are compared with now."""
        return comparison(shelf.config, self.mode_of(shelf), timestamp(datetime.now(UTC)))

    def mode_of(self, shelf: ServerShelf) -> PinMode:
        """Whether the tools of a server are pinned."""
        return shelf.config.pins or self.mode

    def settle(self, shelf: ServerShelf, offers: Mapping[str, Definition], is_new: bool) -> Mapping[str, Pin]:
        """The pins after a discovery; hashing is not for nothing, so what is as it was is not hashed again.

        The first discovery of a run looks at everything: the lock is a file, and files get edited and merged.
        """
        first, shelf.is_compared = not shelf.is_compared, True
        if first or is_new or not offers.keys() <= shelf.record.pins.keys():
            pins = settle(shelf.record, offers, self.comparison(shelf))
            self._tell_disorder(shelf, pins)
            return pins
        return shelf.record.pins

    def _tell_disorder(self, shelf: ServerShelf, pins: Mapping[str, Pin]) -> None:
        for name, known in shelf.record.pins.items():
            fields = sorted({*pins[name].disorder} - {*known.disorder})
            if fields:
                told = {"server": shelf.config.name, "tool": name, "fields": fields}
                self._emit(Event(events.TOOL_DISORDERED, fields=told))

    def bar(self, shelf: ServerShelf, record: Record, others: Mapping[str, Record]) -> None:
        """Find out whether the server itself is in quarantine."""
        shelf.barred = None if self.mode == PinMode.OFF else why_barred(shelf.config, record, others)

    def held(self, shelf: ServerShelf) -> dict[str, HoldReason]:
        """Its tools that are in quarantine now; all of them if the server itself is."""
        held = held_tools(shelf.record, self.comparison(shelf))
        if shelf.barred is None:
            return held
        return {offer.key: held.get(offer.key, shelf.barred) for offer in shelf.offers}

    def hold(self, shelf: ServerShelf) -> bool:
        """Find out what is in quarantine now, and tell of what was not before; whether anything is different."""
        held = self.held(shelf)
        new = sorted(held.keys() - shelf.held.keys())
        too_many = [name for name in new if held[name] is HoldReason.TOO_MANY]
        for name in new if not too_many else [*(set(new) - set(too_many)), too_many[0]]:  # the log is not filled, too
            fields = {"server": shelf.config.name, "tool": name, "reason": held[name]}
            self._emit(Event(events.TOOL_HELD, "warning", fields))
        before, shelf.held = shelf.held, held
        return before != held

    async def accept(
        self, shelf: ServerShelf, names: Sequence[str], records: RecordStore, trust: FieldTrust = NO_TRUST
    ) -> None:
        """Accept these tools, and their server, as they are now; returns when that is stored."""
        how, ours, entry = self.comparison(shelf), shelf.record, shelf.config.entry or shelf.record.entry

        def accepted_of(stored: Record | None) -> Record:
            return replace(accept(join_pins(stored, ours, how), names, how, trust), entry=entry)

        await records.update(ours.server, accepted_of)
        accepted = shelf.stored = replace(accept(ours, names, how, trust), entry=entry)
        self.unbar(shelf)
        # Meanwhile a discovery may have found something else: what was accepted is not what there is now.
        shelf.record = join_pins(accepted, shelf.record, how)
        shelf.held = held_tools(shelf.record, how)

    @staticmethod
    def unbar(shelf: ServerShelf) -> None:
        """Lift the quarantine of a server, so that it is discovered at the next need."""
        if shelf.barred:
            shelf.barred, shelf.fresh_until, shelf.is_compared = None, 0.0, False
            shelf.settled.clear()  # the next listing waits for it as for any server nobody has heard of

    def take_over(self, shelf: ServerShelf, stored: Record | None) -> bool:
        """Apply what another process accepted; whether that changed anything."""
        joined = join_pins(stored, shelf.record, self.comparison(shelf))
        is_open = bool(shelf.barred) and joined.entry == shelf.config.entry
        if joined.pins == shelf.record.pins and not is_open:
            return False
        shelf.record = joined
        if is_open:
            self.unbar(shelf)
        self.hold(shelf)
        return True
