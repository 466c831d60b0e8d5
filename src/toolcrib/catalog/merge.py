"""Many listings into one catalog: prefixes, conflicts, order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.core.errors import ConfigError
from toolcrib.core.names import join_name
from toolcrib.core.source import ToolSource
from toolcrib.core.tool import Tool

View = Callable[[str, Tool], tuple[Tool, str]]
"""A list-time wish: for an exposed name and a tool, the tool as it shall be, and its policy (``disable`` hides it)."""

_DISABLED = "disabled in the configuration"


CAPACITY = 10_000
FULL = "the catalogue is full"


@dataclass(frozen=True, slots=True)
class Offering:
    """What one source brings to the catalog."""

    source: ToolSource
    tools: Sequence[Tool]
    view: View | None = None
    held: Mapping[str, str] = field(default_factory=dict)
    """The source's names for tools in quarantine, and why."""

    def route(self, name: str, server: str, tool: Tool) -> Route | None:
        """The way to one tool under its exposed name; ``None`` if it shall not be offered."""
        shown, policy = self.view(name, tool) if self.view else (tool, "allow")
        return (
            None
            if policy == "disable"
            else Route(name, server, shown, self.source, policy, self.held.get(tool.name, ""))
        )


def merge(
    native: Offering, servers: Sequence[Offering], *, prefix: bool = True, capacity: int = CAPACITY, version: int = 0
) -> Catalog:
    """One catalog of all offers; native tools are never shadowed, and the first server by name keeps a shared name.

    Beyond ``capacity`` the tools of the servers that come last by name are left out, and of each the last by name.
    """
    offered = {tool.name: native.route(tool.name, "", tool) for tool in native.tools}
    routes = {name: route for name, route in offered.items() if route is not None}
    left_out = dict.fromkeys(offered.keys() - routes.keys(), _DISABLED)
    for offer in sorted(servers, key=lambda offer: offer.source.name):
        _add_server(offer, routes, left_out, prefix=prefix, capacity=capacity)
    return Catalog(dict(sorted(routes.items())), left_out, version)


def _add_server(
    offer: Offering, routes: dict[str, Route], left_out: dict[str, str], *, prefix: bool, capacity: int
) -> None:
    server = offer.source.name
    for tool in sorted(offer.tools, key=lambda tool: tool.name):
        name = join_name(server, tool.name) if prefix else tool.name
        route = offer.route(name, server, tool)
        taken = routes.get(name)
        if route is None:
            left_out[name] = _DISABLED
        elif taken is not None:
            left_out[join_name(server, tool.name)] = _conflict(server, taken)
        elif len(routes) >= capacity:
            left_out[name] = f"{FULL} at {capacity} tools ([catalog] capacity)"
        else:
            routes[name] = route


_BY_NATIVE = "the name is taken by a native tool"


def _conflict(server: str, taken: Route) -> str:
    if not taken.server:
        return f"{taken.name!r} of server {server!r} is left out: {_BY_NATIVE}"
    holder = f"server {taken.server!r}"
    return f"{taken.name!r} of server {server!r} is left out: the name is taken by {holder}"


def clashes(catalog: Catalog) -> Mapping[str, str]:
    """The names that two sources claim; with prefixes there are none between servers."""
    return {name: reason for name, reason in catalog.left_out.items() if "is taken by" in reason}


def beyond_capacity(catalog: Catalog) -> list[str]:
    """The names there was no room for."""
    return [name for name, reason in catalog.left_out.items() if reason.startswith(FULL)]


def refuse_clashes(catalog: Catalog) -> None:
    """Without prefixes no two servers may have a name in common.

    A native tool's name is no error: that tool stays, so all a server gains by claiming the name is to be left out.
    """
    found = [reason for reason in clashes(catalog).values() if not reason.endswith(_BY_NATIVE)]
    if found:
        raise ConfigError(
            "Without prefixes every tool name must be unique: " + "; ".join(found) + ".",
            hint="Drop --no-prefix, or disable one of them.",
        )
