"""What the tools cost in tokens, what of it is used, and what to leave out: the same for CLI, REST and page."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.accounting import Cost, by_server, cost_of, dead_weight, dearest_first, place_of, propose
from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.profile import dress
from toolcrib.config.sections import ProfileConfig
from toolcrib.core.access import EVERYTHING, Grants
from toolcrib.core.errors import AuditUnavailable
from toolcrib.core.tasks import TaskScope
from toolcrib.core.view import View
from toolcrib.server.views.calls import iso
from toolcrib.stores.audit.log import AuditPlace, ToolUsage

DAYS = 30
DAY_US = 86_400_000_000
NEW = 0.95
"""A log that covers a smaller share of the days asked for is said to be younger than that."""
FRESH_S = 600.0

Profiles = Mapping[str, Sequence[Route]]
"""The tools that each profile shows, by its name."""


@dataclass(frozen=True, slots=True)
class CostQuery:
    """What shall be told."""

    days: int = DAYS
    usage: ToolUsage | None = None
    """``None``: nobody knows, or the asker may not."""
    profiles: Profiles = field(default_factory=dict)
    pairs: int = 0
    """How many pairs of confusable tools."""


def profiles_of(whole: Catalog, profiles: Mapping[str, ProfileConfig], grants: Grants) -> Profiles:
    """What each profile shows of the catalogue to whoever has these grants; one that shows a limited caller nothing is
    not named."""
    found = {name: dress(whole, profile, 0).catalog.visible_to(grants) for name, profile in profiles.items()}
    return {name: routes for name, routes in found.items() if grants == EVERYTHING or any(map(_is_own, routes))}


def _is_own(route: Route) -> bool:
    """Whether a tool is there for what it does, and not only to read the results of others."""
    return not route.reach.reads_results


def usage_of(place: AuditPlace, days: int) -> ToolUsage | None:
    """What was called in the last days; ``None`` if there is no log, or none that can be read."""
    try:
        with place.reading() as log:
            return log.usage(time.time_ns() // 1000 - days * DAY_US)
    except AuditUnavailable:
        return None


class RecentUsage:
    """What was called lately, for whoever looks again and again: read anew, beside them, when it has become old."""

    def __init__(
        self, place: Callable[[], AuditPlace], tasks: TaskScope, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._place, self._tasks, self._clock = place, tasks, clock
        self._known: ToolUsage | None = None
        self._due_at = 0.0

    def look(self) -> ToolUsage | None:
        """What is known by now; never waits."""
        if self._clock() >= self._due_at:
            self._due_at = self._clock() + FRESH_S
            self._tasks.spawn(self._read(), "costs.usage")
        return self._known

    async def _read(self) -> None:
        self._known = await asyncio.to_thread(usage_of, self._place(), DAYS)


class CostTotal(View):
    """All tools together."""

    tools: int
    tokens: int


class ServerCost(View):
    """The tools of one server; `native` and `toolcrib` stand for those of this process."""

    name: str
    tools: int
    tokens: int
    calls: int | None
    unused: int | None


class ToolCost(View):
    """One tool."""

    name: str
    server: str
    tokens: int
    calls: int | None
    last_used: str | None


class UsageView(View):
    """What was called, as far as the audit log goes back."""

    days: int
    since: str
    covered_days: float
    used: int
    unused: list[str]
    unused_tokens: int


class ConfusablePair(View):
    """Two tools that are easily taken for one another; at a score of 1 nothing tells them apart."""

    tools: list[str]
    score: float
    why: str


class ProfileProposal(View):
    """A profile of what was used, with what it would save."""

    name: str
    tools: list[str]
    tokens: int
    saved: int
    toml: str


class CostReport(View):
    """What the tools cost, the dearest first."""

    total: CostTotal
    servers: list[ServerCost]
    tools: list[ToolCost]
    profiles: list[Cost]
    usage: UsageView | None
    confusable: list[ConfusablePair]
    proposal: ProfileProposal | None


def cost_report(routes: Sequence[Route], asked: CostQuery) -> CostReport:
    """The whole account."""
    used = asked.usage.tools if asked.usage is not None else None
    whole = cost_of("", routes)
    return CostReport(
        total=CostTotal(whole.tools, whole.tokens),
        servers=[_server(name, held, used) for name, held in by_server(routes).items()],
        tools=[_tool(route, asked.usage) for route in dearest_first(routes)],
        profiles=[cost_of(name, shown) for name, shown in asked.profiles.items()],
        usage=None if asked.usage is None else _usage(routes, asked.usage, asked.days),
        confusable=_confusable(routes, asked.pairs) if asked.pairs else [],
        proposal=None if used is None else _proposal(routes, used),
    )


def _server(name: str, routes: Sequence[Route], used: Mapping[str, Any] | None) -> ServerCost:
    calls = None if used is None else sum(used[route.name].calls for route in routes if route.name in used)
    unused = None if used is None else len(dead_weight(routes, used))
    return ServerCost(name, len(routes), cost_of(name, routes).tokens, calls, unused)


def _tool(route: Route, usage: ToolUsage | None) -> ToolCost:
    use = usage.tools.get(route.name) if usage is not None else None
    calls = None if usage is None else use.calls if use else 0
    return ToolCost(route.name, place_of(route), route.tokens, calls, iso(use.last_us) if use else None)


def _usage(routes: Sequence[Route], usage: ToolUsage, days: int) -> UsageView:
    unused = dead_weight(routes, usage.tools)
    return UsageView(
        days=days,
        since=iso(usage.since_us),
        covered_days=round(covered_days(usage, days), 1),
        used=sum(route.name in usage.tools for route in routes),
        unused=[route.name for route in unused],
        unused_tokens=cost_of("", unused).tokens,
    )


def covered_days(usage: ToolUsage, days: int) -> float:
    """How many of the days the log knows of."""
    return min(float(days), max(0.0, (time.time_ns() // 1000 - usage.since_us) / DAY_US))


def _confusable(routes: Sequence[Route], count: int) -> list[ConfusablePair]:
    from toolcrib.catalog.confusable import find_confusable  # late: loads numpy

    return [ConfusablePair([pair.first, pair.second], pair.score, pair.why) for pair in find_confusable(routes, count)]


def _proposal(routes: Sequence[Route], used: Mapping[str, Any]) -> ProfileProposal | None:
    found = propose(routes, used)
    if found is None:
        return None
    return ProfileProposal(found.name, list(found.tools), found.tokens, found.saved, found.to_toml())


def summary(routes: Sequence[Route], usage: ToolUsage | None, days: int = DAYS) -> str:
    """One line: how much there is, and how much of it nobody uses."""
    cost = cost_of("", routes)
    told = f"{cost.tools} tool{'s' * (cost.tools != 1)}, ~{cost.tokens:,} tokens"
    return "; ".join(filter(None, (told, unused_line(routes, usage, days))))


def unused_line(routes: Sequence[Route], usage: ToolUsage | None, days: int = DAYS) -> str:
    """How much nobody uses; nothing while the log is too young, or too empty, to be held against the tools."""
    if usage is None or not usage.tools or covered_days(usage, days) < 1:
        return ""
    unused = len(dead_weight(routes, usage.tools))
    return f"{unused} not used in {span(usage, days)}" if unused else ""


def span(usage: ToolUsage, days: int) -> str:
    """``30 days``, or how long the log goes back if that is less."""
    covered = covered_days(usage, days)
    if covered < 1:
        return "the hours the log goes back"
    told = days if covered >= NEW * days else round(covered)
    return f"{told} day{'s' * (told != 1)}"
