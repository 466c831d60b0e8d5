"""How toolcrib is doing, over REST: health, tallies and news; its servers, for agents that ask a gateway."""

from typing import Any

import msgspec

from toolcrib.core.access import METRICS, NATIVE, OWNER_ID
from toolcrib.core.clocks import elapsed
from toolcrib.core.events import TOPICS, News
from toolcrib.core.view import CribHealth, Tally, View
from toolcrib.server.answers import HttpAnswer, forbidden, json_answer, unfit
from toolcrib.server.identity.sign_in import LINK_S
from toolcrib.server.rest.about import ROOT, About, Param, RestResource
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import STILL_HERE, PageRequest, stream_news
from toolcrib.version import VERSION

EVENTS = RestResource("events", "News as they happen.")


@EVENTS.route(
    "GET",
    "/events",
    About(
        "Follow the news",
        str,
        "Server-sent events: `event` is the topic, `data` is JSON, `id` can be sent back as `Last-Event-ID` to read on"
        " where a stream ended. News `missed` says that there were more than could be told.",
        params=(
            Param("topics", f"some of {', '.join(sorted(TOPICS))}, separated by commas [all]"),
            Param("Last-Event-ID", "the id of the last event that was read", place="header"),
        ),
        problems=(403, 422, 503),
        media="text/event-stream",
    ),
)
async def _follow(visit: PageRequest) -> HttpAnswer | None:
    visit.need_operator()

    def tell(news: News | None) -> bytes | None:
        if not visit.served.sign_ins.may_stay(visit.caller):
            return None
        return STILL_HERE if news is None else _event(news)

    headers, hello = ((b"cache-control", b"no-store"),), b": toolcrib\n\n"
    return await stream_news(visit, _topics(visit), tell, headers=headers, hello=hello, after=_after(visit))


def _topics(visit: PageRequest) -> frozenset[str] | None:
    given = visit.query.get("topics")
    if given is None:
        return None
    found = frozenset(given.split(","))
    if not found <= TOPICS:
        raise unfit(f"`topics` must be some of {', '.join(sorted(TOPICS))}.")
    return found


def _after(visit: PageRequest) -> int | None:
    """Where a reader left off; what is no id of ours counts as none."""
    given = visit.request.header(b"last-event-id") or b""
    return int(given) if given.isdigit() and len(given) < 16 else None


def _event(news: News) -> bytes:
    data = msgspec.json.encode({"at": news.at, **news.data}, enc_hook=str)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (news.id, news.topic.encode(), data)


STATE = RestResource("state", "How toolcrib is doing.")


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


@STATE.route("GET", "/health", About("Show how everything is doing", CribHealth))
async def _health(visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    return json_answer(await visit.view.check_health())


@STATE.route("GET", "/metrics", About("Show the tallies", MetricsView, problems=(403,)))
async def _metrics(visit: PageRequest) -> HttpAnswer:
    visit.need_granted(METRICS)
    found, uptime_s = visit.view.metrics, round(elapsed() - visit.served.started_s, 1)
    tools = {name: tally.view() for name, tally in sorted(found.tools.items())}
    return json_answer(MetricsView(found.totals(), found.in_flight, found.unknown, tools, uptime_s))


@STATE.route("GET", "/version", About("Show the version", VersionView, is_open=True))
async def _version(_: PageRequest) -> HttpAnswer:
    return json_answer(VersionView("toolcrib", VERSION))


SIGN_IN = RestResource("sign-in", "The way to the page.")
SIGN_IN_PATH = f"{ROOT}/signin-links"


class SignInLink(View):
    """An address that signs the owner in to the page, once."""

    url: str
    expires_in_seconds: int


@SIGN_IN.route(
    "POST",
    "/signin-links",
    About(
        "Make a link to sign in to the page",
        SignInLink,
        "It works once, for an hour. Only the owner's own token can ask for it.",
        status=201,
        problems=(403,),
    ),
)
async def _make_link(visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    if visit.caller.id != OWNER_ID or visit.signed_in is not None:
        raise forbidden("Only the owner's own token can sign somebody in.")
    visit.served.sign_ins.make_token()
    return json_answer(SignInLink(visit.served.sign_ins.make_link(), int(LINK_S)), 201)


AGENTS_ROOT = "/agents/"


async def _list_for_agents(visit: PageRequest) -> HttpAnswer:
    """The servers of whose tools the caller is shown any, each at its own address here."""
    base = visit.served.url.rpartition("/")[0]
    names = sorted(name or NATIVE for name in await visit.view.offered_servers())
    servers: list[dict[str, Any]] = [
        {"mcpServerName": name, "mcpServerUniqueName": name, "url": f"{base}{AGENTS_ROOT}servers/{name}"}
        for name in names
    ]
    return json_answer({"mcpServers": servers})


AGENT_ROUTES = [
    RouteSpec("GET", path, _list_for_agents) for path in ("/agents/{app}/mcpServers", "/agents/v2/{app}/mcpServers")
]
"""Both addresses a gateway is asked at; every application gets what its token may reach."""
