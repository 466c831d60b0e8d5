"""Windows: what the clients of one address are shown of a Crib, and how their calls find the tools behind it.

Without a profile a window shows the whole catalogue, with one a part of it, dressed. Where that is too much to show up
front, clients see the pinned tools and three that find, describe and call all others. Whatever way a call comes in, it
is the real tool's call before any layer sees it.
"""

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from toolcrib.calls.layers.permit import not_open
from toolcrib.catalog.catalog import Catalog, Route, keys_for
from toolcrib.catalog.entries import known_to, missing_servers
from toolcrib.catalog.explain import Explanation, ToolVerdict
from toolcrib.catalog.profile import Dressed, dress, real_name, shows
from toolcrib.catalog.records import ServerShelf
from toolcrib.catalog.search import USUAL, RankedTool, ToolSearch
from toolcrib.config.lock import INSTRUCTIONS
from toolcrib.config.model import Config, exposed_by
from toolcrib.config.sections import SHOW_ALL, ExposeConfig, ExposeMode, ProfileConfig
from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller, Grants, decide, matches, may_know_server
from toolcrib.core.errors import ConfigError, InvalidArguments, ToolcribError, UnknownTool, did_you_mean
from toolcrib.core.offers import Offer, OfferKind, RequestKind, Tool
from toolcrib.core.requests import SILENT, BackChannel, ErrorInfo, Request, Result
from toolcrib.core.source import ListPage, Missing
from toolcrib.crib.crib import Crib
from toolcrib.crib.meta import META, READING, MetaCalls, MetaTool
from toolcrib.schema.arguments import Renamer
from toolcrib.schema.check import compile_check
from toolcrib.schema.problems import describe
from toolcrib.sources.mcp.mirror import ClientMirror
from toolcrib.sources.mcp.source import McpSource

GRANTS_MAX = 64
_RESOURCES = (OfferKind.RESOURCE, OfferKind.TEMPLATE)


@dataclass(frozen=True, slots=True)
class ToolFront:
    """What is listed in place of the whole catalogue."""

    version: int
    routes: Mapping[str, Route | MetaTool]


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """What a window shows."""

    expose: ExposeConfig = SHOW_ALL
    profile: ProfileConfig | None = None
    """``None``: the whole catalogue."""

    @property
    def is_plain(self) -> bool:
        """Whether calls can go straight to the Crib."""
        expose = self.expose
        return self.profile is None and expose.mode == "all" and not expose.clients and not expose.resources


SHOWS_ALL = ProfileSettings()


@dataclass(slots=True)
class _Made:
    """What was made from one version of the catalogue."""

    of: int = -1
    dressed: Dressed = field(default_factory=Dressed)
    front: ToolFront | None = None
    fitting: dict[Grants, bool] = field(default_factory=dict)
    reading: dict[Grants, tuple[MetaTool, ...]] = field(default_factory=dict)


