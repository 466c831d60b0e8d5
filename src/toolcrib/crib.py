"""The Crib: sources, catalog and layers in one; what every door and adapter talks to."""

import asyncio
import itertools
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import msgspec

from toolcrib.calls.approvals import Desk
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.layers.audit import unknown_call
from toolcrib.calls.live import Live
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Layer, Step, Subject, compose
from toolcrib.calls.rig import Rig
from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.entries import discovery_outcome, overall_health, server_health, tool_entry
from toolcrib.catalog.explain import Explanation, explain_name
from toolcrib.catalog.formats import Offer, Options, offer_routes
from toolcrib.catalog.lookalikes import find_lookalikes, pairs
from toolcrib.catalog.merge import Offering, merge, refuse_clashes
from toolcrib.catalog.refresh import Refresher
from toolcrib.catalog.search import USUAL, Found, ToolSearch
from toolcrib.catalog.shelf import RecordStore, Shelf
from toolcrib.catalog.supply import Supply
from toolcrib.catalog.views import configured_view, native_view
from toolcrib.config.ledger import Ledger
from toolcrib.config.lock import Record
from toolcrib.config.model import ServerConfig, is_same_connection
from toolcrib.config.security import SecurityConfig
from toolcrib.core import events
from toolcrib.core.access import LOCAL_USER, Caller, Reach
from toolcrib.core.audit import Audit, AuditEntry
from toolcrib.core.call import SILENT, BackChannel, ToolCall, ToolResult
from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import (
    InternalError,
    InvalidArguments,
    ToolcribError,
    UnknownServer,
    UnknownTool,
)
from toolcrib.core.events import Event
from toolcrib.core.names import join_name
from toolcrib.core.source import Listing, LocalSource, ServerSource
from toolcrib.core.tool import Tool
from toolcrib.finding import Finder
from toolcrib.fleet import Fleet

MOST_IMITATIONS_TOLD = 20
"""In one change of the catalogue; `toolcrib doctor` shows more."""


