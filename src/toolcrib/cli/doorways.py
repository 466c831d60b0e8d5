"""Which door a request goes through, by address and name; probes for machines; and the orderly end of a replica."""

import asyncio
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from toolcrib.cli.entrance import Entrance
from toolcrib.cli.invoke import Options
from toolcrib.cli.tokens import is_loopback, kept_token
from toolcrib.config.model import Config
from toolcrib.core.access import EVERYTHING, METRICS, Caller
from toolcrib.core.audit import AuditStatus
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event
from toolcrib.crib.crib import Crib
from toolcrib.crib.replicas import Fleet
from toolcrib.project.project import Project
from toolcrib.server.identity.run_proof import PATH as PROOF_PATH
from toolcrib.server.identity.sign_in import OwnNames, PageAddress, PublicAddress, host_of
from toolcrib.server.mcp.addresses import PATH as MCP_PATH
from toolcrib.server.mcp.addresses import SERVER_PATH as SERVERS_PATH
from toolcrib.server.mcp.addresses import Addresses, ServerDoors, is_mcp
from toolcrib.server.mcp.roaming import Roaming
from toolcrib.server.rest.api import ROOT, rest_routes
from toolcrib.server.rest.state import ROOT as AGENTS_ROOT
from toolcrib.server.rest.state import agent_routes
from toolcrib.server.router import Entering, Router
from toolcrib.server.visit import ServedProject
from toolcrib.server.web.site import web_router
from toolcrib.stores.paths import state_directory
from toolcrib.transports.http.guard import LOOPBACK_HOSTS, LOOPBACK_ORIGINS, Identify
from toolcrib.transports.http.server import (
    Exchange,
    GuardPolicy,
    Handler,
    HttpServer,
    Request,
    answer_not_found,
    error_body,
)
from toolcrib.version import VERSION

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
OPEN_PATHS = frozenset({HEALTH_PATH, READY_PATH})
"""Answered without a token: they say nothing of tools or callers."""

PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"
_JSON = b"application/json"

Page = Callable[[], tuple[int, bytes, bytes]]


def never() -> bool:
    """For whoever serves until the end."""
    return False


def probe_routes(crib: Crib, usual: Caller, is_draining: Callable[[], bool] = never) -> dict[str, Handler]:
    """The handlers by path; ``usual`` is who comes without a token."""
    started_at = time.time()

    def alive() -> tuple[int, bytes, bytes]:
        health = crib.health()
        # Whoever comes without a token learns that servers are away, not which ones there are.
        away = sorted({"servers" if part.startswith("server ") else part for part in health["away"]})
        told = {"status": health["status"], "version": VERSION, "away": away}
        return 200, msgspec.json.encode(told), _JSON

    def ready() -> tuple[int, bytes, bytes]:
        told = readiness(crib.audit.status(), crib.fleet, is_draining=is_draining())
        return 200 if told["ready"] else 503, msgspec.json.encode(told), _JSON

    def metrics() -> tuple[int, bytes, bytes]:
        from toolcrib.calls.metrics import exposition  # only when somebody asks

        return 200, exposition(crib.metrics, crib.health(), VERSION, started_at).encode(), PROMETHEUS

    return {HEALTH_PATH: _get(alive), READY_PATH: _get(ready), METRICS_PATH: _for_overseers(_get(metrics), usual)}


def readiness(audit: AuditStatus, fleet: Fleet | None, *, is_draining: bool) -> dict[str, Any]:
    """Whether calls should come here, and how each part is doing.

    What all replicas share is no reason to go elsewhere: it is away for them as well, and calls that need no durable
    decision go on without it.
    """
    away = fleet.troubles() if fleet is not None else {}
    reasons = ["This replica is about to stop."] if is_draining else []
    reasons += reasons_not_ready(audit, is_shared="store" in away)
    parts = {"serving": "draining" if is_draining else "ok", "audit": _audit_state(audit)}
    parts |= {name: problem or "ok" for name, problem in away.items()}
    told = {"ready": not reasons, "reasons": reasons, "parts": parts}
    return told if fleet is None else {**told, "replica": fleet.replica}


def reasons_not_ready(audit: AuditStatus, *, is_shared: bool) -> list[str]:
    """Why calls should go elsewhere for now; the configuration is loaded before anything is served."""
    if not audit.enabled:
        return []
    if audit.problem:
        return [] if is_shared else [f"The audit log cannot be written: {audit.problem}."]
    return [] if audit.opened else ["The audit log is not open yet."]


def _audit_state(audit: AuditStatus) -> str:
    if not audit.enabled:
        return "off"
    return audit.problem or ("ok" if audit.opened else "opening")


def _for_overseers(handler: Handler, usual: Caller) -> Handler:
    """Only for who may know of every tool."""

    def answer(request: Request, exchange: Exchange) -> None:
        caller = request.identity if isinstance(request.identity, Caller) else usual
        if caller.grants == EVERYTHING or METRICS in (caller.grants.capabilities or ()):
            handler(request, exchange)
        else:
            exchange.answer(403, error_body("HTTP_FORBIDDEN", "Metrics need a token with the capability metrics."))

    return answer


def _get(page: Page) -> Handler:
    def answer(request: Request, exchange: Exchange) -> None:
        if request.method not in (b"GET", b"HEAD"):
            exchange.answer(405, error_body("HTTP_METHOD_NOT_ALLOWED", "Use GET."), headers=((b"allow", b"GET, HEAD"),))
            return
        exchange.answer(*page())

    return answer