class ProfileView:
    """One way to look at a Crib; stays the same object while the configuration behind it changes."""

    def __init__(self, crib: Crib, settings: ProfileSettings = SHOWS_ALL, name: str = "") -> None:
        self.crib, self.name = crib, name
        self.request = crib.request
        """Makes a call for ``run``."""
        self._settings, self._is_plain = settings, settings.is_plain
        self._versions = itertools.count(1)
        self._made = _Made()
        self._search: ToolSearch | None = None
        self._listeners: list[Callable[[], None]] = []
        self._meta = MetaCalls(self)

    @property
    def expose(self) -> ExposeConfig:
        """How much is shown up front."""
        return self._settings.expose

    def renew(self, settings: ProfileSettings) -> None:
        """Show something else from now on, and say so."""
        if settings == self._settings:
            return
        self._settings, self._is_plain, self._made = settings, settings.is_plain, _Made()
        for listener in self._listeners:
            listener()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called when what is shown may have changed, until what is returned is called."""
        self._listeners = [*self._listeners, listener]
        forget_crib = self.crib.on_change(listener)

        def forget() -> None:
            self._listeners = [other for other in self._listeners if other != listener]
            forget_crib()

        return forget

    # What is shown

    @property
    def catalog(self) -> Catalog:
        """All tools of this window, by the names it shows."""
        return self.crib.catalog if self._settings.profile is None else self._up_to_date().dressed.catalog

    @property
    def front(self) -> ToolFront:
        """The pinned tools, and those that find, describe and call the others."""
        made = self._up_to_date()
        if made.front is None:
            pinned = {name: route for name, route in self.catalog.routes.items() if self._is_pinned(route)}
            made.front = ToolFront(next(self._versions), {**pinned, **META})
        return made.front

    def _is_pinned(self, route: Route) -> bool:
        return route.tool.reads_results or matches(route.name, self.expose.pinned)

    def _up_to_date(self) -> _Made:
        whole, profile = self.crib.catalog, self._settings.profile
        if self._made.of != whole.version:
            dressed = Dressed() if profile is None else dress(whole, profile, next(self._versions))
            self._made = _Made(whole.version, dressed)
        return self._made

    def fits(self, grants: Grants) -> bool:
        """Whether all that a caller with these grants may use is within the budget."""
        fitting = self._up_to_date().fitting
        if grants not in fitting:
            if len(fitting) >= GRANTS_MAX:
                fitting.clear()
            tokens = sum(route.tokens for route in self.catalog.visible_to(grants))
            fitting[grants] = tokens <= self.expose.budget
        return fitting[grants]

    def reading_tools(self, grants: Grants) -> tuple[MetaTool, ...]:
        """The tools that list and read resources, where they are wanted and a caller with these grants has use for
        them; who has a tool of such a name keeps it."""
        wanted = self.expose.resources
        if not wanted:
            return ()
        reading = self._up_to_date().reading
        if grants not in reading:
            if len(reading) >= GRANTS_MAX:
                reading.clear()
            has_use = wanted is True or any(self.catalog.visible_to(grants, kind) for kind in _RESOURCES)
            made = (tool for name, tool in READING.items() if name not in self.catalog.routes)
            reading[grants] = tuple(made) if has_use else ()
        return reading[grants]

    def resource_name(self, uri: str) -> str:
        """What toolcrib calls the resource, or template, that clients know by this URI."""
        return self.crib.resource_name(uri)

    def missing(self, grants: Grants) -> tuple[Missing, ...]:
        """The servers this window lacks the tools of, as far as a caller with these grants may hear of them."""
        found = missing_servers(self.crib.shelves)
        if not found:
            return ()
        profile = self._settings.profile
        shown = found if profile is None else [one for one in found if matches(one.server, profile.servers)]
        return known_to(shown, grants)

    def mode_for(self, client: str) -> ExposeMode:
        """How much a client of that name is shown."""
        for pattern, mode in self.expose.clients.items():
            if fnmatchcase(client, pattern):
                return mode
        return self.expose.mode

    async def current(self) -> Catalog:
        """The tools, after asking those servers that must be asked."""
        await self.crib.current()
        return self.catalog

    async def tools(self, *, caller: Caller = LOCAL_USER) -> list[Tool]:
        """What a caller may use, by the names this window shows."""
        routes = (await self.current()).visible_to(caller.grants)
        reading = self.reading_tools(caller.grants)
        return [*(replace(route.tool, name=route.name) for route in routes), *(one.tool for one in reading)]

    async def find(self, query: str, limit: int = USUAL, *, caller: Caller = LOCAL_USER) -> list[RankedTool]:
        """The tools of this window for a purpose, best first."""
        if self._settings.profile is None:
            return await self.crib.find(query, limit, caller=caller)
        catalog = await self.current()
        self._search = self._search or ToolSearch(self.crib.search.model)
        return await self._search.find(catalog, query, limit, catalog.visible_to(caller.grants))

    async def find_others(self, query: str, limit: int = USUAL, *, caller: Caller = LOCAL_USER) -> list[RankedTool]:
        """The resources, templates and prompts of this window for a purpose, best first."""
        shown = (await self.current()).others_visible_to(caller.grants)
        return await self.crib.find_others(query, limit, caller=caller, among=shown)

    @property
    def features(self) -> frozenset[str]:
        """What the servers behind this window can do besides (``Listing.features``)."""
        return frozenset(name for shelf in self._shelves() for name in shelf.record.features)

    @property
    def task_eras(self) -> Mapping[str, str]:
        """The servers behind this window that may answer calls later, and the revision in whose way they do."""
        records = (shelf.record for shelf in self._shelves() if "tasks" in shelf.record.features)
        return {record.server: record.era for record in records}

    def instructions(self, grants: Grants) -> Mapping[str, str]:
        """How the servers behind this window say they want to be used, those of which a caller with these grants may
        use anything; what changed is held until it is accepted."""
        said = {
            shelf.config.name: shelf
            for shelf in self._shelves()
            if shelf.is_known and shelf.record.instructions and INSTRUCTIONS not in shelf.held and not shelf.barred
        }
        if not said:
            return {}
        catalog = self.catalog
        usable = {route.server for route in (*catalog.visible_to(grants), *catalog.others_visible_to(grants))}
        return {
            name: shelf.record.instructions
            for name, shelf in said.items()
            if name in usable or (not shelf.offers and may_know_server(grants, name))
        }

    @property
    def is_partial(self) -> bool:
        """Whether there are servers of which nothing is known yet."""
        return any(not shelf.is_known for shelf in self._shelves())

    @property
    def is_of_one_server(self) -> bool:
        """Whether there is just one server behind this window."""
        return len(self._shelves()) == 1

    @property
    def mirror(self) -> ClientMirror | None:
        """What passes between clients and the only server as it is: where it is transparent, and its names are kept."""
        shelves = self.crib.shelves
        if len(shelves) != 1 or self.crib.has_prefixes or self._settings.profile is not None:
            return None
        (shelf,) = shelves.values()
        is_open = shelf.config.transparent and not shelf.barred
        return shelf.source.mirror if is_open and isinstance(shelf.source, McpSource) else None

    async def ask_again(self) -> None:
        """Have the servers of this window asked for what they offer, those that are known already."""
        if known := [shelf.config.name for shelf in self._shelves() if shelf.is_known]:
            await self.crib.refresh(*known)

    def pages(self, kind: OfferKind) -> Sequence[ListPage]:
        """The only server's own pages of a list, where its names are kept; else there is just one."""
        shelves = self._shelves()
        is_plain = len(shelves) == 1 and self._settings.profile is None and not self.crib.has_prefixes
        return shelves[0].pages.get(kind, ()) if is_plain else ()

    @property
    def ttl_s(self) -> float | None:
        """How long a list may be kept as far as its servers say."""
        return min((ttl_s for shelf in self._shelves() if (ttl_s := shelf.record.ttl_s) is not None), default=None)

    def _shelves(self) -> list[ServerShelf]:
        profile = self._settings.profile
        shelves = self.crib.shelves.values()
        return [shelf for shelf in shelves if profile is None or matches(shelf.config.name, profile.servers)]

    def explain(self, name: str) -> Explanation:
        """Why a tool is shown here, or is not."""
        if self._settings.profile is None:
            return self.crib.explain(name)
        catalog = self.catalog
        route = catalog.named(name)
        if route is not None:
            return _shown(self.crib.explain(route.reach.key), self.name, route, self._up_to_date().dressed)
        renamed = next((shown for shown, route in catalog.routes.items() if real_name(route) == name), "")
        if renamed:
            return Explanation(
                name, ToolVerdict.RENAMED, (f"Profile {self.name!r} shows it as {renamed!r}.",), f"Use {renamed}."
            )
        keys = (key for key in keys_for(name) if key in catalog.left_out)
        key = next((key for key in keys if self.crib.catalog.by_key(key) is not None), "")
        if key:
            todo = f"Change [profiles.{self.name}], or use it without the profile."
            return Explanation(
                name,
                ToolVerdict.HIDDEN,
                (f"Profile {self.name!r} leaves it out: {catalog.left_out[key].reason}.",),
                todo,
            )
        return self.crib.explain(name)

    # Calls

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, caller: Caller = LOCAL_USER, channel: BackChannel = SILENT
    ) -> Result:
        """Run a tool of this window; failure is a result."""
        return await self.run_real(self.request(name, dict(arguments), caller, channel))

    async def offers(self, kind: OfferKind, *, caller: Caller = LOCAL_USER) -> list[Offer]:
        """What a caller may use of one kind, under the names to ask for it by."""
        routes = (await self.current()).visible_to(caller.grants, kind)
        return [replace(route.offer, name=route.name) for route in routes]

    async def read(self, name: str, *, caller: Caller = LOCAL_USER) -> Result:
        """Read a resource of this window by its name or its URI; failure is a result."""
        return await self.run_real(self.request(self.resource_name(name), {}, caller, kind=RequestKind.READ))

    async def get(
        self, name: str, arguments: Mapping[str, str] | None = None, *, caller: Caller = LOCAL_USER
    ) -> Result:
        """Get a prompt of this window; failure is a result."""
        return await self.run_real(self.request(name, dict(arguments or {}), caller, kind=RequestKind.GET))

    def run(self, call: Request, client: str = "") -> Awaitable[Result]:
        """Run a call by a name that this window shows."""
        if self._is_plain:
            return self.crib.run(call)
        if call.name in META and call.kind is RequestKind.CALL and self.mode_for(client) != "all":
            return self._meta.run(call)
        return self.run_real(call)

    async def run_real(self, call: Request) -> Result:
        """Run a call of a tool of this window; from here on it has the tool's own name and all its arguments."""
        if call.name in READING and call.kind is RequestKind.CALL and self._reads(call.name):
            return await self._meta.run(call)
        if self._settings.profile is None:
            return await self.crib.run(call)
        try:
            route = self.catalog.find(call.kind, call.name) or (await self.current()).find(call.kind, call.name)
            is_part = call.kind in (RequestKind.READ, RequestKind.BROWSE)
            if is_part and (route is None or route.name != call.name):
                route = self._unlisted(call, route)
            if route is None:
                raise self.unknown(call.name, call.caller)
            real, given = self._real(call, route)
        except ToolcribError as error:
            return self.crib.refuse(call, error)
        result = await self.crib.run(real)
        return result if result.error is None else _in_its_words(result.error, result, route, given)

    def _reads(self, name: str) -> bool:
        return bool(self.expose.resources) and name not in self.catalog.routes

    def find_resource(self, name: str, caller: Caller) -> Route | None:
        """Where a resource is read, if the caller may know of it."""
        route = self.catalog.find(RequestKind.READ, name)
        if route is None or route.name != name:
            route = self._unlisted(self.request(name, {}, caller, kind=RequestKind.READ), route)
        return route if route is not None and decide(caller.grants, route.reach).is_listed else None

    def _unlisted(self, call: Request, template: Route | None) -> Route | None:
        """The way to a resource that only a template, or a link in a result, stands for, if the profile has it."""
        route, profile = self.crib.unlisted(call, template), self._settings.profile
        if route is None or (profile is not None and not shows(profile, route, call.name)):
            return None
        return replace(route, name=call.name, real=call.name)

    def _real(self, call: Request, route: Route) -> tuple[Request, dict[str, Any]]:
        """The call as one of the real tool; and what was given, by the names the server knows."""
        dressed, name, context = self._up_to_date().dressed, real_name(route), call.context
        if call.kind is not RequestKind.CALL:
            return msgspec.structs.replace(call, name=name), call.arguments
        given = _as_sent(call.arguments, self.crib.lookup(name) or route)
        context.tooling = _Lent(self, route.name)
        context.withheld = dressed.withheld.get(route.name, frozenset())
        withheld = sorted(context.withheld.intersection((*call.arguments, *given)))
        if withheld and decide(call.caller.grants, route.reach).is_listed:
            raise InvalidArguments(f"{route.name}: {', '.join(withheld)} cannot be given here.", hint="Leave it out.")
        arguments = {**call.arguments, **dressed.fixed.get(route.name, {})}
        return msgspec.structs.replace(call, name=name, arguments=arguments), given

    def unknown(self, name: str, caller: Caller) -> ToolcribError:
        """There is no such tool here; who may not know of all tools learns no more than that."""
        shown = [route.name for route in self.catalog.visible_to(caller.grants)]
        return UnknownTool(name, known=shown) if caller.grants == EVERYTHING else not_open()


