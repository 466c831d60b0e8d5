"""The Crib: sources, catalog and layers in one; what every door and adapter talks to."""

import asyncio
import itertools
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import msgspec

from toolcrib.calls.layers.audit import unknown_call
from toolcrib.calls.pipeline import Layer, Step, compose
from toolcrib.calls.results.shown import encode_result
from toolcrib.catalog.catalog import Catalog, DialectOffer, Options, Route, offer_routes
from toolcrib.catalog.current import Current
from toolcrib.catalog.entries import ToolEntry, away_parts, discovery_outcome, overall_health, tool_entry
from toolcrib.catalog.explain import Explanation, explain_name
from toolcrib.catalog.records import ServerShelf
from toolcrib.catalog.search import USUAL, RankedTool, ToolSearch
from toolcrib.config.lock import Record
from toolcrib.config.model import Config, ServerConfig
from toolcrib.core import events
from toolcrib.core.access import LOCAL_USER, Caller, Reach
from toolcrib.core.errors import CallerError, InternalError, ToolcribError
from toolcrib.core.events import Event
from toolcrib.core.names import name_of_alias, name_of_uri
from toolcrib.core.offers import Offer, OfferKind, RequestKind, Tool
from toolcrib.core.requests import (
    SILENT,
    BackChannel,
    CallProgress,
    OnProgress,
    ProgressChannel,
    Request,
    Result,
    told_of,
)
from toolcrib.core.view import CribHealth, ToolCounts
from toolcrib.crib.accounts import ServerSignIns
from toolcrib.crib.attached import CribSource
from toolcrib.crib.finding import Finder, check_request
from toolcrib.crib.loading import Loaded
from toolcrib.crib.servers import Parts, Servers, not_open
from toolcrib.crib.subscriptions import Subscriptions
from toolcrib.crib.tasks import TaskBook
from toolcrib.sources.native.modules import NativeModules
from toolcrib.stores.paths import Environment

NOTHING: Mapping[str, Any] = {}
CONCRETE_MAX = 256