@dataclass(frozen=True, slots=True)
class CribSettings:
    """How a Crib behaves as a whole."""

    list_grace_s: float = 5.0
    prefix: bool = True
    capacity: int = 10_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What a Crib is made of; ``assemble`` puts it together."""

    native: LocalSource
    make_source: Callable[[ServerConfig], ServerSource]
    records: RecordStore
    layers: Sequence[Layer]
    rig: Rig
    settings: CribSettings = CribSettings()
    security: SecurityConfig = field(default_factory=SecurityConfig)
    close_last: Callable[[], Any] | None = None
    ledger: Ledger | None = None
    """Where records and answers outlive the process, for those who look after them."""
    supply: Supply | None = None
    """Servers that are found elsewhere, beside those that are written down."""
    fleet: Fleet | None = None
    """The replicas that this one shares its state with."""


class Crib:
    """One catalogue and one call path over many sources; is itself a source of tools."""

    name = ""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._security = parts.security
        self._emit = parts.rig.emit
        self._catalog = Catalog()
        self._steps: dict[str, tuple[str, Step]] = {}
        self._listeners: list[Callable[[], None]] = []
        self._server_listeners: list[Callable[[Event], None]] = []
        self._run_id = f"{time.time_ns() // 1_000_000:x}{secrets.token_hex(3)}"  # replicas start at the same moment
        self._numbers = itertools.count(1)
        self._disabled: dict[str, ServerConfig] = {}
        self._written: Mapping[str, ServerConfig] = {}
        self._turn = asyncio.Lock()
        self._refresher: Refresher | None = None
        self._finder: Finder | None = None
        self.search = ToolSearch()
        """The index that tools are found by."""
        self._closed = False

    async def open(self, servers: Iterable[ServerConfig]) -> Self:
        """Know the servers, with what earlier runs found out about them; none is started."""
        self._refresher = Refresher(self._parts.records, self._tell, self._server_updated, self._security.pins)
        prefix = self._parts.settings.prefix
        self._finder = Finder(self._refresher, lambda: self._catalog, self._parts.rig, prefix=prefix)
        self._parts.native.on_change(self._rebuild)
        records = await self._parts.records.read()
        self.desk.current = self._reach_now
        self._written = {server.name: server for server in servers}
        for server in self._written.values():
            self._put(server, records.get(server.name))
        self._rebuild(first=True)
        if self._parts.supply is not None:
            self._parts.supply.open(self._follow, self._emit)
        if self.fleet is not None:
            await self.fleet.open(self._refresher, self.inbox)
        return self

    def _tell(self, event: Event) -> None:
        """Pass on what discovery tells; a tool that goes into quarantine is a decision, to be written down."""
        self._emit(event)
        if event.name == events.TOOL_HELD:
            server, tool = event.fields["server"], event.fields["tool"]
            details = {"reason": event.fields["reason"]}
            self.audit.note(AuditEntry("pin", join_name(server, tool), server, decision="held", details=details))

    def _put(self, server: ServerConfig, record: Record | None) -> None:
        if server.enabled:
            self._fresh.add(server, self._parts.make_source(server), record)
        else:
            self._disabled[server.name] = server

    @property
    def _fresh(self) -> Refresher:
        if self._refresher is None or self._closed:
            raise _not_open()
        return self._refresher

    # The catalogue

    @property
    def catalog(self) -> Catalog:
        """What is known right now; reading it starts nothing."""
        return self._catalog

    @property
    def is_complete(self) -> bool:
        """Whether every server has been asked at least once."""
        return self._fresh.is_complete

    @property
    def shelves(self) -> Mapping[str, Shelf]:
        """The enabled servers and what is known of each."""
        return self._fresh.shelves

    @property
    def disabled(self) -> Mapping[str, ServerConfig]:
        """The servers that are configured but switched off."""
        return self._disabled

    async def tools(
        self,
        format: str | None = None,  # noqa: A002
        *,
        grace_s: float | None = None,
        caller: Caller = LOCAL_USER,
    ) -> list[Any]:
        """What a caller may use, as ``Tool`` values or in a provider's form (see ``offer``)."""
        if format is not None:
            return [*(await self.offer(format, grace_s=grace_s, caller=caller)).definitions]
        routes = (await self.current(grace_s)).visible_to(caller.grants)
        return [replace(route.tool, name=route.name) for route in routes]

    async def offer(
        self,
        format: str,  # noqa: A002
        options: Options | None = None,
        *,
        grace_s: float | None = None,
        caller: Caller = LOCAL_USER,
    ) -> Offer:
        """What a caller may use in a provider's form, with the way back from the names a model will use.

        Forms: ``mcp``, ``anthropic``, ``openai``, ``openai-responses``, ``gemini``, ``ollama``.
        """
        routes = (await self.current(grace_s)).visible_to(caller.grants)
        offer = offer_routes(routes, format, options)
        if offer.left_out:
            self._emit(Event(events.TOOLS_LEFT_OUT, "warning", {"format": format, "tools": dict(offer.left_out)}))
        return offer

    async def current(self, grace_s: float | None = None) -> Catalog:
        """The catalog, after asking those servers that must be asked; waits at most the grace."""
        grace_s = self._parts.settings.list_grace_s if grace_s is None else grace_s
        await self.find_servers(grace_s)
        await self._fresh.need(grace_s)
        return self._catalog

    async def find(
        self, query: str, limit: int = USUAL, *, caller: Caller = LOCAL_USER, among: Sequence[Route] | None = None
    ) -> list[Found]:
        """The tools for a purpose, best first: of all that the caller may use, or of those given, which asks nobody."""
        looked_at = (await self.current()).visible_to(caller.grants) if among is None else among
        return await self.search.find(self._catalog, query, limit, looked_at)

    async def find_servers(self, grace_s: float | None = None) -> None:
        """Ask for the servers that are found elsewhere, if that is due; the first to need them waits for the grace."""
        if self._parts.supply is not None:
            await self._parts.supply.need(self._parts.settings.list_grace_s if grace_s is None else grace_s)

    @property
    def supply(self) -> Supply | None:
        """Where servers are found that are not written down, if anywhere."""
        return self._parts.supply

    def wake(self) -> None:
        """Somebody has come who will want the tools: begin to ask for those that are not fresh."""
        if self._parts.supply is not None:
            self._parts.supply.wake()
        self._fresh.wake()

    def entries(self) -> list[dict[str, Any]]:
        """Every tool with its kind, policy and discovery, as plain data; starts nothing."""
        return [tool_entry(route, self.shelves.get(route.server)) for route in self._catalog.routes.values()]

    def lookup(self, name: str) -> Route | None:
        """Where calls to an exposed name go, if there is such a tool."""
        return self._catalog.routes.get(name)

    def register(self, function: Callable[..., Any]) -> Tool:
        """Add a native tool while the Crib runs; a taken name is replaced, with a warning."""
        return self._parts.native.register(function)

    def unregister(self, name: str) -> bool:
        """Remove a native tool; whether there was one."""
        return self._parts.native.unregister(name)

    async def list_tools(self) -> Listing:
        """The catalogue as a listing: a Crib is a source too."""
        return Listing(tuple(await self.tools()))

    def explain(self, name: str) -> Explanation:
        """Why a tool is here, missing, hidden, stale or renamed."""
        return explain_name(name, self._catalog, self.shelves, self._disabled, self._security)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called when the catalogue changed, until what is returned is called."""
        self._listeners = [*self._listeners, listener]

        def forget() -> None:
            self._listeners = [other for other in self._listeners if other != listener]

        return forget

    def on_servers(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Have ``listener`` told of servers that are created, changed and removed, until what is returned is called."""
        self._server_listeners = [*self._server_listeners, listener]

        def forget() -> None:
            self._server_listeners = [other for other in self._server_listeners if other != listener]

        return forget

    def _tell_of_servers(self, before: Mapping[str, ServerConfig], after: Mapping[str, ServerConfig]) -> None:
        for name in sorted(name for name in {*before, *after} if before.get(name) != after.get(name)):
            what = events.SERVER_CHANGED if name in before and name in after else events.SERVER_CREATED
            event = Event(what if name in after else events.SERVER_REMOVED, fields={"server": name})
            for tell in (self._emit, *self._server_listeners):
                tell(event)

    def _server_updated(self, server: str) -> None:
        del server
        self._rebuild()

    def _rebuild(self, *, first: bool = False) -> None:
        """Merge all listings and swap the catalog in one assignment; tells listeners only of real changes."""
        if self._closed:
            return
        native = Offering(self._parts.native, self._parts.native.listing.tools, native_view(self._security))
        servers = [
            Offering(shelf.source, shelf.tools, configured_view(shelf.config, self._security), shelf.held)
            for shelf in self.shelves.values()
            if shelf.is_known
        ]
        old, wanted = self._catalog, self._parts.settings
        catalog = merge(native, servers, prefix=wanted.prefix, capacity=wanted.capacity, version=old.version + 1)
        if first and not wanted.prefix:
            refuse_clashes(catalog)
        if catalog.routes == old.routes and not first:
            self._catalog = replace(catalog, version=old.version, lookalikes=old.lookalikes)
            return
        self._steps = {
            name: found for name, found in self._steps.items() if catalog.routes.get(name) == old.routes.get(name)
        }
        self._catalog = replace(catalog, lookalikes=find_lookalikes(catalog.routes.values()))
        self._announce(self._catalog, told=frozenset(pairs(old.lookalikes)))

    def _announce(self, catalog: Catalog, told: frozenset[tuple[str, str]]) -> None:
        for name, other in [pair for pair in pairs(catalog.lookalikes) if pair not in told][:MOST_IMITATIONS_TOLD]:
            self._emit(Event(events.TOOL_IMITATES, "warning", {"tool": name, "resembles": other}))
        native, mcp = catalog.counts()
        self._emit(Event(events.REGISTRY_UPDATED, fields={"native": native, "mcp": mcp}))
        for listener in self._listeners:
            listener()

    # Calls

    @property
    def desk(self) -> Desk:
        """Where people are asked; doors attach their ways to them here."""
        return self._parts.rig.desk

    @property
    def inbox(self) -> Inbox:
        """Questions that wait for somebody to look in."""
        return self._parts.rig.inbox

    @property
    def fleet(self) -> Fleet | None:
        """The replicas that this one shares its state with, if it does."""
        return self._parts.fleet

    @property
    def live(self) -> Live | None:
        """The calls under way and the last that ended; ``None`` where nobody is to look at them."""
        return self._parts.rig.live

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        caller: Caller = LOCAL_USER,
        channel: BackChannel = SILENT,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """Run a tool by its exposed name; failure is a result, only cancellation is raised."""
        given = {} if arguments is None else arguments
        if not isinstance(given, Mapping):
            unfit = InvalidArguments(f"{name}: the arguments must be an object, not {given!r:.60}.")
            self.audit.note(unknown_call(ToolCall(name, "", {}, self._new_id(), caller), unfit.code))
            return ToolResult.failed(unfit)
        return await self.run(ToolCall(name, "", dict(given), "", caller, channel, timeout_s))

    def _new_id(self) -> str:
        return f"{self._run_id}-{next(self._numbers)}"

    async def call_tool(self, call: ToolCall) -> ToolResult:
        """Run a call whose tool is an exposed name of this Crib."""
        return await self.run(msgspec.structs.replace(call, name=call.tool))

    async def run(self, call: ToolCall) -> ToolResult:
        """The one place where trouble becomes a result."""
        call.id = f"{self._run_id}-{next(self._numbers)}"
        try:
            found = self._steps.get(call.name)
            call.tool, step = found if found is not None else await self._find_step(call)
            return await step(call)
        except ToolcribError as error:
            return ToolResult.failed(error)
        except Exception as error:  # the edge of the pipeline: nothing outside ever has to catch
            self._emit(Event("call.internal", "error", {"tool": call.name, "id": call.id, "error": repr(error)}))
            internal = InternalError(
                f"toolcrib failed while running {call.name} ({type(error).__name__}).",
                hint=f"The log has the details under id {call.id}.",
            )
            return ToolResult.failed(internal)

    def refuse(self, call: ToolCall, error: ToolcribError) -> ToolResult:
        """The result of a call that whoever passes calls on could not make one of this Crib; it is written down."""
        call.id = self._new_id()
        if self._finder is not None:
            self._finder.note_unknown(call, error)
        return ToolResult.failed(error)

    async def _find_step(self, call: ToolCall) -> tuple[str, Step]:
        """The layers of a tool that is called for the first time, composed once."""
        if self._finder is None or self._closed:
            raise _not_open()
        if call.name not in self._catalog.routes:
            await self.find_servers(call.timeout_s)
        route = await self._finder.find(call)
        subject = Subject(call.name, route.server, route.tool, route.reach)
        self._steps[call.name] = route.tool.name, compose(self._parts.layers, subject, self._finder.source_of(route))
        return self._steps[call.name]

    def _reach_now(self, name: str) -> Reach | None:
        route = self.lookup(name)
        return route.reach if route is not None else None

    # Servers at run time

    async def refresh(self, *names: str) -> dict[str, Record]:
        """Ask these servers (all when none is named) for their tools now."""
        if not names and self._parts.supply is not None:
            await self._parts.supply.renew()
        for name in names:
            if name not in self.shelves:
                raise UnknownServer(name, known=list(self.shelves))
        for name in names or self.shelves:
            self._parts.rig.breakers.forgive(name)
        return await self._fresh.refresh(names or list(self.shelves))

    async def restart(self, name: str) -> Record:
        """Stop a server and ask it for its tools anew; calls under way on it end."""
        shelf = self.shelves.get(name)
        if shelf is None:
            raise UnknownServer(name, known=list(self.shelves))
        self._fresh.remove(name)
        self._put(shelf.config, (await self._parts.records.read()).get(name))
        self._rebuild()
        await shelf.source.close()
        return (await self.refresh(name))[name]

    async def discover(self, *names: str) -> ToolResult:
        """Like ``refresh``, as a result: what was registered, and which servers could not be asked."""
        try:
            return discovery_outcome(await self.refresh(*names))
        except ToolcribError as error:
            return ToolResult.failed(error)

    async def approve(
        self, *names: str, by: Caller = LOCAL_USER, still: Callable[[], None] = lambda: None
    ) -> list[str]:
        """Take tools (or, by the names of servers, all that is held of them) out of quarantine; what was taken out.

        ``still`` is asked in the last moment, and raises if they are no longer what was looked at.
        """
        held = {name: route for name, route in self._catalog.routes.items() if route.held}
        wanted = [route for route in held.values() if route.name in names or route.server in names]
        for name in names:
            if name not in self._catalog.routes and name not in self.shelves:
                raise UnknownTool(name, known=list(held) or list(self._catalog.routes))
        for server in sorted({route.server for route in wanted}):
            accepted = [route for route in wanted if route.server == server]
            for route in accepted:
                entry = AuditEntry("pin", route.name, server, by.id, by.kind, decision="accepted")
                await self.audit.commit(entry)
            still()
            await self._fresh.accept(server, [route.original_name for route in accepted])
        return [route.name for route in wanted]

    @property
    def ledger(self) -> Ledger | None:
        """Where its records and answers are kept; ``None``: in memory."""
        return self._parts.ledger

    async def reload_pins(self) -> None:
        """Take over what another process accepted."""
        await self._fresh.reload_pins()

    def is_stale(self, server: str) -> bool:
        """Whether a server's tools must be asked for again."""
        shelf = self.shelves.get(server)
        return shelf is None or self._fresh.is_stale(shelf)

    async def apply(self, servers: Mapping[str, ServerConfig], security: SecurityConfig | None = None) -> list[str]:
        """Make the running servers those of a new configuration; the names of what changed."""
        if security is not None and security != self._security:
            self._security = security
            self.desk.settings = replace(self.desk.settings, timeout_s=security.ask_timeout_s)
            self._fresh.look_anew(security.pins)
            self._rebuild()
        self._written = servers
        return await self._follow()

    async def _follow(self) -> list[str]:
        """Make the running servers those that are written down and those that are found beside them."""
        async with self._turn:
            return await self._follow_now(self._parts.supply)

    async def _follow_now(self, supply: Supply | None) -> list[str]:
        servers = self._written if supply is None else supply.beside(self._written)
        known = {name: shelf.config for name, shelf in self.shelves.items()} | dict(self._disabled)
        changed = [name for name in {*known, *servers} if known.get(name) != servers.get(name)]
        records = await self._parts.records.read() if changed else {}
        replaced = [self._replace(name, servers.get(name), records.get(name)) for name in sorted(changed)]
        if changed:
            self._rebuild()
        self._tell_of_servers(known, servers)
        await asyncio.gather(*(shelf.source.close() for shelf in replaced if shelf is not None))
        return sorted(changed)

    def _replace(self, name: str, server: ServerConfig | None, record: Record | None) -> Shelf | None:
        """Put the new server in the old one's place; the old one is the caller's to close.

        A change that does not concern the connection leaves it, and the calls under way on it, alone.
        """
        self._disabled.pop(name, None)
        shelf = self.shelves.get(name)
        if shelf is not None and server is not None and is_same_connection(shelf.config, server):
            shelf.config = server
            return None
        self._fresh.remove(name)
        self._parts.rig.breakers.forgive(name)
        if server is not None:
            self._put(server, record)
        return shelf

    def health(self) -> dict[str, Any]:
        """The state of the registry, its servers and tools, as plain data."""
        breakers = self._parts.rig.breakers
        servers = {name: server_health(shelf, breakers.health(name)) for name, shelf in sorted(self.shelves.items())}
        native, mcp = self._catalog.counts()
        return {
            "status": overall_health(servers),
            "tools": {"native": native, "mcp": mcp},
            "servers": servers,
            "calls": self._parts.rig.metrics.totals(),
            "audit": asdict(self._parts.rig.log.status()),
            **self._fleet_health(),
        }

    def _fleet_health(self) -> dict[str, Any]:
        if self.fleet is not None:
            return {"fleet": self.fleet.health()}
        return {} if self.coordination is None else {"fleet": asdict(self.coordination.status())}

    def exposition(self, version: str, started_at: float) -> str:
        """The tallies and the health in Prometheus' text format."""
        from toolcrib.calls.prometheus import exposition  # only servers need it

        return exposition(self._parts.rig.metrics, self.health(), version, started_at)

    @property
    def audit(self) -> Audit:
        """Where calls and security decisions are written down."""
        return self._parts.rig.log

    @property
    def coordination(self) -> Coordination | None:
        """The other replicas, where there are any."""
        return self._parts.rig.fleet

    @property
    def metrics(self) -> Metrics:
        """The tallies of all calls."""
        return self._parts.rig.metrics

    async def close(self) -> None:
        """Stop everything; safe to call twice."""
        if self._closed or self._refresher is None:
            return
        refresher = self._fresh
        self._closed = True
        try:
            if self._parts.supply is not None:
                await self._parts.supply.close()
            await refresher.close()
            if self.fleet is not None:
                await self.fleet.close()
        finally:
            sources = [shelf.source.close() for shelf in refresher.shelves.values()]
            await asyncio.gather(*sources, self._parts.native.close(), return_exceptions=True)
            if self._parts.close_last is not None:
                await self._parts.close_last()
            await self._parts.rig.log.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _not_open() -> InternalError:
    return InternalError("This Crib is not open.", hint="Use it inside `async with open_crib(...)`.")
