"""Discovery: when each server is asked for its tools; one request at a time per server."""

import asyncio
import math
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import cast

from toolcrib.catalog.flights import ChangePauses, Flight, Flights, Retries, follow_record
from toolcrib.catalog.pins import NO_TRUST, FieldTrust, app_definition, app_key, apps_of, is_alike, settle_app
from toolcrib.catalog.recorded import fitting_record, is_known, recorded_others, recorded_tools
from toolcrib.catalog.records import RunningElsewhere, Quarantine, RecordStore, ServerShelf, Storing, barred_words
from toolcrib.catalog.standing import failure_of
from toolcrib.config.lock import INSTRUCTIONS, Record, age_s, timestamp
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.core import events
from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import CallTimeout, InternalError, PermissionDenied, SourceUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.kinds import DiscoveryStatus, LinkState, PinMode
from toolcrib.core.names import join_name
from toolcrib.core.offers import OfferKind, offer_key, to_mcp
from toolcrib.core.requests import Result
from toolcrib.core.source import Listing, ServerSource
from toolcrib.core.tasks import TaskScope
from toolcrib.core.view import ServerAttempt

TTL_FLOOR_S = 1.0
TTL_CEILING_S = 24 * 3600.0
LONGEST_GRACE = 3
NEWS_PAUSE_S = 0.05
AGAIN_S = 2.0


