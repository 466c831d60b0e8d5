"""How toolcrib is doing, over REST: health, tallies and news; its servers, for agents that ask a gateway."""

import os
from typing import Any

import msgspec

from toolcrib.core.access import METRICS, NATIVE, OWNER_ID
from toolcrib.core.audit import AuditEntry
from toolcrib.core.clocks import elapsed
from toolcrib.core.events import TOPICS, News, Stay
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.view import CribHealth, Tally, View
from toolcrib.server.answers import HttpAnswer, conflict, forbidden, json_answer, unfit
from toolcrib.server.identity.sign_in import LINK_S
from toolcrib.server.rest.about import ROOT, About, Param, RestResource
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.servers import ServerView
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
_ENDS = "The answer comes first; what is under way is ended as by a signal. Not where it is part of another program."


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


class PresentClient(View):
    """An MCP client that is here."""

    id: str
    client: str
    """What it calls itself; not to be believed."""
    caller: str
    protocol: str
    connected_seconds: float
    idle_seconds: float


class ProcessView(View):
    """The process that serves, what it serves, and to whom."""

    version: str
    url: str
    directory: str
    pid: int
    uptime_seconds: float
    servers: list[ServerView]
    clients: list[PresentClient]


class ProcessToEnd(View):
    """Which process is meant, so that none is ended that took its place."""

    pid: int


PROCESS_PATH = "/process"


@STATE.route(
    "GET",
    PROCESS_PATH,
    About("Show what serves here, and which clients are connected", ProcessView, problems=(403,)),
)
async def _process(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    return json_answer(_of_process(visit))


def _of_process(visit: PageRequest) -> ProcessView:
    served = visit.served
    clients = [_client(stay) for stay in sorted(served.stays(), key=lambda stay: -stay.age_s)]
    directory, uptime_s = str(served.project.file.parent), round(elapsed() - served.started_s, 1)
    return ProcessView(VERSION, served.url, directory, os.getpid(), uptime_s, visit.view.servers(), clients)


def _client(stay: Stay) -> PresentClient:
    known = stay.id, stay.client, stay.caller.id, stay.era
    return PresentClient(*known, connected_seconds=round(stay.age_s, 1), idle_seconds=round(stay.idle_s, 1))


@STATE.route(
    "POST",
    f"{PROCESS_PATH}/stop",
    About(
        "Stop the process in good order",
        detail=_ENDS,
        status=202,
        body=ProcessToEnd,
        example={"pid": 4711},
        problems=(403, 409, 415, 422),
    ),
)
async def _stop(visit: PageRequest) -> HttpAnswer:
    return await _end(visit, "stopped")


@STATE.route(
    "POST",
    f"{PROCESS_PATH}/restart",
    About(
        "Have the process begin anew, with the same options",
        detail=f"{_ENDS} Clients over stdio go on by themselves.",
        status=202,
        body=ProcessToEnd,
        example={"pid": 4711},
        problems=(403, 409, 415, 422),
    ),
)
async def _restart(visit: PageRequest) -> HttpAnswer:
    return await _end(visit, "restarted")


async def _end(visit: PageRequest, decision: str) -> HttpAnswer:
    visit.need_operator(SecurityLevel.SYSTEM)
    meant, end = visit.json(ProcessToEnd), visit.served.on_end
    if end is None:
        raise conflict("This is part of another program, which is stopped by its own means.")
    if meant.pid != os.getpid():
        raise conflict(f"Process {meant.pid} does not serve here; process {os.getpid()} does.")
    await visit.view.note(AuditEntry("process", decision=decision))
    end(decision == "restarted")
    return HttpAnswer(202)


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
