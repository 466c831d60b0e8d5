"""The servers of a Crib while it runs, and what a Crib is made of."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolcrib.calls.approvals import Approvals
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.layers.breaker import Breakers
from toolcrib.calls.layers.keep import ResultKeeper
from toolcrib.calls.layers.sign_in import SignInWatch
from toolcrib.calls.live import Live
from toolcrib.calls.metrics import Metrics
from toolcrib.catalog.current import Current
from toolcrib.catalog.disorder import UNTRUSTED, has_field
from toolcrib.catalog.entries import server_health
from toolcrib.catalog.merge import ROOM, Room
from toolcrib.catalog.pins import FieldTrust, apps_of, by_key
from toolcrib.catalog.records import RecordStore, ServerShelf
from toolcrib.catalog.refresh import Refresher
from toolcrib.catalog.supply import Supply
from toolcrib.config.lock import LockStore, Pin, Record
from toolcrib.config.model import Config, ServerConfig, is_same_connection
from toolcrib.config.sections import SecurityConfig
from toolcrib.core import events
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.audit import Audit, AuditEntry, NoAudit
from toolcrib.core.clocks import elapsed
from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import InternalError, InvalidArguments, InvalidName, UnknownServer, UnknownTool, did_you_mean
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.names import join_name
from toolcrib.core.seal import Seal
from toolcrib.core.source import HandedLinks, LocalSource, ServerSource
from toolcrib.core.view import ServerHealth
from toolcrib.crib.attached import AttachedSource
from toolcrib.crib.replicas import Fleet
from toolcrib.crib.tasks import TaskSettings
from toolcrib.isolate.helpers import Helpers


@dataclass(frozen=True, slots=True)
class Parts:
    """What a Crib is made of: one of each."""

    native: LocalSource
    make_source: Callable[[ServerConfig], ServerSource]
    records: RecordStore
    desk: Approvals
    inbox: Inbox
    emit: Emit = drop
    log: Audit = field(default_factory=NoAudit)
    metrics: Metrics = field(default_factory=Metrics)
    breakers: Breakers = field(default_factory=lambda: Breakers(time.monotonic))
    results: ResultKeeper | None = None
    """Where results are kept that are too large for a model."""
    live: Live | None = None
    """The running calls, for the live view."""
    coordination: Coordination | None = None
    """The other replicas, where there are any: limits hold over all of them."""
    links: HandedLinks = field(default_factory=HandedLinks)
    """The resources that results spoke of."""
    helpers: Helpers = field(default_factory=Helpers)
    """Processes for what would hold up the event loop."""
    security: SecurityConfig = field(default_factory=SecurityConfig)
    tasks: TaskSettings = field(default_factory=TaskSettings)
    """When a call becomes a task."""
    list_grace_s: float = 5.0
    prefix: bool = True
    """Whether tools are named with their server."""
    room: Room = ROOM
    ledger: LockStore | None = None
    """Where records and answers outlive the process, for those who look after them."""
    supply: Supply | None = None
    """Servers that are found elsewhere, beside those that are written down."""
    fleet: Fleet | None = None
    """The replicas that this one shares its state with."""
    attached: Mapping[str, AttachedSource] = field(default_factory=dict)
    """The program's own sources, by name."""
    close_last: Callable[[], Any] | None = None
    sign_ins: SignInWatch | None = None
    """Who signs in at servers; without it nobody is asked to."""
    seal: Seal = field(default_factory=lambda: Seal(elapsed))
    """For what stateless clients carry from one request to the next."""


def room_of(config: Config) -> Room:
    """How much the catalogue may hold."""
    return Room(config.capacity, config.catalog_memory)