class Refresher:
    """Keeps each server's listing fresh: one flight per server, own deadline, last good listing kept."""

    def __init__(
        self, records: RecordStore, emit: Emit, on_update: Callable[[str], None], pins: PinMode = PinMode.FIRST
    ) -> None:
        self.shelves: dict[str, ServerShelf] = {}
        self._store = Storing(records, emit)
        self.quarantine = Quarantine(pins, emit)
        self._emit = emit
        self._on_update = on_update
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskScope(self._task_failed)
        self._pauses: dict[str, asyncio.TimerHandle] = {}
        self._change_pauses = ChangePauses()
        self._retries = Retries(self._retry)
        self._closed = self._is_behind = False
        self._flights: Flights | None = None
        self._ask_elsewhere: Callable[[str], Awaitable[RunningElsewhere]] | None = None

    async def follow(
        self, found: Mapping[str, RunningElsewhere], ask: Callable[[str], Awaitable[RunningElsewhere]]
    ) -> None:
        """Have the toolcrib that runs for the same configuration ask these servers, and take over what it finds."""
        self._ask_elsewhere = ask
        records = await self._store.records.read()
        for name in found.keys() & self.shelves.keys():
            self._take_over(self.shelves[name], found[name], records.get(name))

    def _take_over(self, shelf: ServerShelf, found: RunningElsewhere, record: Record | None) -> None:
        """What the running toolcrib says counts, and what it has stored; when to ask again is its own affair."""
        stored = fitting_record(shelf.config, record)
        if follow_record(shelf, stored, self._adopt):
            self._on_update(shelf.config.name)
        elif stored.status is DiscoveryStatus.FAILED:
            shelf.record = shelf.stored = stored
        shelf.record = replace(shelf.record, last_discovery=found.asked or shelf.record.last_discovery)
        shelf.elsewhere, shelf.fresh_until = found, math.inf

    async def share(self, coordination: Coordination) -> None:
        """Ask servers together with other replicas, and follow what they find."""
        self._flights = Flights(coordination, self._news)
        self._store.on_stored = self._flights.tell
        await self._flights.open()

    def add(self, config: ServerConfig, source: ServerSource, records: Mapping[str, Record]) -> ServerShelf:
        """Add a server with what an earlier run found out about it; nothing is started.

        One that is in quarantine is known as it was accepted, so that people see what they are asked about.
        """
        found = records.get(config.name)
        record = fitting_record(config, found)
        shelf = ServerShelf(config, source, record)
        self.quarantine.bar(shelf, record, records)
        if shelf.barred and found is not None:
            record = shelf.record = shelf.stored = found
        if record.last_discovery and not config.is_own:  # a record does not hold all that an own source says of a tool
            self._adopt(shelf, record)
        self.shelves[config.name] = shelf
        source.on_change(lambda: self._changed_soon(config.name))
        source.on_trouble(shelf.settled.set)
        source.on_asking(lambda: self._note_asking(shelf))
        return shelf

    def _adopt(self, shelf: ServerShelf, record: Record) -> None:
        shelf.tools, shelf.others = recorded_tools(record), recorded_others(record)
        shelf.source.adopt(Listing(shelf.tools, era=record.era, others=shelf.others, asks=record.asks))
        shelf.is_known = is_known(record)
        shelf.held = self.quarantine.held(shelf)
        if record.status is DiscoveryStatus.SUCCESS:
            age = age_s(record, datetime.now(UTC))
            left_s = 0.0 if age is None else self._ttl_s(shelf, record.ttl_s) - age
            shelf.fresh_until = self._loop.time() + left_s

    def _note_asking(self, shelf: ServerShelf) -> None:
        """Remember that a server asks, so that its callers do not share it in later runs either."""
        shelf.record = replace(shelf.record, asks=True)
        self._store.store_soon(shelf, self.quarantine.comparison(shelf))

    def remove(self, name: str) -> ServerShelf | None:
        """Remove a server; the caller closes its source."""
        shelf = self.shelves.pop(name, None)
        self._change_pauses.forget(name)
        if shelf is not None:
            self._retries.note_success(shelf)
            if shelf.flight is not None:
                shelf.flight.cancel()
            self._emit(Event(events.REGISTRY_SERVER_REMOVED, fields={"server": name, "removed": len(shelf.tools)}))
        return shelf

    async def need(self, grace_s: float) -> None:
        """Ask the servers that must be asked; waits only for those never heard of, and for each of them only once."""
        unknown = self._start_where_needed()
        if unknown and grace_s > 0:
            await self._wait_while_they_come(unknown, grace_s)
            for shelf in unknown:
                shelf.settled.set()

    async def _wait_while_they_come(self, shelves: Iterable[ServerShelf], grace_s: float) -> None:
        """Wait for ``grace_s``; longer, up to three times that, as long as one server after the other comes in: then
        the machine is busy starting them, and those still missing are slow rather than stuck."""
        waiting = {asyncio.ensure_future(shelf.settled.wait()) for shelf in shelves}
        began = self._loop.time()
        until = began + grace_s
        try:
            while waiting:
                settled, waiting = await asyncio.wait(
                    waiting, timeout=max(0.0, until - self._loop.time()), return_when=asyncio.FIRST_COMPLETED
                )
                if not settled:
                    return
                until = min(began + LONGEST_GRACE * grace_s, max(until, self._loop.time() + grace_s / 2))
        finally:
            for wait in waiting:
                wait.cancel()

    def wake(self) -> None:
        """Start the discoveries that a listing needs, without waiting for them."""
        self._start_where_needed()

    def is_stale(self, shelf: ServerShelf) -> bool:
        """Whether its last discovery is too old, or there was none."""
        return shelf.fresh_until <= self._loop.time()

    def _start_where_needed(self) -> list[ServerShelf]:
        self._start_all([shelf for shelf in self.shelves.values() if self.is_stale(shelf)])
        return [shelf for shelf in self.shelves.values() if not shelf.is_known and not shelf.settled.is_set()]

    def _start_all(self, shelves: Iterable[ServerShelf], *, own: bool = False) -> None:
        """Begin the discoveries that are not under way; ``own`` ones do not make do with what another replica found."""
        due = [shelf for shelf in shelves if shelf.flight is None]
        if due:
            self._emit(Event(events.DISCOVERY_STARTED, fields={"servers": len(due)}))
        for shelf in due:
            self._retries.stop(shelf)
            shelf.flight = self._tasks.spawn(self._discover(shelf, own), f"discover-{shelf.config.name}")

    def start(self, shelf: ServerShelf, *, own: bool = False) -> asyncio.Task[Record]:
        """The discovery under way, begun if there is none."""
        self._start_all([shelf], own=own)
        return cast("asyncio.Task[Record]", shelf.flight)

    async def first_record(self, shelf: ServerShelf) -> Record:
        """What the first discovery of a server came to; a failure is not repeated before its pause is over."""
        if shelf.record.status is DiscoveryStatus.FAILED and shelf.fresh_until > self._loop.time():
            return shelf.record
        return await self._outcome(shelf, self.start(shelf))

    async def _outcome(self, shelf: ServerShelf, flight: asyncio.Task[Record]) -> Record:
        """What the discovery under way comes to; neither its end nor the caller's is the other's cancellation."""
        await asyncio.wait([flight])
        if flight.cancelled():
            raise SourceUnavailable(f"Server {shelf.config.name!r} was stopped while it was asked for its tools.")
        return flight.result()

    async def compare(self, shelf: ServerShelf) -> None:
        """See to it that what the server shows was compared with its pins in this run, as far as it can be asked."""
        record = shelf.record if self._is_compared(shelf) else await self._outcome(shelf, self.start(shelf, own=True))
        is_listed = record.status is DiscoveryStatus.SUCCESS  # maybe by another replica, of its own process
        if is_listed and not self._is_compared(shelf):
            await self._outcome(shelf, self.start(shelf, own=True))

    def _is_compared(self, shelf: ServerShelf) -> bool:
        return shelf.is_compared or self.quarantine.mode_of(shelf) == PinMode.OFF

    def renew_if_stale(self, shelf: ServerShelf) -> None:
        """Begin a discovery in the background if the last one is too old."""
        if shelf.fresh_until <= self._loop.time() and shelf.flight is None and not self._closed:
            self.start(shelf)

    async def refresh(self, names: Iterable[str]) -> dict[str, Record]:
        """Ask these servers now, whatever their freshness, and wait for all of them."""
        shelves = [self.shelves[name] for name in names]
        for shelf in shelves:
            shelf.source.forgive()
        self._start_all(shelves, own=True)
        found = await asyncio.gather(*(self._outcome(shelf, self.start(shelf)) for shelf in shelves))
        await self._store.flush()
        return {record.server: record for record in found}

    async def _discover(self, shelf: ServerShelf, own: bool) -> Record:
        if shelf.barred:
            self._landed(shelf)
            shelf.fresh_until = self._loop.time() + self._ttl_s(shelf, None)
            return replace(shelf.record, status=DiscoveryStatus.FAILED, error=barred_words(shelf))
        if shelf.elsewhere is not None and self._ask_elsewhere is not None:
            return await self._ask_there(shelf, self._ask_elsewhere)
        if own or shelf.config.is_own or self._flights is None:
            return await self._ask(shelf)
        take, ask = partial(self._take_fresh, shelf), partial(self._ask_and_store, shelf)
        flight = Flight(shelf.config.name, shelf.config.discovery_timeout_s, take, ask)
        try:
            return await self._flights.fly(flight)
        finally:
            self._landed(shelf)

    async def _ask_there(self, shelf: ServerShelf, ask: Callable[[str], Awaitable[RunningElsewhere]]) -> Record:
        """Have the running toolcrib ask; if that is not possible any more, do it here."""
        try:
            found = await ask(shelf.config.name)
        except ToolcribError:
            shelf.elsewhere = None
            return await self._ask(shelf)
        try:
            self._take_over(shelf, found, (await self._store.records.read()).get(shelf.config.name))
            return shelf.record
        finally:
            self._landed(shelf)

    async def _ask_and_store(self, shelf: ServerShelf) -> Record:
        """Discover and store, so that replicas waiting for our lease find the result."""
        record = await self._ask(shelf)
        await self._store.flush(shelf.config.name)
        return record

    def _landed(self, shelf: ServerShelf) -> None:
        if shelf.flight is asyncio.current_task():
            shelf.flight = None
        shelf.settled.set()

    def _retry(self, shelf: ServerShelf) -> None:
        if not self._closed and self.shelves.get(shelf.config.name) is shelf:
            self.start(shelf)

    def _put_off(self, limit: asyncio.Timeout, limit_s: float, is_installing: bool) -> None:
        """What a server's command takes to fetch what it runs does not count."""
        with suppress(RuntimeError):  # the limit is over already
            limit.reschedule(None if is_installing else self._loop.time() + limit_s)

    async def _ask(self, shelf: ServerShelf) -> Record:
        is_installing = shelf.source.status().state is LinkState.INSTALLING
        limit_s = shelf.config.discovery_timeout_s
        limit = asyncio.timeout(None if is_installing else limit_s)
        shelf.source.on_installing(partial(self._put_off, limit, limit_s))
        try:
            async with limit:
                listing = await shelf.source.list_offers()
        except TimeoutError:
            return await self._note_failure(shelf, _late(shelf))
        except ToolcribError as error:
            return await self._note_failure(shelf, error)
        except Exception as error:  # the edge of a source: its own fault costs only itself
            fault = InternalError(
                f"Server {shelf.config.name!r} could not be asked for its tools ({type(error).__name__})."
            )
            return await self._note_failure(shelf, fault)
        finally:
            self._landed(shelf)
        return await self._note_success(shelf, listing)

    async def _note_success(self, shelf: ServerShelf, listing: Listing) -> Record:
        self._retries.note_success(shelf)
        definitions = tuple(to_mcp(tool) for tool in listing.tools)
        others = {**apps_of(shelf.record), **{offer.key: to_mcp(offer) for offer in listing.others}}
        if listing.instructions:
            others[INSTRUCTIONS] = {"description": listing.instructions}
        by_key = {tool.name: shown for tool, shown in zip(listing.tools, definitions, strict=True)} | others
        is_same = (
            shelf.is_known
            and (shelf.tools, shelf.others) == (listing.tools, listing.others)
            and is_alike((shelf.record.tools, shelf.record.others), (definitions, others))
        )
        shelf.fresh_until, shelf.pages = self._loop.time() + self._ttl_s(shelf, listing.ttl_s), listing.pages
        now = timestamp(datetime.now(UTC))
        shelf.since = shelf.since if shelf.record.status is DiscoveryStatus.SUCCESS and shelf.since else now
        shelf.attempts.append(ServerAttempt(now, "", len(listing.tools)))
        shelf.record = Record(
            shelf.config.name,
            DiscoveryStatus.SUCCESS,
            definitions,
            now,
            config_hash=config_hash(shelf.config),
            era=listing.era,
            ttl_s=listing.ttl_s,
            problems=listing.problems,
            pins=self.quarantine.settle(shelf, by_key, not is_same),
            entry=shelf.record.entry or shelf.config.entry,
            others=others,
            features=listing.features,
            asks=listing.asks or shelf.record.asks,
        )
        if not is_same:  # else what was made of the old ones need not be made again
            shelf.tools, shelf.others, shelf.is_known = listing.tools, listing.others, True
        is_new = self.quarantine.hold(shelf) or not is_same
        self._emit(
            Event(events.DISCOVERY_SERVER_SUCCESS, fields={"server": shelf.config.name, "tools": len(listing.tools)})
        )
        if is_new:
            self._on_update(shelf.config.name)
        if is_new or shelf.stored.era != listing.era or self._store.is_due(shelf.stored):
            self._store.store_soon(shelf, self.quarantine.comparison(shelf))
        return shelf.record

    async def accept(self, server: str, names: Iterable[str], trust: FieldTrust = NO_TRUST) -> None:
        """Accept these tools as they are now; returns when that is stored."""
        await self.quarantine.accept(self.shelves[server], list(names), self._store.records, trust)
        self._store.tell(server)
        self._on_update(server)

    def settle_app(self, shelf: ServerShelf, uri: str, result: Result) -> None:
        """Compare an app that was read with its pin; ``PermissionDenied`` if it is not what was accepted."""
        contents, how = result.mcp.get("contents"), self.quarantine.comparison(shelf)
        if how.mode is PinMode.OFF or not isinstance(contents, list):
            return
        before, name = shelf.record, join_name(shelf.config.name, uri)
        record = settle_app(before, uri, app_definition(contents), how)
        if record is None:
            raise PermissionDenied(f"{name} is not passed on: its server has shown too many apps to pin them all.")
        if record != before:
            shelf.record = record
            if self.quarantine.hold(shelf):
                self._on_update(shelf.config.name)
            self._store.store_soon(shelf, how)
        is_listed = (key := offer_key(OfferKind.RESOURCE, uri)) in shelf.record.others
        if reason := shelf.held.get(key if is_listed else app_key(uri)):
            named = shlex.quote(offer_key(OfferKind.RESOURCE, name)) if is_listed else shelf.config.name
            hint = f"A person must look at it (`toolcrib diff {named}`) and accept it (`toolcrib approve {named}`)."
            raise PermissionDenied(f"The app {name} is in quarantine: {reason}.", hint=hint)

    async def known_records(self) -> dict[str, Record]:
        """What is stored of all servers; where something is still on its way into the store, what is known here."""
        await self._store.flush()
        stored = await self._store.records.read()
        ours = {name: shelf.record for name, shelf in self.shelves.items()}
        entries = {name: record.entry or ours[name].entry for name, record in stored.items() if name in ours}
        return ours | {name: replace(record, entry=entries.get(name, record.entry)) for name, record in stored.items()}

    def look_anew(self, pins: PinMode) -> None:
        """Compare all tools with their pins again after the pin mode changed."""
        self.quarantine.mode = pins
        for shelf in self.shelves.values():
            if pins == PinMode.OFF:
                self.quarantine.unbar(shelf)
            self.quarantine.hold(shelf)

    async def reload_pins(self) -> None:
        """Take over what another process accepted."""
        records = await self._store.records.read()
        for name, shelf in self.shelves.items():
            if self.quarantine.take_over(shelf, records.get(name)):
                self._on_update(name)

    # What other replicas find

    def _news(self) -> None:
        """Another replica found or accepted something; bursts are read once."""
        if not self._closed and not self._is_behind:
            self._is_behind = True
            self._tasks.spawn(self._catch_up_soon(), "catch-up")

    async def _catch_up_soon(self) -> None:
        await asyncio.sleep(NEWS_PAUSE_S)
        self._is_behind = False
        try:
            await self.catch_up()
        except ToolcribError:  # the news is not lost with the store
            self._loop.call_later(AGAIN_S, self._news)

    async def catch_up(self) -> None:
        """Take over what other replicas found, and what people accepted there."""
        records = await self._store.records.read()
        for name, shelf in list(self.shelves.items()):
            stored = records.get(name)
            lifted = bool(shelf.barred) and self.quarantine.take_over(shelf, stored)
            if shelf.barred:
                continue
            if follow_record(shelf, stored, self._adopt) or self.quarantine.take_over(shelf, stored) or lifted:
                self._on_update(name)

    async def _take_fresh(self, shelf: ServerShelf) -> Record | None:
        """What another replica found lately, if it did."""
        records = await self._store.read_together()
        if follow_record(shelf, records.get(shelf.config.name), self._adopt):
            self._on_update(shelf.config.name)
        return None if self.is_stale(shelf) else shelf.record

    async def _note_failure(self, shelf: ServerShelf, error: ToolcribError) -> Record:
        """Keep the last good listing; the failure stands beside it."""
        pause_s = min(self._ttl_s(shelf, None), 30.0)
        shelf.fresh_until, now = self._loop.time() + pause_s, timestamp(datetime.now(UTC))
        shelf.since = shelf.since if shelf.record.status is DiscoveryStatus.FAILED and shelf.since else now
        shelf.record = replace(
            shelf.record,
            status=DiscoveryStatus.FAILED,
            error=str(error),
            failure=(failure := failure_of(error)),
            last_discovery=now,
            config_hash=config_hash(shelf.config),
            entry=shelf.record.entry or shelf.config.entry,
        )
        shelf.attempts.append(ServerAttempt(now, failure.cause))
        if not self._closed:
            self._retries.note_failure(shelf, failure.kind)
        self._emit(Event(events.DISCOVERY_SERVER_FAILED, "warning", {"server": shelf.config.name, "error": str(error)}))
        self._on_update(shelf.config.name)
        self._store.store_soon(shelf, self.quarantine.comparison(shelf))
        return shelf.record

    def _ttl_s(self, shelf: ServerShelf, own_s: float | None) -> float:
        return max(TTL_FLOOR_S, shelf.config.ttl_s if own_s is None else min(own_s, TTL_CEILING_S))

    def _changed_soon(self, name: str) -> None:
        """The server says its tools changed; bursts are answered once."""
        if name in self.shelves and name not in self._pauses and not self._closed:
            pause_s = self._change_pauses.next_s(name, self._loop.time())
            self._pauses[name] = self._loop.call_later(pause_s, self._changed, name)

    def _changed(self, name: str) -> None:
        self._pauses.pop(name, None)
        shelf = self.shelves.get(name)
        if shelf is None:
            return
        if shelf.flight is not None:
            self._changed_soon(name)
        else:
            self.start(shelf, own=True)

    async def close(self) -> None:
        """End all discoveries; what they found is stored."""
        self._closed = True
        self._retries.close()
        for pause in self._pauses.values():
            pause.cancel()
        await self._tasks.close()
        await self._store.close()
        if self._flights is not None:
            await self._flights.close()

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._emit(Event("discovery.task.failed", "error", {"task": name, "error": type(error).__name__}))


def _late(shelf: ServerShelf) -> CallTimeout:
    """A discovery that took too long, with what the source itself knows about the reason."""
    status = shelf.source.status()
    limit_s = shelf.config.discovery_timeout_s
    return CallTimeout(
        f"Server {shelf.config.name!r} did not list its tools within {limit_s:g} s.",
        hint=status.error,
        details=status.details,
    )
