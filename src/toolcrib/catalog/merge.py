"""Many listings into one catalog: prefixes, conflicts, order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from toolcrib.catalog.catalog import Catalog, LeftOut, LeftOutKind, Route
from toolcrib.catalog.levels import ToolRules
from toolcrib.config.model import BUILT_IN_PARAMETERS, ServerConfig, ToolConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import HoldReason, Policy
from toolcrib.core.limits import ToolLimits
from toolcrib.core.names import join_name
from toolcrib.core.offers import Offer, OfferKind, Tool, offer_key, to_mcp
from toolcrib.core.source import Source

View = Callable[[str, Offer], tuple[Offer, Policy]]
"""From an exposed name and an offer to the offer as it is shown, and its policy (``disable`` hides it)."""

_DISABLED = LeftOut(LeftOutKind.DISABLED, "disabled in the configuration")
CAPACITY = 10_000


@dataclass(frozen=True, slots=True)
class Offering:
    """What one source brings to the catalog."""

    source: Source
    tools: Sequence[Tool]
    view: View | None = None
    held: Mapping[str, HoldReason] = field(default_factory=dict)
    """What is in quarantine, by its key at the source, and why."""
    others: Sequence[Offer] = ()
    quiet: Sequence[Tool] = ()
    """Tools that can be called and are not listed."""

    def route(self, name: str, server: str, offer: Offer) -> Route | None:
        """The way to one offer under its exposed name; ``None`` if it shall not be offered."""
        shown, policy = self.view(name, offer) if self.view else (offer, Policy.ALLOW)
        if policy == Policy.DISABLE:
            return None
        return Route(name, server, shown, self.source, policy, self.held.get(offer.key))

    def other_routes(self, server: str, left_out: dict[str, LeftOut], *, prefix: bool) -> dict[str, Route]:
        """The ways to what are no tools, by key; of two with one name the first stays."""
        routes: dict[str, Route] = {}
        for offer in sorted(self.others, key=lambda offer: offer.name):
            name = join_name(server, offer.name) if prefix else offer.name
            route, key = self.route(name, server, offer), offer_key(offer.kind, name)
            if route is not None:
                routes.setdefault(key, route)
            else:
                left_out[key] = _DISABLED
        return routes


INTERNAL = "safeInternal"
"""The annotation of a tool that is meant for programs: it can be called, and no list shows it."""


def is_internal(tool: Offer) -> bool:
    """Whether a tool says of itself that nobody is to be shown it."""
    return tool.annotations.get(INTERNAL) is True


@dataclass(frozen=True, slots=True)
class SourceRoutes:
    """The routes to one source's tools, as far as they do not depend on other sources."""

    server: str
    routes: Mapping[str, Route]
    """By exposed name, in the order of the source's own names."""
    left_out: Mapping[str, LeftOut]
    others: Mapping[str, Route] = field(default_factory=dict)
    """To what are no tools, by key."""
    quiet: Mapping[str, Route] = field(default_factory=dict)
    """To tools that are not listed."""


def native_routes(offer: Offering) -> SourceRoutes:
    """The routes to native tools, which keep their names."""
    offered = {tool.name: offer.route(tool.name, "", tool) for tool in (*offer.tools, *offer.quiet)}
    unlisted = {tool.name for tool in offer.quiet} | {tool.name for tool in offer.tools if is_internal(tool)}
    found = {name: route for name, route in offered.items() if route is not None}
    routes = {name: route for name, route in found.items() if name not in unlisted}
    quiet = {name: route for name, route in found.items() if name in unlisted}
    left_out = {name: _DISABLED for name, route in offered.items() if route is None}
    return SourceRoutes("", routes, left_out, offer.other_routes("", left_out, prefix=False), quiet)


def server_routes(offer: Offering, *, prefix: bool) -> SourceRoutes:
    """The routes to one server's tools; of two tools with one name the first stays."""
    server, routes, left_out = offer.source.name, dict[str, Route](), dict[str, LeftOut]()
    quiet = dict[str, Route]()
    for tool in sorted(offer.tools, key=lambda tool: tool.name):
        name = join_name(server, tool.name) if prefix else tool.name
        route = offer.route(name, server, tool)
        if route is None:
            left_out[name] = _DISABLED
        elif is_internal(tool):
            quiet[name] = route
        elif name in routes:
            left_out[join_name(server, tool.name)] = _conflict(server, routes[name])
        else:
            routes[name] = route
    return SourceRoutes(server, routes, left_out, offer.other_routes(server, left_out, prefix=prefix), quiet)


class Room(NamedTuple):
    """What the catalogue may hold."""

    tools: int = CAPACITY
    memory: int = 0
    """Bytes of definitions; zero is no limit."""

    def taken_by(self, routes: Iterable[Route]) -> int:
        """How much of the memory these tools take; nothing where there is no limit, since it takes a while to tell."""
        return sum(len(_encode(to_mcp(route.tool))) for route in routes) if self.memory else 0


ROOM = Room()
_encode = msgspec.json.Encoder(enc_hook=str).encode


