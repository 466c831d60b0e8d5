"""The tools somebody may see, and those that fit what they look for."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from toolcrib.catalog.catalog import Route
from toolcrib.core.access import NATIVE
from toolcrib.crib import Crib
from toolcrib.doors.http.answers import not_found
from toolcrib.doors.http.visit import Visit

PAGE = 100
MEANT = 20
"""Tools shown at most where none holds the very words."""
HELD = "held"
DISABLED = "disable"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for."""

    q: str = ""
    server: str = ""
    level: str = ""
    policy: str = ""
    """A policy, or ``held`` for what is in quarantine."""

    @classmethod
    def of(cls, visit: Visit) -> "Wanted":
        """From an address."""
        query = visit.query
        return cls(*(query.get(name, "").strip()[:200] for name in ("q", "server", "level", "policy")))

    @property
    def is_anything(self) -> bool:
        """Whether nothing in particular is looked for."""
        return self == Wanted()

    def address(self, page: int = 1) -> str:
        """Where this is shown."""
        found = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name)}
        query = urlencode(found | ({"page": str(page)} if page > 1 else {}))
        return f"/tools?{query}" if query else "/tools"

    def fits(self, route: Route, words: Sequence[str]) -> bool:
        """Whether a tool is wanted."""
        if self.server and self.server != (route.server or NATIVE):
            return False
        if self.level and self.level != route.tool.security_level:
            return False
        if self.policy and self.policy != (HELD if route.held else route.policy):
            return False
        text = f"{route.name} {route.tool.description}".casefold() if words else ""
        return all(word in text for word in words)


def tool_address(name: str) -> str:
    """The page of a tool."""
    return f"/tools/{quote(name, safe='')}"


def visible(crib: Crib, visit: Visit) -> list[Route]:
    """What somebody is shown: operators everything, others what they may use."""
    return list(crib.catalog.routes.values()) if visit.is_operator() else crib.catalog.visible_to(visit.caller.grants)


def known_tool(crib: Crib, visit: Visit) -> Route:
    """The tool an address names, if its visitor may know of it."""
    name = visit.params["name"]
    route = crib.lookup(name)
    if route is None or (not visit.is_operator() and route not in crib.catalog.visible_to(visit.caller.grants)):
        raise not_found("tool", name, "Look for it in the list of tools.")
    return route


async def find_tools(crib: Crib, routes: Sequence[Route], wanted: Wanted) -> list[Route]:
    """What holds all the words, names that begin with the first one before others; if nothing does, what is meant."""
    words = wanted.q.casefold().split()
    found = [route for route in routes if wanted.fits(route, words)]
    if not words:
        return found
    if not found:
        others = [route for route in routes if wanted.fits(route, ())]
        return [hit.route for hit in await crib.find(wanted.q, MEANT, among=others)]
    return sorted(found, key=lambda route: (*_rank(route.name.casefold(), route.original_name.casefold(), words[0]),))


def _rank(name: str, original: str, word: str) -> tuple[bool, bool, str]:
    return not (name.startswith(word) or original.startswith(word)), word not in name, name