def _as_sent(arguments: dict[str, Any], route: Route) -> dict[str, Any]:
    """The arguments under the names they will reach the server by: another spelling is no way around a profile."""
    renamer = Renamer.for_schema(route.tool.input_schema, route.tool.renames) if route.server else None
    return arguments if renamer is None else renamer.apply(arguments)[0]


def _in_its_words(error: ErrorInfo, result: Result, route: Route, given: dict[str, Any]) -> Result:
    """Of arguments that did not fit: what is wrong by the schema that was shown, and no word of what was not."""
    real = f"{real_name(route)}: "
    if error.code != InvalidArguments.code or not error.message.startswith(real):
        return result
    schema = route.tool.input_schema
    check = compile_check(schema)
    problems = check.problems(given) if check.is_quick_for(given) else []
    said = describe(problems, schema) if problems else error.message.removeprefix(real)
    return Result.failed(InvalidArguments(f"{route.name}: {said}", details=error.details))


def _shown(story: Explanation, profile: str, route: Route, dressed: Dressed) -> Explanation:
    """The story of the real tool, with what the profile does to it."""
    reasons = [f"Profile {profile!r} shows {real_name(route)!r} under this name."]
    fixed = dressed.fixed.get(route.name, {})
    hidden = sorted(dressed.withheld.get(route.name, frozenset()) - fixed.keys())
    reasons += [f"It fills in {', '.join(sorted(fixed))}."] if fixed else []
    reasons += [f"It hides {', '.join(hidden)}."] if hidden else []
    facts = {**story.facts, "profile": profile, "real": real_name(route)}
    return replace(story, name=route.name, reasons=(*reasons, *story.reasons), facts=facts)