def merge(
    native: Offering, servers: Iterable[Offering], *, prefix: bool = True, room: Room = ROOM, version: int = 0
) -> Catalog:
    """One catalog of all offers; native tools are never shadowed, and the first server by name keeps a shared name.

    Beyond the ``room`` the tools of the servers that come last by name are left out, and of each the last by name.
    """
    return join_routes(native_routes(native), [server_routes(offer, prefix=prefix) for offer in servers], room, version)


def join_routes(native: SourceRoutes, servers: Iterable[SourceRoutes], room: Room, version: int) -> Catalog:
    """One catalog of what all sources have, by the same rules."""
    routes, left_out, others = dict(native.routes), dict(native.left_out), dict(native.others)
    quiet, taken = native.quiet, room.taken_by(native.routes.values())
    for part in sorted(servers, key=lambda part: part.server):
        left_out.update(part.left_out)
        more = room.taken_by(part.routes.values())
        fits = len(routes) + len(part.routes) <= room.tools and (not room.memory or taken + more <= room.memory)
        if fits and routes.keys().isdisjoint(part.routes):
            routes.update(part.routes)  # nearly always so, and a hundred times faster than one by one
            taken += more
        else:
            taken = _add_server(part, routes, left_out, room, taken)
        if part.others:
            others = {**part.others, **others}  # who comes first keeps a shared name
        if part.quiet:
            quiet = {**part.quiet, **quiet}
    by_name = {name: routes[name] for name in sorted(routes)}
    sorted_others = {key: others[key] for key in sorted(others)}
    return Catalog(by_name, left_out, version, others=sorted_others, quiet=quiet)


def _add_server(
    part: SourceRoutes, routes: dict[str, Route], left_out: dict[str, LeftOut], room: Room, taken_bytes: int
) -> int:
    """Add what there is room for; how many bytes are taken then."""
    for name, route in part.routes.items():
        taken = routes.get(name)
        if taken is not None:
            left_out[join_name(part.server, route.original_name)] = _conflict(part.server, taken)
        elif len(routes) >= room.tools:
            reason = f"the catalogue is full at {room.tools} tools ([catalog] capacity)"
            left_out[name] = LeftOut(LeftOutKind.FULL, reason)
        elif room.memory and taken_bytes + room.taken_by([route]) > room.memory:
            reason = f"the definitions take all of {room.memory} bytes ([catalog] memory)"
            left_out[name] = LeftOut(LeftOutKind.FULL, reason)
        else:
            routes[name] = route
            taken_bytes += room.taken_by([route])
    return taken_bytes


def _conflict(server: str, taken: Route) -> LeftOut:
    kind = LeftOutKind.TAKEN_BY_SERVER if taken.server else LeftOutKind.TAKEN_BY_NATIVE
    holder = f"server {taken.server!r}" if taken.server else "a native tool"
    return LeftOut(kind, f"{taken.name!r} of server {server!r} is left out: the name is taken by {holder}")


def beyond_capacity(catalog: Catalog) -> list[str]:
    """The names there was no room for."""
    return [name for name, why in catalog.left_out.items() if why.kind is LeftOutKind.FULL]


def refuse_clashes(catalog: Catalog) -> None:
    """Without prefixes no two servers may have a name in common.

    A native tool's name is no error: that tool stays, so all a server gains by claiming the name is to be left out.
    """
    found = [why.reason for why in catalog.left_out.values() if why.kind is LeftOutKind.TAKEN_BY_SERVER]
    if found:
        raise ConfigError(
            "Without prefixes every tool name must be unique: " + "; ".join(found) + ".",
            hint="Drop --no-prefix, or disable one of them.",
        )


PLAIN = ToolConfig()


def configured_view(server: ServerConfig, security: SecurityConfig) -> View:
    """Give each tool of a server the level, limits and translations that hold for it."""
    rules, plain_limits = ToolRules(server, security), ToolLimits(None, server.rate, server.parallel)

    def view(name: str, tool: Offer) -> tuple[Offer, Policy]:
        wishes = server.tools.get(tool.name, PLAIN) if tool.kind is OfferKind.TOOL else PLAIN
        leveled, known = rules.level(name, tool), BUILT_IN_PARAMETERS.get(tool.name)
        shown = replace(
            tool,
            timeout_s=wishes.timeout_s or tool.timeout_s or server.call_timeout_s,
            renames={**known, **wishes.parameters} if known else wishes.parameters,
            replayable=leveled.may_run_twice if wishes.replayable is None else wishes.replayable,
            security_level=leveled.level,
            capabilities=tool.capabilities.union(wishes.capabilities),
            limits=plain_limits if wishes.rate is None else ToolLimits(wishes.rate, server.rate, server.parallel),
            result_limit=wishes.result_limit,
        )
        return shown, rules.policy(name, tool).policy if wishes.enabled else Policy.DISABLE

    return view


def native_view(security: SecurityConfig) -> View:
    """Native tools state their own level; patterns of the configuration may override level and policy."""
    rules = ToolRules(None, security)

    def view(name: str, tool: Offer) -> tuple[Offer, Policy]:
        level = rules.level(name, tool).level
        shown = tool if level is tool.security_level else replace(tool, security_level=level)
        if tool.reads_results and name not in security.policies:
            return shown, Policy.ALLOW  # what a caller was given, it may read on
        return shown, rules.policy(name, tool).policy

    return view