class Servers:
    """Which there are, enabled or not; when the tools of any may have changed, the catalog is merged anew."""

    def __init__(self, parts: Parts, current: Current) -> None:
        self._parts, self._current = parts, current
        self.supply = parts.supply
        """Where servers are found that are not written down, if anywhere."""
        self._disabled: dict[str, ServerConfig] = {}
        self._written: Mapping[str, ServerConfig] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._turn = asyncio.Lock()
        self._refresher: Refresher | None = None
        self._closed = False

    async def open(self, servers: Iterable[ServerConfig]) -> None:
        """Know the servers, with what earlier runs found out about them; none is started."""
        pins = self._current.security.pins
        self._refresher = Refresher(self._parts.records, self._tell, self._merge, pins)
        self._parts.native.on_change(self._merge)
        records = await self._parts.records.read()
        self._written = self._with_attached({server.name: server for server in servers})
        for server in self._written.values():
            self._put(server, records)
        await self._parts.native.list_offers()
        self._current.merge(self.shelves.values(), first=True)
        if self.supply is not None:
            self.supply.open(self._follow, self._parts.emit)

    def _with_attached(self, written: Mapping[str, ServerConfig]) -> dict[str, ServerConfig]:
        """The program's own sources stay, whatever is written down; their names are taken."""
        attached = self._parts.attached
        for name in attached.keys() & written.keys():
            self._parts.emit(Event("server.name.taken", "warning", {"server": name}))
        return {**written, **{name: source.config for name, source in attached.items()}}

    def _merge(self, server: str = "") -> None:
        if not self._closed:
            shelf = self.shelves.get(server)
            self._current.merge(self.shelves.values(), trace_id="" if shelf is None else shelf.trace_id)

    def _tell(self, event: Event) -> None:
        """Pass on what discovery tells; a tool that goes into quarantine is a decision, to be written down."""
        self._parts.emit(event)
        if event.name == events.TOOL_HELD:
            server, tool = event.fields["server"], event.fields["tool"]
            details = {"reason": event.fields["reason"]}
            kind, _, own = tool.partition(" ")
            named = f"{kind} {join_name(server, own)}" if own else join_name(server, tool)
            self._parts.log.note(AuditEntry("pin", named, server, decision="held", details=details))

    def _put(self, server: ServerConfig, records: Mapping[str, Record]) -> None:
        if server.enabled:
            source = self._parts.attached.get(server.name) or self._parts.make_source(server)
            self._note_barred(self.fresh.add(server, source, records))
        else:
            self._disabled[server.name] = server

    def _note_barred(self, shelf: ServerShelf) -> None:
        """That a server goes into quarantine is a decision, too."""
        if shelf.barred:
            name, details = shelf.config.name, {"reason": shelf.barred}
            self._parts.emit(Event(events.SERVER_HELD, "warning", {"server": name} | details))
            self._parts.log.note(AuditEntry("pin", "", name, decision="held", details=details))

    @property
    def is_open(self) -> bool:
        """Whether it was opened, and not closed since."""
        return self._refresher is not None and not self._closed

    @property
    def fresh(self) -> Refresher:
        """What keeps their listings fresh."""
        if self._refresher is None or self._closed:
            raise not_open()
        return self._refresher

    @property
    def shelves(self) -> Mapping[str, ServerShelf]:
        """The enabled ones and what is known of each."""
        return self.fresh.shelves

    @property
    def disabled(self) -> Mapping[str, ServerConfig]:
        """Those that are configured but switched off."""
        return self._disabled

    def _need(self, name: str) -> ServerShelf:
        if not isinstance(name, str):
            raise InvalidName(f"A server is named by a text; this is none: {name!r:.60}.")
        shelf = self.shelves.get(name)
        if shelf is None:
            raise UnknownServer(name, known=list(self.shelves))
        return shelf

    def health(self) -> dict[str, ServerHealth]:
        """How each enabled one is doing."""
        breakers = self._parts.breakers
        return {name: server_health(shelf, *breakers.standing(name)) for name, shelf in sorted(self.shelves.items())}

    # Asking them

    async def need(self, grace_s: float) -> None:
        """Ask those that must be asked; waits at most the grace."""
        await self._parts.native.list_offers()
        await self.find(grace_s)
        await self.fresh.need(grace_s)

    async def find(self, grace_s: float | None = None) -> None:
        """Ask for those that are found elsewhere, if that is due; the first to need them waits for the grace."""
        if self.supply is not None:
            await self.supply.need(self._parts.list_grace_s if grace_s is None else grace_s)

    def wake(self) -> None:
        """A client connected: start refreshing stale listings."""
        if self.supply is not None:
            self.supply.wake()
        self.fresh.wake()

    async def refresh(self, *names: str) -> dict[str, Record]:
        """Ask these (all when none is named) for their tools now."""
        if not names and self.supply is not None:
            await self.supply.renew()
        for name in names:
            self._need(name)
        for name in names or self.shelves:
            self._parts.breakers.forgive(name)
        return await self.fresh.refresh(names or list(self.shelves))

    async def restart(self, name: str) -> Record:
        """Stop one and ask it for its tools anew; calls under way on it end. An own source is only asked anew."""
        shelf = self._need(name)
        if shelf.config.is_own:
            return (await self.refresh(name))[name]
        records = await self.fresh.known_records()
        self.fresh.remove(name)
        self._put(shelf.config, records)
        self._merge()
        await shelf.source.close()
        return (await self.refresh(name))[name]

    async def approve(
        self, *names: str, by: Caller = LOCAL_USER, still: Callable[[], None] = lambda: None
    ) -> list[str]:
        """Take offers (or, by the names of servers, all that is held of them) out of quarantine; what was taken out.

        ``still`` is asked in the last moment, and raises if they are no longer what was looked at.
        """
        catalog = self._current.catalog
        routes = {**catalog.routes, **catalog.others}
        held = {key: route for key, route in routes.items() if route.held}
        keys = {name: found.reach.key for name in names if (found := catalog.named(name)) is not None}
        for name in names:
            if name not in keys and name not in self.shelves:
                raise UnknownTool(name, known=list(held) or list(routes))
        wanted = [route for key, route in held.items() if key in keys.values() or route.server in names]
        barred = [name for name in names if name in self.shelves and self.shelves[name].barred]
        apps = {name: self._held_apps(name) for name in names}  # those that no list contains have no other name
        unlisted = [name for name in names if apps[name]]
        for server in sorted({*barred, *unlisted, *(route.server for route in wanted)}):
            accepted = [route for route in wanted if route.server == server]
            for tool in [route.reach.key for route in accepted] or [""]:
                await self._parts.log.commit(AuditEntry("pin", tool, server, by.id, by.kind, decision="accepted"))
            still()
            await self.fresh.accept(server, [*(route.offer.key for route in accepted), *apps.get(server, ())])
        read = [join_name(name, key.partition(" ")[2]) for name in unlisted for key in apps[name]]
        return [*barred, *read, *(route.reach.key for route in wanted)]

    def _held_apps(self, server: str) -> list[str]:
        shelf = self.shelves.get(server)
        return [] if shelf is None else [key for key in apps_of(shelf.record) if key in shelf.held]

    async def trust(
        self, name: str, trust: FieldTrust, *, by: Caller = LOCAL_USER, still: Callable[[], None] = lambda: None
    ) -> Pin:
        """Accept an offer as it is now, and let changes of some of its fields count no more, or again; its pin."""
        route = self._current.catalog.named(name)
        if route is None or route.server not in self.shelves:
            raise UnknownTool(name, known=list(self._current.catalog.routes))
        shelf, key = self.shelves[route.server], route.offer.key
        _check_fields(shelf.record, key, trust)
        said = {"trusted": list(trust.more), "distrusted": list(trust.fewer)}
        details = {word: fields for word, fields in said.items() if fields}
        entry = AuditEntry("pin", route.reach.key, route.server, by.id, by.kind, decision="accepted", details=details)
        await self._parts.log.commit(entry)
        still()
        await self.fresh.accept(route.server, [key], trust)
        return shelf.record.pins[key]

    # Other servers than before

    def on_change(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Have ``listener`` told of those that are created, changed and removed, until what is returned is called."""
        self._listeners = [*self._listeners, listener]

        def forget() -> None:
            self._listeners = [other for other in self._listeners if other != listener]

        return forget

    async def apply(self, written: Mapping[str, ServerConfig], security: SecurityConfig | None = None) -> list[str]:
        """Make the running servers those of a new configuration; the names of what changed."""
        if security is not None and security != self._current.security:
            self._current.security = security
            self._parts.desk.settings = replace(self._parts.desk.settings, timeout_s=security.ask_timeout_s)
            self.fresh.look_anew(security.pins)
            self._merge()
        self._written = self._with_attached(written)
        return await self._follow()

    async def _follow(self) -> list[str]:
        """Make the running servers those that are written down and those that are found beside them."""
        async with self._turn:
            servers = self._written if self.supply is None else self.supply.beside(self._written)
            known = {name: shelf.config for name, shelf in self.shelves.items()} | self._disabled
            changed = sorted(name for name in {*known, *servers} if known.get(name) != servers.get(name))
            if not changed:
                return []
            records = await self.fresh.known_records()
            replaced = [self._replace(name, servers.get(name), records) for name in changed]
            self._merge()
            for name in changed:
                self._announce(name, was_there=name in known, is_there=name in servers)
            await asyncio.gather(*(shelf.source.close() for shelf in replaced if shelf is not None))
            return changed

    def _replace(self, name: str, server: ServerConfig | None, records: Mapping[str, Record]) -> ServerShelf | None:
        """Put the new server in the old one's place; the old one is the caller's to close.

        A change that does not concern the connection leaves it, and the calls under way on it, alone.
        """
        self._disabled.pop(name, None)
        shelf = self.shelves.get(name)
        if shelf is not None and server is not None and is_same_connection(shelf.config, server):
            shelf.config = server
            return None
        self.fresh.remove(name)
        self._parts.breakers.forgive(name)
        if server is not None:
            self._put(server, records)
        return shelf

    def _announce(self, name: str, *, was_there: bool, is_there: bool) -> None:
        what = events.SERVER_CHANGED if was_there else events.SERVER_CREATED
        event = Event(what if is_there else events.SERVER_REMOVED, fields={"server": name})
        for tell in (self._parts.emit, *self._listeners):
            tell(event)

    async def stop(self) -> None:
        """Stop all discoveries; their results are stored."""
        refresher = self.fresh
        self._closed = True
        if self.supply is not None:
            await self.supply.close()
        await refresher.close()

    async def close(self) -> None:
        """End them all."""
        if self._refresher is not None:
            sources = [shelf.source.close() for shelf in self._refresher.shelves.values()]
            await asyncio.gather(*sources, return_exceptions=True)


def _check_fields(record: Record, key: str, trust: FieldTrust) -> None:
    """``InvalidArguments`` where there is no such field to trust, or none that was trusted."""
    shown, pin = by_key(record).get(key, {}), record.pins.get(key)
    definitions = [shown] if pin is None or pin.definition is None else [shown, pin.definition]
    for place in trust.more:
        if place in UNTRUSTED or not any(has_field(one, place) for one in definitions):
            hint = "Write it as `toolcrib diff --json` names it, say inputSchema.properties.fields.default."
            raise InvalidArguments(f"There is no field {place!r} that could be trusted.", hint=hint)
    trusted = () if pin is None else pin.trusted
    for place in trust.fewer:
        if place not in trusted:
            raise InvalidArguments(f"{place!r} is not trusted.", hint=did_you_mean(place, trusted))


def not_open() -> InternalError:
    """What a Crib says that was not opened, or is closed."""
    return InternalError("This Crib is not open.", hint="Use it inside `async with open_crib(...)`.")