class Doorways:
    """All addresses that are not exact: profiles, one server's tools alone, the gateway, REST, and the page."""

    def __init__(self, profiles: Addresses, by_server: ServerDoors) -> None:
        self._profiles, self._by_server = profiles, by_server
        self._agents: Router | None = None
        self._rest: Router | None = None
        self._web: Router | None = None

    def open(self, premises: ServedProject, entrance: Entrance, emit: Emit) -> None:
        """Begin to answer; what they say of themselves needs the address they are at."""
        usual = entrance.caller if entrance.identify is None else None
        entering = Entering(entrance.sign_ins, entrance.by_token, usual)
        self._rest = Router(rest_routes(premises), entering, emit)
        self._agents = Router(agent_routes(premises), entering, emit)
        self._web = web_router(premises, Entering(entrance.sign_ins, entrance.by_token), emit)

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Take one HTTP request."""
        if is_mcp(request.path) or is_one_server(request):
            (self._profiles if is_mcp(request.path) else self._by_server).handle(request, exchange)
            return
        router = self._rest if is_rest(request) else self._agents if is_gateway(request) else self._web
        (router.handle if router is not None else answer_not_found)(request, exchange)

    async def close(self) -> None:
        """End what is still being answered."""
        for router in (self._rest, self._agents, self._web):
            if router is not None:
                await router.close()


def is_rest(request: Request) -> bool:
    """Whether a request is for the REST door."""
    return request.path.startswith(f"{ROOT}/".encode()) or request.path == ROOT.encode()


def is_gateway(request: Request) -> bool:
    """Whether an agent asks which servers there are."""
    return request.path.startswith(AGENTS_ROOT.encode())


def is_one_server(request: Request) -> bool:
    """Whether a request is MCP for the tools of one server."""
    return request.path.startswith(SERVERS_PATH.encode()) and not request.path.endswith(b"/mcpServers")


def asks_itself(request: Request) -> bool:
    """REST and the page know who is signed in; everything else needs a token before it is looked at."""
    return request.path != METRICS_PATH.encode() and not is_mcp(request.path) and not is_one_server(request)


AMONG_OTHERS_S = 10.0
"""How long requests are still answered where there are other replicas: balancers look every few seconds."""


def drain_s(config: Config, sign: int, *, has_fleet: bool) -> float:
    """How long to go on after a signal; whoever presses Ctrl-C does not want to wait."""
    if sign != signal.SIGTERM:
        return 0.0
    if config.drain_s is not None:
        return config.drain_s
    return AMONG_OTHERS_S if has_fleet else 0.0


class Draining:
    """Whether this replica is about to stop."""

    server: HttpServer

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.is_on = False

    async def run(self, seconds: float) -> None:
        """Say that it is not ready any more, and answer for a while whoever has not heard yet."""
        self.is_on = True
        if seconds <= 0:
            return
        self.server.wind_down()
        self._emit(Event("serve.draining", "info", {"seconds": seconds}))
        await asyncio.sleep(seconds)


async def open_roaming(project: Project) -> Roaming | None:
    """Go on with sessions of other replicas, and follow their edits, where there are any."""
    fleet = project.crib.fleet
    if fleet is None:
        return None
    fleet.on_config = project.reload
    roaming = Roaming(fleet.book, fleet.coordination, fleet.failed)
    await roaming.open()
    return roaming


PAGE_KEY = "page-key"
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not bound


def page_address(config: Config, server: HttpServer, env: Mapping[str, str]) -> PageAddress:
    """Where people find the page: where the configuration says, otherwise under names of its own on this machine."""
    if config.public_url:
        return PublicAddress(config.public_url)
    try:
        key = kept_token(state_directory(env) / PAGE_KEY).value
    except ConfigError:  # nothing can be kept here, so the names are others after the next start
        key = secrets.token_hex(32)
    return OwnNames(key, server.port, server.answer_for)


def guard_policy(config: Config, identify: Identify | None, options: Options) -> GuardPolicy:
    """Which hosts and origins are answered, and who needs a token."""
    public = {host_of(config.public_url)} if config.public_url else set()
    hosts = {*options.allow_host, *public, *(() if is_loopback(config.host) else own_names(config.host))}
    origins = {origin.rstrip("/") for origin in (*options.allow_origin, config.public_url) if origin}
    return GuardPolicy(
        allowed_hosts=LOOPBACK_HOSTS | {_any_port(name) for name in hosts},
        allowed_origins=LOOPBACK_ORIGINS | origins,
        identify=identify,
        open_paths=OPEN_PATHS | {PROOF_PATH},
        asks_itself=asks_itself,
    )


def _any_port(name: str) -> str:
    """A host as the guard writes it; one given with a port counts with that port only."""
    if name.startswith("["):
        return name if name.rpartition("]")[2] else f"{name}:*"
    if name.count(":") > 1:
        return f"[{name}]:*"
    return name if ":" in name else f"{name}:*"


def own_names(host: str) -> list[str]:
    """The names by which clients reach an address that is not loopback."""
    if host not in _WILDCARDS:
        return [host]
    return list(dict.fromkeys(_names_of_this_machine()))


def _names_of_this_machine() -> Iterator[str]:
    """Nothing is sent: connecting a datagram socket only asks which address would be used."""
    for family, anywhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((anywhere, 9))
            yield probe.getsockname()[0]
    yield socket.gethostname()


def mcp_url(server: HttpServer) -> str:
    """Where clients find MCP."""
    if server.host in _WILDCARDS:
        name = own_names(server.host)[0]
        return f"http://{f'[{name}]' if ':' in name else name}:{server.port}{MCP_PATH}"
    return f"http://{server.address}{MCP_PATH}"
