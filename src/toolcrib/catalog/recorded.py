"""The catalogue of the record: what a configuration and its lock say, without any source, process or event loop.

The running Crib puts its catalogue together from the same parts, so for the same lock both show the same tools.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.entries import KnownServer, ToolEntry, tool_entry
from toolcrib.catalog.merge import Offering, Room, configured_view, merge, native_view
from toolcrib.catalog.pins import comparison, held_tools, keep_definitions
from toolcrib.config.lock import Record
from toolcrib.config.model import Config, ServerConfig, config_hash, has_result_limit
from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import DiscoveryStatus, HoldReason, PinMode
from toolcrib.core.names import RESULT_READ, is_tool_name
from toolcrib.core.offers import Offer, OfferKind, SecurityLevel, Tool, from_mcp, other_from_mcp
from toolcrib.core.requests import Request, Result
from toolcrib.core.source import Listing


def fitting_record(server: ServerConfig, record: Record | None) -> Record:
    """What still counts of a record: of one that was made of another configuration, only what was accepted."""
    if record is None:
        return Record(server.name)
    if record.config_hash != config_hash(server):
        return Record(server.name, pins=keep_definitions(record), entry=record.entry)
    return record


def recorded_tools(record: Record) -> tuple[Tool, ...]:
    """The tools of a record, as far as they still are definitions: the lock is a file, and files get edited."""
    if not record.last_discovery:
        return ()
    return tuple(from_mcp(shown) for shown in record.tools if _is_usable(shown))


def recorded_others(record: Record) -> tuple[Offer, ...]:
    """The same of its resources, templates and prompts."""
    found: list[Offer] = []
    for key, shown in record.others.items() if record.last_discovery else ():
        with suppress(ValueError, KeyError):  # no such kind, or no name
            found.append(other_from_mcp(OfferKind(key.partition(" ")[0]), shown))
    return tuple(found)


def is_known(record: Record) -> bool:
    """Whether the server was listed successfully at least once, even if it had no tools."""
    has_offers = bool(record.tools or record.others)
    return bool(record.last_discovery) and (record.status is DiscoveryStatus.SUCCESS or has_offers)


def _is_usable(shown: Mapping[str, Any]) -> bool:
    name, schema = shown.get("name"), shown.get("inputSchema")
    return isinstance(name, str) and is_tool_name(name) and (schema is None or isinstance(schema, Mapping))


@dataclass(frozen=True, slots=True)
class Absent:
    """A source of which only the name is known: it lists nothing and cannot be called."""

    name: str = ""

    async def list_offers(self) -> Listing:
        """Nothing."""
        return Listing(())

    async def answer(self, call: Request) -> Result:
        """Refused."""
        raise SourceUnavailable(f"{call.name} is only known from the record.", hint="Open a session to call it.")

    def on_change(self, listener: object) -> None:
        """It never changes."""

    async def close(self) -> None:
        """There is nothing to let go of."""


@dataclass(frozen=True, slots=True)
class RecordedServer:
    """What the lock holds of one enabled server, in place of a running one."""

    config: ServerConfig
    record: Record

    @property
    def status(self) -> DiscoveryStatus:
        """What its last discovery came to."""
        return self.record.status

    def offering(self, config: Config) -> Offering:
        """What it brings to the catalogue."""
        view = configured_view(self.config, config.security)
        tools, others = recorded_tools(self.record), recorded_others(self.record)
        return Offering(Absent(self.config.name), tools, view, self.held(config.security.pins), others)

    def held(self, mode: PinMode) -> Mapping[str, HoldReason]:
        """What of it is in quarantine, by key, and why."""
        return held_tools(self.record, comparison(self.config, mode, ""))


@dataclass(frozen=True, slots=True)
class Named:
    """The native tools of a configuration, as far as they are known without running anybody's code."""

    tools: tuple[Tool, ...] = ()
    unseen: frozenset[str] = frozenset()
    """Those of which only the name is known."""


_INTERNAL = Tool(RESULT_READ, security_level=SecurityLevel.READ_ONLY, reads_results=True)
"""It takes a place in the catalogue, though nobody is shown it here."""


def offered(routes: Iterable[Route]) -> list[Route]:
    """The routes without those to toolcrib's own tools, which only serve results of others."""
    return [route for route in routes if not route.tool.reads_results]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A catalogue, and what is remembered of its servers."""

    catalog: Catalog
    servers: Mapping[str, KnownServer] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()

    def entries(self) -> list[ToolEntry]:
        """Every tool with its kind, policy and discovery, as the running catalogue shows it; not toolcrib's own."""
        return [self.entry(route) for route in offered(self.catalog.routes.values())]

    def entry(self, route: Route) -> ToolEntry:
        """One of them."""
        entry = tool_entry(route, self.servers.get(route.server))
        is_unseen = not route.server and route.name in self.unseen
        return msgspec.structs.replace(entry, discovery_status=DiscoveryStatus.NEVER) if is_unseen else entry


def recorded_catalog(
    config: Config, records: Mapping[str, Record], native: Named | None = None, *, prefix: bool = True
) -> Recorded:
    """The catalogue as discovery left it; starts nothing and waits for nobody."""
    enabled = (server for server in config.servers.values() if server.enabled)
    servers = {
        server.name: RecordedServer(server, fitting_record(server, records.get(server.name))) for server in enabled
    }
    named = native or Named()
    internal = (_INTERNAL,) if has_result_limit(config) else ()
    own = Offering(Absent(), (*named.tools, *internal), native_view(config.security))
    offers = _offerings(servers.values(), config)
    return Recorded(
        merge(own, offers, prefix=prefix, room=Room(config.capacity, config.catalog_memory)), servers, named.unseen
    )


def _offerings(servers: Iterable[RecordedServer], config: Config) -> Sequence[Offering]:
    return [server.offering(config) for server in servers if is_known(server.record)]
