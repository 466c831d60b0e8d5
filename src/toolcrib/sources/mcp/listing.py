"""What an MCP server offers, asked page by page, of every kind; each entry made harmless."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.core.errors import DefinitionError, InvalidName, ProtocolError, RemoteError
from toolcrib.core.offers import Offer, OfferKind, Tool, from_mcp, other_from_mcp
from toolcrib.core.source import Listing, ListPage
from toolcrib.schema.sanitise import sanitise_other, sanitise_tool
from toolcrib.schema.text import clean_text
from toolcrib.sources.mcp.negotiate import Agreement
from toolcrib.wire.jsonrpc import METHOD_NOT_FOUND, decode

TOOLS_MAX = 2000
"""Entries of one kind."""
TEMPLATES_MAX = 256
"""A URI that no list contains is held against each of them."""
PAGES_MAX = 100
CURSOR_MAX = 1024
BREATH = 100
"""So many definitions are read before the event loop gets its turn."""
INSTRUCTIONS_MAX = 16 * 1024


class _Page(msgspec.Struct):
    tools: list[Raw] | None = None
    resources: list[Raw] | None = None
    resource_templates: list[Raw] | None = msgspec.field(default=None, name="resourceTemplates")
    prompts: list[Raw] | None = None
    skills: list[Raw] | None = None
    next_cursor: str | None = msgspec.field(default=None, name="nextCursor")
    ttl_ms: float | None = msgspec.field(default=None, name="ttlMs")


_page = msgspec.json.Decoder(_Page)

METHODS: Mapping[OfferKind, str] = {
    OfferKind.TOOL: "tools/list",
    OfferKind.RESOURCE: "resources/list",
    OfferKind.TEMPLATE: "resources/templates/list",
    OfferKind.PROMPT: "prompts/list",
    OfferKind.SKILL: "skills/list",
}
_CAPABILITY = {
    OfferKind.TOOL: "tools",
    OfferKind.RESOURCE: "resources",
    OfferKind.TEMPLATE: "resources",
    OfferKind.PROMPT: "prompts",
    OfferKind.SKILL: "skills",
}

Ask = Callable[[str, str | None], Awaitable[Raw]]
"""Asks one page of a method, from a cursor on."""


@dataclass(slots=True)
class _Collected:
    """What the pages of one kind add up to."""

    kind: OfferKind
    offers: dict[str, Offer] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    ttl_s: float | None = None
    entries: int = 0
    """How many were looked at, good or bad."""
    pages: list[tuple[str, int]] = field(default_factory=list)
    """The cursor of each page, and how many offers there were before it."""

    def as_listed(self) -> tuple[ListPage, ...]:
        """The pages as the server has them; none if its cursors are too long to be kept."""
        names, starts = list(self.offers), [start for _, start in self.pages] + [len(self.offers)]
        if any(len(cursor) > CURSOR_MAX for cursor, _ in self.pages):
            return ()
        return tuple((cursor, tuple(names[start : starts[n]])) for n, (cursor, start) in enumerate(self.pages, 1))


class OfferLister:
    """Lists one server; ``accept`` may refuse a tool that is fine in itself, by raising ``ValueError``."""

    def __init__(self, server: str, ask: Ask, accept: Callable[[Tool], None]) -> None:
        self._server, self._ask, self._accept = server, ask, accept

    async def ask(self, agreement: Agreement) -> Listing:
        """All that the server says it has; one bad entry costs only itself, and a list that fails only its kind."""
        said: Collection[str] = {*agreement.capabilities, *agreement.features}
        if not agreement.capabilities:  # one that says nothing is asked for all but extensions
            said = [name for name in _CAPABILITY.values() if name != "skills"]
        kinds = [kind for kind in OfferKind if kind is OfferKind.TOOL or _CAPABILITY[kind] in said]
        parts = await asyncio.gather(*(self._of_kind(kind, agreement) for kind in kinds))
        tools, *others = parts
        ttls = [part.ttl_s for part in parts if part.ttl_s is not None]
        return Listing(
            tuple(_sorted(tools)),  # type: ignore[arg-type]  # the first kind is that of tools
            min(ttls, default=None),
            tuple(problem for part in parts for problem in part.problems),
            agreement.version,
            tuple(offer for part in others for offer in _sorted(part)),
            clean_text(agreement.instructions[:INSTRUCTIONS_MAX]),
            agreement.features,
            pages={part.kind: part.as_listed() for part in parts},
        )

    async def _of_kind(self, kind: OfferKind, agreement: Agreement) -> _Collected:
        collected = _Collected(kind)
        try:
            await self._all_pages(kind, collected)
        except RemoteError as error:
            is_missing = error.rpc_code == METHOD_NOT_FOUND
            if kind is OfferKind.TOOL and (not is_missing or "tools" in agreement.capabilities):
                raise
            if not is_missing:
                collected.problems.append(f"{METHODS[kind]} failed: {error.message[:200]}")
        except ProtocolError as error:
            if kind is OfferKind.TOOL:
                raise
            collected.problems.append(error.message)
        return collected

    async def _all_pages(self, kind: OfferKind, collected: _Collected) -> None:
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            page = await self._fetch(METHODS[kind], cursor)
            collected.pages.append((cursor or "", len(collected.offers)))
            is_whole = await self._collect(page, collected)
            cursor = page.next_cursor or ""
            if is_whole and not cursor:
                return
            if not is_whole or cursor in seen or len(seen) == PAGES_MAX - 1:
                what = _CAPABILITY[kind]
                collected.problems.append(f"the list was cut: the server repeats its pages or has too many {what}")
                return
            seen.add(cursor)

    async def _fetch(self, method: str, cursor: str | None) -> _Page:
        raw = await self._ask(method, cursor)
        try:
            return _page.decode(raw)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"Server {self._server!r} answered {method} with something else: {error}") from None

    async def _collect(self, page: _Page, collected: _Collected) -> bool:
        """Add a page's entries, a few at a time; whether there was room for all."""
        if page.ttl_ms is not None:
            collected.ttl_s = max(0.0, page.ttl_ms / 1000)
        for shown in _entries(page, collected.kind):
            if collected.entries == (TEMPLATES_MAX if collected.kind is OfferKind.TEMPLATE else TOOLS_MAX):
                return False
            collected.entries += 1
            if collected.entries % BREATH == 0:
                await asyncio.sleep(0)
            self._add(shown, collected)
        return True

    def _add(self, shown: Raw, collected: _Collected) -> None:
        try:
            offer = self._read(collected.kind, decode(shown), collected.problems)
        except (DefinitionError, InvalidName, ValueError, RecursionError) as error:
            collected.problems.append(f"left out: {error}")
            return
        if offer.name in collected.offers:
            collected.problems.append(f"left out: {offer.name!r} is listed twice")
        else:
            collected.offers[offer.name] = offer

    def _read(self, kind: OfferKind, shown: Any, problems: list[str]) -> Offer:
        if not isinstance(shown, Mapping):
            raise InvalidName(f"an entry of the {kind} list is no object")
        if kind is not OfferKind.TOOL:
            clean, notes = sanitise_other(kind, shown)
            offer = other_from_mcp(kind, clean)
            problems.extend(f"{offer.name!r}: {note}" for note in notes)
            return offer
        clean, notes = sanitise_tool(shown)
        if not clean.get("description"):
            clean = {**clean, "description": f"{self._server} tool: {clean['name']}"}
        tool = from_mcp(clean)
        problems.extend(f"{tool.name!r}: {note}" for note in notes)
        self._accept(tool)
        return tool


def _entries(page: _Page, kind: OfferKind) -> list[Raw]:
    match kind:
        case OfferKind.TOOL:
            found = page.tools
        case OfferKind.RESOURCE:
            found = page.resources
        case OfferKind.TEMPLATE:
            found = page.resource_templates
        case OfferKind.PROMPT:
            found = page.prompts
        case OfferKind.SKILL:
            found = page.skills
    return found or []


def _sorted(collected: _Collected) -> list[Offer]:
    return sorted(collected.offers.values(), key=lambda offer: offer.name)
