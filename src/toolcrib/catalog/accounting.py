"""What tools cost a model before it begins, what of it was used, and what could be left out."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from toolcrib.catalog.catalog import Route
from toolcrib.core.access import NATIVE
from toolcrib.core.names import is_own

OWN = "toolcrib"
"""Under this name stand toolcrib's own tools, beside the servers'."""
LEAN = "lean"
ENOUGH = 0.05
"""A profile that saves a smaller share is not worth proposing."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What some tools come to."""

    name: str
    tools: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A profile of what was used, and what it would save in every conversation."""

    tools: tuple[str, ...]
    tokens: int
    saved: int
    name: str = LEAN

    def to_toml(self) -> str:
        """To be pasted into the configuration."""
        listed = "".join(f'  "{name}",\n' for name in self.tools)
        return f"[profiles.{self.name}]\ntools = [\n{listed}]\n"


def place_of(route: Route) -> str:
    """The server a tool is counted under; ``native`` for this process, ``toolcrib`` for what toolcrib brings along."""
    return route.server or (OWN if is_own(route.name) else NATIVE)


def cost_of(name: str, routes: Collection[Route]) -> Cost:
    """What these tools come to together."""
    return Cost(name, len(routes), sum(route.tokens for route in routes))


def by_server(routes: Iterable[Route]) -> dict[str, list[Route]]:
    """The tools of each place, the dearest place first."""
    places: dict[str, list[Route]] = {}
    for route in routes:
        places.setdefault(place_of(route), []).append(route)
    return dict(sorted(places.items(), key=lambda pair: (-cost_of(*pair).tokens, pair[0])))


def dearest_first(routes: Iterable[Route]) -> list[Route]:
    """By cost, then by name."""
    return sorted(routes, key=lambda route: (-route.tokens, route.name))


def dead_weight(routes: Iterable[Route], used: Collection[str]) -> list[Route]:
    """What nobody called, the dearest first; what reads large results is part of every profile."""
    return dearest_first(route for route in routes if route.name not in used and not route.tool.reads_results)


def propose(routes: Sequence[Route], used: Collection[str]) -> Proposal | None:
    """A profile of the used tools; nothing if none was used, or if it would save next to nothing."""
    kept = sorted(route.name for route in routes if route.name in used and not route.tool.reads_results)
    saved = cost_of("", dead_weight(routes, used)).tokens
    total = cost_of("", routes).tokens
    if not kept or saved < ENOUGH * total:
        return None
    return Proposal(tuple(kept), total - saved, saved)