def with_resources(crib: Crib) -> ProfileView:
    """The Crib for an agent or a framework that knows of tools alone: two tools list and read resources, as long as
    there are any that the caller may read."""
    return ProfileView(crib, ProfileSettings(ExposeConfig(resources="auto")))


class _Lent:
    """The tools of a window as one of them may hand them on: dressed as they are shown, and without that one."""

    def __init__(self, window: ProfileView, lender: str) -> None:
        self._window, self._lender = window, lender

    async def tools(self, *, caller: Caller) -> list[Tool]:
        """What a caller may use of them."""
        return [tool for tool in await self._window.tools(caller=caller) if tool.name != self._lender]

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None, *, caller: Caller, channel: BackChannel
    ) -> Result:
        """Use one of them, as that caller."""
        return await self._window.call(name, arguments or {}, caller=caller, channel=channel)


class Profiles:
    """The windows of a Crib by the names of their profiles; the one without a name shows everything."""

    def __init__(self, crib: Crib, config: Config) -> None:
        self._crib, self._config = crib, config
        self._windows: dict[tuple[str, str], ProfileView] = {}

    @property
    def names(self) -> list[str]:
        """The profiles there are."""
        return list(self._config.profiles)

    def get(self, name: str = "", mode: str = "") -> ProfileView | None:
        """The window of a profile, if there is such a one; with a ``mode``, one that shows all, or a front, anyway."""
        if name and name not in self._config.profiles:
            return None
        if (name, mode) not in self._windows:
            self._windows[name, mode] = ProfileView(self._crib, _settings(exposed_by(self._config, mode), name), name)
        return self._windows[name, mode]

    def need(self, name: str = "", mode: str = "") -> ProfileView:
        """The window of a profile that must be there."""
        window = self.get(name, mode)
        if window is None:
            hint = did_you_mean(name, self.names) or f"Write it: [profiles.{name}]."
            raise ConfigError(f"There is no profile {name!r}.", hint=hint)
        return window

    def apply(self, config: Config) -> None:
        """Follow a change of the configuration; whoever looks through a window that shows something else is told."""
        self._config = config
        for (name, mode), window in list(self._windows.items()):
            window.renew(_settings(exposed_by(config, mode), name))


_NOTHING = ProfileConfig(servers=())
"""What is left of a profile that was taken out while clients use it."""


def _settings(config: Config, name: str) -> ProfileSettings:
    expose = config.expose
    is_flag = str(config.origins.get("expose.mode")) == "flag"
    if is_flag:
        expose = replace(expose, clients={})
    if not name:
        return ProfileSettings(expose)
    profile = config.profiles.get(name, _NOTHING)
    own: dict[str, Any] = {"mode": profile.expose, "budget": profile.budget, "pinned": profile.pinned or None}
    if profile.expose is not None:
        own["clients"] = {}
    if is_flag:
        del own["mode"]
    return ProfileSettings(replace(expose, **{key: value for key, value in own.items() if value is not None}), profile)
