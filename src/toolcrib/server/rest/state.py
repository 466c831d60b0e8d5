"""How toolcrib is doing, over REST: health, tallies, costs and news; its servers, for agents that ask a gateway."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from toolcrib.catalog.entries import away_parts, overall_health
from toolcrib.core.access import AUDIT, METRICS, NATIVE, OWNER_ID
from toolcrib.core.clocks import elapsed
from toolcrib.core.events import TOPICS, News
from toolcrib.core.names import is_own
from toolcrib.core.view import CribHealth, Tally, ToolCounts, View
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer, with_pauses
from toolcrib.server.identity.sign_in import LINK_S
from toolcrib.server.rest.about import About, Param, count
from toolcrib.server.rest.servers import may_see, shown_health
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.costs import DAYS, CostQuery, CostReport, cost_report, profiles_of, usage_of
from toolcrib.server.visit import PageRequest, ServedProject
from toolcrib.stores.audit.log import ToolUsage
from toolcrib.transports.http.server import Exchange
from toolcrib.version import VERSION


class MetricsView(View):
    """The tallies of all tools that were called."""

    totals: dict[str, float]
    in_flight: int
    unknown: dict[str, int]
    tools: dict[str, Tally]
    uptime_seconds: float


class VersionView(View):
    """Which toolcrib this is."""

    name: str
    version: str


class SignInLink(View):
    """An address that signs the owner in to the page, once."""

    url: str
    expires_in_seconds: int


def state_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the state."""

    async def health(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        return json_answer(_health(premises, visit))

    async def metrics(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        if METRICS not in (visit.caller.grants.capabilities or ()):
            visit.need_operator()
        found = premises.crib.metrics
        tools = {name: tally.view() for name, tally in sorted(found.tools.items())}
        uptime_s = round(elapsed() - premises.started_s, 1)
        return json_answer(MetricsView(found.totals(), found.in_flight, found.unknown, tools, uptime_s))

    async def version(visit: PageRequest) -> HttpAnswer:
        del visit
        return json_answer(VersionView("toolcrib", VERSION))

    return [
        RouteSpec("GET", "/api/v1/health", health, About("Show how everything is doing", "state", CribHealth)),
        RouteSpec("GET", "/api/v1/metrics", metrics, About("Show the tallies", "state", MetricsView, problems=(403,))),
        RouteSpec("GET", "/api/v1/version", version, About("Show the version", "state", VersionView, is_open=True)),
    ]


def _health(premises: ServedProject, visit: PageRequest) -> CribHealth:
    """What a caller may know of it: its own servers, its own tools; the rest is for operators."""
    crib = premises.crib
    whole = crib.health()
    if visit.is_operator():
        return whole
    servers = {name: shown_health(visit, one) for name, one in whole.servers.items() if may_see(visit, name)}
    routes = crib.catalog.visible_to(visit.caller.grants)
    native = sum(1 for route in routes if not route.server)
    away = away_parts(crib.parts(), servers)
    counts = ToolCounts(native, len(routes) - native)
    return CribHealth(overall_health(servers, away), away, whole.parts, counts, servers, calls=None, audit=None)


PATH = "/api/v1/costs"
MOST_DAYS = 3650
MOST_PAIRS = 50


def cost_routes(premises: ServedProject) -> list[RouteSpec]:
    """The one route."""

    async def show(visit: PageRequest) -> HttpAnswer:
        days = max(1, visit.number("days", DAYS, MOST_DAYS))
        pairs = visit.number("pairs", 0, MOST_PAIRS)
        if pairs:
            visit.need_known()
        usage = await _usage(premises, visit, days)
        routes = premises.crib.catalog.visible_to(visit.caller.grants)
        profiles = profiles_of(premises.crib.catalog, premises.project.config.profiles, visit.caller.grants)
        asked = CostQuery(days, usage, profiles, pairs)
        return json_answer(await asyncio.to_thread(cost_report, routes, asked))

    detail = (
        "Of the tools the caller may use. `usage`, `calls` and `proposal` are for operators and for tokens with the "
        "capability `audit` or `metrics`, `null` for others; `pairs` needs a token."
    )
    about = About(
        "Show what the tools cost in tokens", "tools", CostReport, detail, params=PARAMS, problems=(422,), is_open=True
    )
    return [RouteSpec("GET", PATH, show, about)]


PARAMS = (
    Param("days", "how far back to look for calls", count(DAYS)),
    Param("pairs", f"how many pairs of tools to name that are easily confused, up to {MOST_PAIRS}", count(0)),
)


async def _usage(premises: ServedProject, visit: PageRequest, days: int) -> ToolUsage | None:
    granted = visit.caller.grants.capabilities or ()
    if visit.is_operator() or (visit.is_known and (AUDIT in granted or METRICS in granted)):
        return await asyncio.to_thread(usage_of, premises.project.audit_log, days)
    return None


ROOT = "/agents/"
PATHS = ("/agents/{app}/mcpServers", "/agents/v2/{app}/mcpServers")


def agent_routes(premises: ServedProject) -> list[RouteSpec]:
    """Both addresses a gateway is asked at; every application gets what its token may reach."""

    async def ls(visit: PageRequest) -> HttpAnswer:
        return json_answer({"mcpServers": await offered_servers(premises, visit)})

    return [RouteSpec("GET", path, ls) for path in PATHS]


async def offered_servers(premises: ServedProject, visit: PageRequest) -> list[dict[str, Any]]:
    """The servers of whose tools the caller is shown any, each at its own address here."""
    catalog = await premises.crib.current()
    routes = [route for route in catalog.visible_to(visit.caller.grants) if not route.tool.reads_results]
    names = sorted({route.server or NATIVE for route in routes if route.server or not is_own(route.name)})
    base = premises.url.rpartition("/")[0]
    return [
        {"mcpServerName": name, "mcpServerUniqueName": name, "url": f"{base}{ROOT}servers/{name}"} for name in names
    ]


SIGN_IN_PATH = "/api/v1/signin-links"


def sign_in_routes(premises: ServedProject) -> list[RouteSpec]:
    """The route that makes them."""

    async def make(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        if visit.caller.id != OWNER_ID or visit.signed_in is not None:
            raise HttpProblem(403, "HTTP_FORBIDDEN", "Only the owner's own token can sign somebody in.")
        premises.sign_ins.make_token()
        return json_answer(SignInLink(premises.sign_ins.make_link(), int(LINK_S)), 201)

    detail = "It works once, for an hour. Only the owner's own token can ask for it."
    about = About("Make a link to sign in to the page", "sign-in", SignInLink, detail, status=201, problems=(403,))
    return [RouteSpec("POST", SIGN_IN_PATH, make, about)]


EVENTS_PATH = "/api/v1/events"
PAUSE_S = 15.0
"""After so long without news a line is sent all the same, so that whoever is in between keeps the line open."""
EVENT_STREAM = b"text/event-stream"
_HEADERS = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


def event_routes(premises: ServedProject, pause_s: float = PAUSE_S) -> list[RouteSpec]:
    """The route of the news."""

    async def listen(visit: PageRequest) -> HttpAnswer | None:
        visit.need_operator()
        topics, bulletin = _topics(visit), premises.bulletin
        if bulletin is None:
            raise HttpProblem(503, "TOOL_UNAVAILABLE", "No news are gathered here.")
        if visit.request.method == b"HEAD":
            return HttpAnswer(200, b"", EVENT_STREAM, _HEADERS)
        told = _while_current(bulletin.read(topics, _after(visit)), pause_s, premises, visit)
        await _stream(visit.exchange, told)
        return None

    about = About(
        "Follow the news",
        "events",
        str,
        "Server-sent events: `event` is the topic, `data` is JSON, `id` can be sent back as `Last-Event-ID` to read on"
        " where a stream ended. News `missed` says that there were more than could be told.",
        params=(
            Param("topics", f"some of {', '.join(sorted(TOPICS))}, separated by commas [all]"),
            Param("Last-Event-ID", "the id of the last event that was read", place="header"),
        ),
        problems=(403, 422, 503),
        media="text/event-stream",
    )
    return [RouteSpec("GET", EVENTS_PATH, listen, about)]


def _topics(visit: PageRequest) -> frozenset[str] | None:
    given = visit.query.get("topics")
    if given is None:
        return None
    found = frozenset(given.split(","))
    if not found <= TOPICS:
        raise HttpProblem(422, "TOOL_INVALID_INPUT", f"`topics` must be some of {', '.join(sorted(TOPICS))}.")
    return found


def _after(visit: PageRequest) -> int | None:
    """Where a reader left off; what is no id of ours counts as none."""
    given = visit.request.header(b"last-event-id") or b""
    return int(given) if given.isdigit() and len(given) < 16 else None


async def _while_current(
    news: AsyncGenerator[News, None], pause_s: float, premises: ServedProject, visit: PageRequest
) -> AsyncGenerator[News | None, None]:
    """The news and the pauses between them, until the token they were asked for with ends."""
    async with aclosing(with_pauses(news, pause_s)) as told:
        async for item in told:
            if not premises.sign_ins.may_stay(visit.caller):
                return
            yield item


async def _stream(exchange: Exchange, news: AsyncGenerator[News | None, None]) -> None:
    """Tell until the news end or the client goes; its task is cancelled then."""
    exchange.start_stream(200, EVENT_STREAM, _HEADERS)
    exchange.write(b": toolcrib\n\n")
    try:
        async with aclosing(news) as told:
            async for item in told:
                exchange.write(b": still here\n\n" if item is None else _event(item))
                await exchange.drain()
    finally:
        if exchange.streaming:
            exchange.end()


def _event(news: News) -> bytes:
    data = msgspec.json.encode({"at": news.at, **news.data}, enc_hook=str)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (news.id, news.topic.encode(), data)
