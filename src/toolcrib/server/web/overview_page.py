"""The overview: how everything is doing, and what needs a person."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from toolcrib.calls.metrics import BOUNDS_S, Metrics, ToolMetrics, quantile_of
from toolcrib.catalog.accounting import by_server, cost_of
from toolcrib.catalog.catalog import Route
from toolcrib.core.coordination import CoordinationStatus
from toolcrib.core.kinds import ServerState
from toolcrib.core.names import is_own
from toolcrib.server.answers import HttpAnswer
from toolcrib.server.views.caller import CallerView
from toolcrib.server.views.calls import QuestionEntry
from toolcrib.server.views.costs import RecentUsage, unused_line
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.charts import Bar, ChartColumn
from toolcrib.server.web.render import PageRoutes, Pages
from toolcrib.server.web.server_rows import ServerRow, server_rows
from toolcrib.server.web.tool_rows import tool_address
from toolcrib.server.web.words import count, duration, sentence, short, span

EVERY_S = 10.0
KEPT_S = 3600.0
MINUTES = 60
NO_DURATIONS = (0,) * (len(BOUNDS_S) + 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """The sums at one moment."""

    at: float
    executed: int
    failed: int
    durations: tuple[int, ...] = ()
    """Calls by how long they took, in the classes of the tallies."""


@dataclass(frozen=True, slots=True)
class Hour:
    """Calls of the last sixty minutes, oldest first."""

    fine: tuple[int, ...]
    failed: tuple[int, ...]
    durations: tuple[int, ...] = ()

    @property
    def columns(self) -> list[ChartColumn]:
        """One column for each minute."""
        last = len(self.fine) - 1
        named = [(f"{last - place} min ago" if place < last else "this minute") for place in range(last + 1)]
        return [ChartColumn(*one) for one in zip(named, self.fine, self.failed, strict=True)]

    def quantile(self, share: float) -> float:
        """How long that share of the calls took at most, about."""
        return quantile_of(self.durations, share)

    @property
    def calls(self) -> int:
        """How many there were."""
        return sum(self.fine) + sum(self.failed)

    @property
    def errors(self) -> int:
        """How many of them failed."""
        return sum(self.failed)


@dataclass(slots=True)
class Samples:
    """A ring of samples."""

    metrics: Metrics
    now: Callable[[], float] = time.monotonic
    _kept: deque[Sample] = field(default_factory=lambda: deque(maxlen=int(KEPT_S / EVERY_S) + 1))

    def take(self) -> None:
        """Look at the tallies once."""
        self._kept.append(self._sample())

    async def run(self) -> None:
        """Look at them until somebody ends this."""
        while True:
            self.take()
            await asyncio.sleep(EVERY_S)

    def hour(self) -> Hour:
        """What came in each minute of the last hour, up to this moment."""
        fine, failed = [0] * MINUTES, [0] * MINUTES
        seen = [*self._kept, self._sample()]
        now = seen[-1].at
        for before, after in pairwise(seen):
            place = MINUTES - 1 - int((now - after.at) // 60)
            if place >= 0:
                failed[place] += after.failed - before.failed
                fine[place] += (after.executed - before.executed) - (after.failed - before.failed)
        first = next((sample for sample in seen if now - sample.at <= KEPT_S), seen[-1])
        took = tuple(after - before for before, after in zip(first.durations, seen[-1].durations, strict=True))
        return Hour(tuple(fine), tuple(failed), took)

    def _sample(self) -> Sample:
        tallies = list(self.metrics.tools.values())
        took = tuple(map(sum, zip(*(tally.durations for tally in tallies), strict=True))) or NO_DURATIONS
        return Sample(self.now(), sum(t.executed for t in tallies), sum(t.failed for t in tallies), took)


MOST = 6
MOST_TODOS = 12
SLOW_S = 0.25


@dataclass(frozen=True, slots=True)
class Todo:
    """Something that needs a person."""

    tone: str
    icon: str
    text: str
    about: str
    href: str
    action: str


def overview_routes(samples: Samples, recent: RecentUsage) -> PageRoutes:
    """The one page."""
    routes = PageRoutes()

    @routes.get("/")
    async def show(pages: Pages, visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        mine = visit.view.usable()
        if not visit.is_operator():
            return pages.render(visit, "overview_guest.html", tools=mine[:100], total=len(mine))
        idle = unused_line(mine, recent.look())
        values = _values(visit.view, mine) | {"todos": list(await _todos(visit.view))[:MOST_TODOS]}
        return pages.render(visit, "overview.html", idle=idle, hour=samples.hour(), **values)

    return routes


def _values(view: CallerView, mine: Sequence[Route]) -> dict[str, Any]:
    rows = server_rows(view)
    called = [(name, tally) for name, tally in view.metrics.tools.items() if tally.executed]
    return {
        "rows": rows,
        "ready": sum(row.state is ServerState.OK for row in rows),
        "wanted": sum(row.state is not ServerState.DISABLED for row in rows),
        "native": sum(1 for route in view.catalog.of_server("") if not is_own(route.name)),
        "tools": len(view.catalog.routes),
        "offered": len(mine),
        "tokens": cost_of("", mine).tokens,
        "in_flight": view.metrics.in_flight,
        "starting": [row for row in rows if row.state.is_underway],
        "cost_bars": _cost_bars(rows, mine),
        "slow_bars": _slow_bars(called),
        "failing": _failing(called),
        "is_fresh": not rows,
    }


async def _todos(view: CallerView) -> list[Todo]:
    """What waits for a person: calls first, then what is broken, then what is held."""
    rows = server_rows(view)
    return [
        *[_asked(entry) for entry in await view.questions()],
        *_broken_parts(view),
        *[_broken(row) for row in rows if row.state in (ServerState.FAILED, ServerState.STALE)],
        *[_signed_out(row) for row in rows if row.state is ServerState.SIGN_IN],
        *[_barred(row) for row in rows if row.state is ServerState.HELD],
        *[_held(row) for row in rows if row.held],
        *_unused_configuration(view),
    ]


def _asked(entry: QuestionEntry) -> Todo:
    waits = f"{span(entry.seconds_left)} left"
    text = f"{entry.server or 'A server'} asks something" if entry.form else f"{entry.tool} waits for your answer"
    return Todo(
        "info", "hand", text, f"The call goes on once you allow it; {waits}.", f"/approvals#q-{entry.id}", "Answer"
    )


def _broken(row: ServerRow) -> Todo:
    return Todo(
        "bad",
        "alert",
        f"{row.name} is not available",
        sentence(row.cause or row.story),
        row.href,
        _action(row, "See why"),
    )


def _action(row: ServerRow, otherwise: str) -> str:
    """What the button says that leads to the page of a server: the next step, where a person takes it there."""
    is_link = row.button is not None and not row.button.is_form
    return row.button.label if row.button is not None and is_link else otherwise


def _signed_out(row: ServerRow) -> Todo:
    return Todo("warn", "alert", f"{row.name} wants you to sign in", sentence(row.cause or ""), row.href, "Sign in")


def _barred(row: ServerRow) -> Todo:
    return Todo("bad", "shield", f"{row.name} is in quarantine", row.cause or "", row.href, "Review")


def _held(row: ServerRow) -> Todo:
    text = f"{count(len(row.held), 'tool')} of {row.name} in quarantine"
    about = "What they say of themselves has changed since you accepted them."
    return Todo("warn", "shield", text, about, "/approvals#held", "Review")


def _broken_parts(view: CallerView) -> Iterator[Todo]:
    if problem := view.audit_status().problem:
        yield Todo("bad", "log", "The audit log cannot be written", problem, "/settings/about", "See files")
    yield from fleet_todos(view.parts().get("store", ""), view.coordination())


def _unused_configuration(view: CallerView) -> Iterator[Todo]:
    for problem in view.project.config.problems:
        yield Todo("warn", "file", "Part of the configuration is not used", problem, "/settings", "See settings")


def fleet_todos(store: str, status: CoordinationStatus | None) -> Iterator[Todo]:
    """What is to be known of other replicas, and of the store they share, if anything."""
    if store:
        about = f"{store} What may not run unrecorded is refused until it is back; what only reads goes on."
        yield Todo("bad", "alert", "The shared store cannot be used", about, "/settings/about", "See files")
    if status is not None and status.problem:
        about = f"{status.problem} What is limited is refused until it is back; everything else goes on."
        yield Todo("bad", "alert", "Other replicas cannot be reached", about, "/settings/about", "See files")
    elif status is not None and status.settling_s:
        about = f"What was counted got lost. They open again within {status.settling_s:g} s."
        yield Todo("warn", "alert", "Limits are closed for a moment", about, "/settings/about", "See files")


def _cost_bars(rows: Sequence[ServerRow], mine: Sequence[Route]) -> list[Bar]:
    pages = {row.name: row.href for row in rows}
    costs = [cost_of(name, routes) for name, routes in by_server(mine).items()]
    bars = [Bar(cost.name, cost.tokens, short(cost.tokens), pages.get(cost.name, "")) for cost in costs]
    rest = sum(bar.value for bar in bars[MOST:])
    return [*bars[:MOST], *([Bar(f"{len(bars) - MOST} others", rest, short(rest))] if rest else [])]


Called = Sequence[tuple[str, ToolMetrics]]


def _slow_bars(called: Called) -> list[Bar]:
    """The slowest by what all but one of twenty calls take at most."""
    slow = sorted(((tally.quantile(0.95), tally.quantile(0.5), name) for name, tally in called), reverse=True)
    return [
        Bar(
            name,
            high,
            f"{duration(half)} · {duration(high)}",
            tool_address(name),
            "warn" if high >= SLOW_S else "accent",
        )
        for high, half, name in slow[:MOST]
    ]


def _failing(called: Called) -> list[dict[str, Any]]:
    failing = sorted((pair for pair in called if pair[1].recent), key=lambda pair: -pair[1].recent.bit_count())
    return [
        {"name": name, "href": tool_address(name), "recent": tally.recent.bit_count(), "tally": tally}
        for name, tally in failing[:MOST]
    ]