class Crib:
    """One catalogue and one call path over many sources; as a source itself, see ``as_source``."""

    def __init__(self, parts: Parts, layers: Sequence[Layer]) -> None:
        self._parts, self._layers, self._emit = parts, layers, parts.emit
        self._current = Current(parts.native, parts.security, parts.emit, prefix=parts.prefix, room=parts.room)
        self._current.on_change(self._forget_steps)
        self._finder: Finder | None = None
        self._steps: dict[RequestKind, dict[str, tuple[str, Step]]] = {kind: {} for kind in RequestKind}
        self._concrete: dict[tuple[RequestKind, str], tuple[str, Step]] = {}
        """The steps to resources that only a template, or a link in a result, stands for."""
        self._stepped = Catalog()
        """What the steps were composed for."""
        self._run_id = f"{time.time_ns() // 1_000_000:x}{secrets.token_hex(3)}"  # replicas start at the same moment
        self._numbers = itertools.count(1)
        self.loaded, self.around = Loaded(Config()), Environment()
        """The configuration it was made from, and where; for the server."""
        self.sign_ins: ServerSignIns | None = None
        """How people sign in at servers; ``None`` where a program put the Crib together by itself."""
        self._ailing: Mapping[str, str] = {}
        """The tools whose own health check failed when they were last asked, and why."""
        self.modules = NativeModules(())
        """The modules that ``native`` names; ``follow`` takes in their edits."""
        self.has_prefixes = parts.prefix
        """Whether tools are named with their server."""
        self.servers = Servers(parts, self._current)
        """The configured servers: refresh, restart, add, change, remove."""
        self.tasks = TaskBook(parts.tasks, None if parts.fleet is None else parts.fleet.coordination)
        """Calls that are answered later."""
        self.subscriptions = Subscriptions(lambda: self.shelves, parts.emit, prefix=parts.prefix)
        """Who wants to hear that a resource changed."""
        self._current.on_change(self.subscriptions.follow)
        self.search = ToolSearch()
        """The index that tools are found by."""
        self.other_search = ToolSearch(self.search.model, of_tools=False)
        """The index that resources, templates and prompts are found by."""
        self.desk = parts.desk
        """Approvals: terminal, client and inbox attach here to ask people."""
        self.inbox = parts.inbox
        """Approval questions that wait for a person."""
        self.live = parts.live
        """Running and recent calls; ``None`` where there is no live view."""
        self.audit = parts.log
        """Where calls and security decisions are written down."""
        self.metrics = parts.metrics
        """The tallies of all calls."""
        self.coordination = parts.coordination
        """The other replicas, where there are any."""
        self.fleet = parts.fleet
        """The replicas that this one shares its state with, if it does."""
        self.seal = parts.seal
        """For what stateless clients carry from one request to the next."""
        self.ledger = parts.ledger
        """Where its records and answers are kept; ``None``: in memory."""

    async def open(self, servers: Iterable[ServerConfig]) -> Self:
        """Know the servers, with what earlier runs found out about them; none is started."""
        self.desk.current = self._reach_now
        await self.servers.open(servers)
        fresh = self.servers.fresh
        self._finder = Finder(fresh, self._current, self._parts)
        if self.fleet is not None:
            await self.fleet.open(fresh, self.inbox)
        await self.tasks.open()
        return self

    # The catalogue

    @property
    def catalog(self) -> Catalog:
        """What is known right now; reading it starts nothing."""
        return self._current.catalog

    @property
    def shelves(self) -> Mapping[str, ServerShelf]:
        """The enabled servers and what is known of each."""
        return self.servers.shelves

    @property
    def disabled(self) -> Mapping[str, ServerConfig]:
        """The servers that are configured but switched off."""
        return self.servers.disabled

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

    async def list_tools(
        self,
        format: str | None = None,  # noqa: A002
        *,
        grace_s: float | None = None,
        caller: Caller = LOCAL_USER,
    ) -> Result:
        """Like ``tools``, as a result: the list is its ``data``, and trouble its error."""
        try:
            return Result({}, value=await self.tools(format, grace_s=grace_s, caller=caller))
        except ToolcribError as error:
            return Result.failed(error)

    async def offer(
        self,
        format: str,  # noqa: A002
        options: Options | None = None,
        *,
        grace_s: float | None = None,
        caller: Caller = LOCAL_USER,
    ) -> DialectOffer:
        """What a caller may use in a provider's form, with the way back from the names a model will use.

        Forms: ``mcp``, ``anthropic``, ``openai``, ``openai-responses``, ``gemini``, ``ollama``.
        """
        routes = (await self.current(grace_s)).visible_to(caller.grants)
        offer = offer_routes(routes, format, options)
        if offer.left_out:
            self._emit(Event(events.TOOLS_LEFT_OUT, "warning", {"format": format, "tools": dict(offer.left_out)}))
        return offer

    async def offers(
        self, kind: OfferKind, *, grace_s: float | None = None, caller: Caller = LOCAL_USER
    ) -> list[Offer]:
        """What a caller may use of one kind, under the names to ask for it by."""
        routes = (await self.current(grace_s)).visible_to(caller.grants, kind)
        return [replace(route.offer, name=route.name) for route in routes]

    async def current(self, grace_s: float | None = None) -> Catalog:
        """The catalog, after asking those servers that must be asked; waits at most the grace."""
        await self.servers.need(self._parts.list_grace_s if grace_s is None else grace_s)
        return self.catalog

    async def find(
        self, query: str, limit: int = USUAL, *, caller: Caller = LOCAL_USER, among: Sequence[Route] | None = None
    ) -> list[RankedTool]:
        """The tools for a purpose, best first: of all that the caller may use, or of those given, which asks nobody."""
        looked_at = (await self.current()).visible_to(caller.grants) if among is None else among
        return await self.search.find(self.catalog, query, limit, looked_at)

    async def find_others(
        self, query: str, limit: int = USUAL, *, caller: Caller = LOCAL_USER, among: Sequence[Route] | None = None
    ) -> list[RankedTool]:
        """The resources, templates and prompts for a purpose, best first, as ``find`` does it for tools."""
        looked_at = (await self.current()).others_visible_to(caller.grants) if among is None else among
        return await self.other_search.find(self.catalog, query, limit, looked_at) if looked_at else []

    def entries(self) -> list[ToolEntry]:
        """Every tool with its kind, policy and discovery; starts nothing."""
        return [tool_entry(route, self.shelves.get(route.server)) for route in self.catalog.routes.values()]

    def lookup(self, name: str) -> Route | None:
        """Where calls to an exposed name go, if there is such a tool."""
        return self.catalog.find(RequestKind.CALL, name_of_alias(name))

    def register(self, function: Callable[..., Any]) -> Tool:
        """Add a native tool while the Crib runs; a taken name is replaced, with a warning."""
        return self._parts.native.register(function)

    def unregister(self, name: str) -> bool:
        """Remove a native tool with all its versions, or one of them by ``name@version``; whether there was one."""
        return self._parts.native.unregister(name)

    def as_source(self, name: str) -> CribSource:
        """This Crib as a source of another one, where its tools are called ``name__tool``."""
        return CribSource(name, self)

    def explain(self, name: str) -> Explanation:
        """Why a tool is here, missing, hidden, stale or renamed."""
        return explain_name(name_of_alias(str(name)), self.catalog, self.shelves, self.disabled, self._current.security)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called when the catalogue changed, until what is returned is called."""
        return self._current.on_change(listener)

    def _forget_steps(self) -> None:
        old, new = self._stepped, self.catalog
        self._steps = {
            kind: {name: found for name, found in steps.items() if new.find(kind, name) == old.find(kind, name)}
            for kind, steps in self._steps.items()
        }
        self._stepped = new
        self._concrete.clear()

    # Calls

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        caller: Caller = LOCAL_USER,
        channel: BackChannel = SILENT,
        timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Run a tool by its exposed name; failure is a result, only cancellation is raised.

        ``on_progress`` is called with each ``CallProgress`` that the tool reports while it runs.
        """
        if on_progress is not None:
            channel = ProgressChannel(channel, self._careful(on_progress, name))
        given = {} if arguments is None else arguments
        if (unfit := self._unfit(name, given, caller, timeout_s)) is not None:
            return unfit
        return await self.run(self.request(name, dict(given), caller, channel, timeout_s))

    async def validate(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, caller: Caller = LOCAL_USER
    ) -> Result:
        """Whether a tool would take these arguments, without running it; ``data`` is what it would be given, with
        defaults filled in and slips put right. Nothing is counted, and nobody is asked."""
        given = {} if arguments is None else arguments
        try:
            check_request(name, given, caller, None)
            call = self.request(name, dict(given), caller)
            if self._finder is None:
                raise not_open()
            return (await self._finder.rehearse(call, await self.current())).of(call)
        except ToolcribError as error:
            return Result.failed(error)

    def _unfit(self, name: object, arguments: object, caller: object, timeout_s: object) -> Result | None:
        """The result of what no request can be made of; it is written down."""
        try:
            check_request(name, arguments, caller, timeout_s)
        except CallerError as error:
            asker = caller if isinstance(caller, Caller) else LOCAL_USER
            self.audit.note(unknown_call(self.request(str(name), {}, asker), error.code))
            return Result.failed(error)
        return None

    async def read(self, name: str, *, caller: Caller = LOCAL_USER, timeout_s: float | None = None) -> Result:
        """Read a resource by its exposed name, or the URI that clients know it by; failure is a result."""
        return self._unfit(name, NOTHING, caller, timeout_s) or await self.run(
            self.request(self.resource_name(name), {}, caller, timeout_s=timeout_s, kind=RequestKind.READ)
        )

    def resource_name(self, uri: str) -> str:
        """What toolcrib calls the resource, or template, that clients know by this URI."""
        is_known = not self.has_prefixes or self.catalog.find(RequestKind.READ, uri) is not None
        return uri if is_known else name_of_uri(uri)

    async def get(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        caller: Caller = LOCAL_USER,
        timeout_s: float | None = None,
    ) -> Result:
        """Get a prompt by its exposed name; failure is a result."""
        given = NOTHING if arguments is None else arguments
        return self._unfit(name, given, caller, timeout_s) or await self.run(
            self.request(name, dict(given), caller, timeout_s=timeout_s, kind=RequestKind.GET)
        )

    def _careful(self, listener: OnProgress, name: str) -> OnProgress:
        """A listener whose own faults are told, and cost nobody else anything."""

        def tell(progress: CallProgress) -> None:
            try:
                listener(progress)
            except Exception as error:  # the edge of the program's own code
                self._emit(Event("call.progress.raised", "error", {"tool": name, "error": repr(error)}))

        return tell

    def request(  # noqa: PLR0913, PLR0917 - the fields of a request, in their order: this is done for every call
        self,
        name: str,
        arguments: dict[str, Any],
        caller: Caller = LOCAL_USER,
        channel: BackChannel = SILENT,
        timeout_s: float | None = None,
        meta: Mapping[str, Any] = NOTHING,
        more: Mapping[str, Any] = NOTHING,
        kind: RequestKind = RequestKind.CALL,
    ) -> Request:
        """A request for ``run``, with an id that no other has."""
        found = self._steps[kind].get(name)
        if found is None:
            name = name_of_alias(name)
            found = self._steps[kind].get(name)
        tool, number = "" if found is None else found[0], f"{self._run_id}-{next(self._numbers)}"
        return Request(name, tool, arguments, number, caller, channel, timeout_s, meta, more, kind)

    async def run(self, call: Request) -> Result:
        """Run what ``request`` made; the one place where trouble becomes a result."""
        try:
            target, step = self._steps[call.kind].get(call.name) or await self._find_step(call)
            result = await step(call if call.target == target else msgspec.structs.replace(call, target=target))
            return result.of(call)
        except ToolcribError as error:
            return Result.failed(error).of(call)
        except Exception as error:  # the edge of the pipeline: nothing outside ever has to catch
            self._emit(Event("call.internal", "error", {**told_of(call), "error": repr(error)}))
            internal = InternalError(
                f"toolcrib failed while running {call.name} ({type(error).__name__}).",
                hint=f"The log has the details under id {call.id}.",
            )
            return Result.failed(internal).of(call)

    def refuse(self, call: Request, error: ToolcribError) -> Result:
        """The result of a call that whoever passes calls on could not make one of this Crib; it is written down."""
        if self._finder is not None:
            self._finder.note_unknown(call, error)
        return Result.failed(error)

    def unlisted(self, call: Request, template: Route | None) -> Route | None:
        """Where a resource is read that no list contains: by its template, by a caller who was given its link in a
        result, or of a server that lists none; refused if the rules say so."""
        return None if self._finder is None else self._finder.unlisted(call, template)

    async def _find_step(self, call: Request) -> tuple[str, Step]:
        """The layers for an offer that is asked for the first time, composed once."""
        if self._finder is None or not self.servers.is_open:
            raise not_open()
        is_part, place = call.kind in (RequestKind.READ, RequestKind.BROWSE), (call.kind, call.name)
        if is_part and place in self._concrete and self.catalog.find(call.kind, call.name):
            return self._concrete[place]
        if self.catalog.find(call.kind, call.name) is None:
            await self.servers.find(call.timeout_s)
        route = await self._finder.find(call)
        step = compose(self._layers, self._finder.subject_of(route, call.kind), route.source.answer)
        found = route.offer.name, step
        if is_part and self.catalog.by_key(route.reach.key) is None:
            if len(self._concrete) >= CONCRETE_MAX:
                self._concrete.clear()
            self._concrete[place] = found
        elif self.catalog.find(call.kind, call.name) is not None:  # of other names there can be any number
            self._steps[call.kind][call.name] = found
        return found

    def _reach_now(self, key: str) -> Reach | None:
        route = self.catalog.by_key(key)
        return route.reach if route is not None else None

    # Servers at run time

    async def refresh(self, *names: str) -> dict[str, Record]:
        """Ask these servers (all when none is named) for their tools now."""
        return await self.servers.refresh(*names)

    async def discover(self, *names: str) -> Result:
        """Like ``refresh``, as a result: what was registered, and which servers could not be asked."""
        try:
            return discovery_outcome(await self.refresh(*names))
        except ToolcribError as error:
            return Result.failed(error)

    def is_stale(self, server: str) -> bool:
        """Whether a server's tools must be asked for again."""
        shelf = self.shelves.get(server)
        return shelf is None or self.servers.fresh.is_stale(shelf)

    async def check_health(self) -> CribHealth:
        """The same, after each native tool that brings a health check was asked how it is."""
        self._ailing = await self._parts.native.ailing()
        return self.health()

    def health(self) -> CribHealth:
        """The state of the registry, its servers and tools."""
        servers, parts = self.servers.health(), self.parts()
        away, ailing = (
            away_parts(parts, servers),
            {name: why for name, why in self._ailing.items() if self.lookup(name)},
        )
        return CribHealth(
            status=overall_health(servers, away | ailing),
            away=away,
            parts={name: problem or "ok" for name, problem in parts.items()},
            tools=ToolCounts(*self.catalog.counts()),
            failing=self.metrics.failing() | ailing,
            servers=servers,
            calls=self.metrics.totals(),
            audit=msgspec.structs.asdict(self.audit.status()),
            fleet=self._fleet_health(),
        )

    def parts(self) -> dict[str, str]:
        """What it needs besides its servers (audit log, shared store, coordination), and why each cannot be used."""
        audit = self.audit.status()
        shared = {} if self.coordination is None else {"coordination": self.coordination.status().problem}
        if self.fleet is not None:
            shared = self.fleet.troubles()
        return ({"audit": audit.problem} if audit.enabled else {}) | shared

    def _fleet_health(self) -> dict[str, Any] | None:
        if self.fleet is not None:
            return self.fleet.health()
        return None if self.coordination is None else msgspec.structs.asdict(self.coordination.status())

    async def show(self, result: Result, call: Request, duration_ms: float) -> bytes:
        """A result as JSON for people's programs; a large one is decoded by a helper."""
        return await encode_result(self._parts.helpers, result, call, duration_ms)

    def roots_changed(self, caller: Caller) -> None:
        """A client says that the directories changed which it lets servers work in."""
        if self.servers.is_open:
            for shelf in self.shelves.values():
                shelf.source.roots_changed(caller)

    def end_session(self, session: str) -> None:
        """A client's session is over: processes and sessions of servers that only it used are closed."""
        if self.servers.is_open:
            for shelf in self.shelves.values():
                shelf.source.end_session(session)

    async def close(self) -> None:
        """Stop everything; safe to call twice."""
        if not self.servers.is_open:
            return
        try:
            await self.tasks.close()
            await self.subscriptions.close()
            await self.servers.stop()
            if self.fleet is not None:
                await self.fleet.close()
        finally:
            await asyncio.gather(self.servers.close(), self._parts.native.close(), return_exceptions=True)
            await self._parts.helpers.close()
            if self._parts.close_last is not None:
                await self._parts.close_last()
            await self.audit.close()
