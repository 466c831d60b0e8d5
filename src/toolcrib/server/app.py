"""A server app: MCP, REST, the page and the probes of one project, as handlers for any HTTP server.

Requests come in as :class:`HttpRequest` and :class:`Exchange`, whether our own server or an ASGI server made them.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import msgspec

from toolcrib.calls.metrics import exposition
from toolcrib.config.model import Config
from toolcrib.core import events
from toolcrib.core.access import EVERYTHING, METRICS, Caller
from toolcrib.core.audit import AuditStatus
from toolcrib.core.clocks import elapsed
from toolcrib.core.events import Emit, Event, Stay
from toolcrib.crib.bulletin import Bulletin, follow
from toolcrib.crib.crib import Crib
from toolcrib.crib.replicas import Fleet
from toolcrib.project.project import Project
from toolcrib.project.running import projects_beside
from toolcrib.project.sessions import AgentSessions
from toolcrib.server.identity.authentication import Authentication, is_endpoint
from toolcrib.server.identity.oauth import ResourceIdentity
from toolcrib.server.identity.run_proof import PATH as PROOF_PATH
from toolcrib.server.identity.sign_in import PageAddress, host_of
from toolcrib.server.joins import Joins
from toolcrib.server.mcp.addresses import PATH as MCP_PATH
from toolcrib.server.mcp.addresses import SERVER_PATH as SERVERS_PATH
from toolcrib.server.mcp.addresses import Addresses, ServerDoors, is_mcp
from toolcrib.server.mcp.roaming import Roaming
from toolcrib.server.mcp.service import ServerIdentity
from toolcrib.server.oauth import OPEN_PATHS as OAUTH_PATHS
from toolcrib.server.oauth import OAuthEndpoints, is_oauth
from toolcrib.server.rest.about import ROOT
from toolcrib.server.rest.api import rest_routes
from toolcrib.server.rest.state import AGENT_ROUTES, AGENTS_ROOT
from toolcrib.server.router import Entering, Router
from toolcrib.server.visit import ServedProject
from toolcrib.server.web.site import WebPages
from toolcrib.transports.http.guard import LOOPBACK_HOSTS, LOOPBACK_ORIGINS
from toolcrib.transports.http.message import Refusal
from toolcrib.transports.http.server import Exchange, GuardPolicy, Handler, HttpRequest, answer_not_found, error_body
from toolcrib.version import VERSION

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
OPEN_PATHS = frozenset({HEALTH_PATH, READY_PATH})
"""Answered without a token: they say nothing of tools or callers."""

PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"
_JSON = b"application/json"

Page = Callable[[], tuple[int, bytes, bytes]]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a project is served, beside what its configuration says."""

    token: str | None = None
    """The owner's; without one, that of the environment, or one that is made and kept."""
    insecure: bool = False
    """Whether everybody may come in without a token although others reach the address."""
    is_agent: bool = False
    """Whether those who come without a token are agents, which cannot approve their own calls."""
    profile: str = ""
    """What MCP clients are shown; empty for everything."""
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    is_background: bool = False
    """Whether it was started for clients over stdio, not by a person who wants to serve."""
    log: str = ""
    """Where the log goes, if to a file of ours."""
    on_end: Callable[[bool], None] | None = None
    """Ends the process that serves, or has it begin anew; nothing where it is not ours alone."""


class ServerApp:
    """One project, served; made on the event loop it runs on."""

    def __init__(self, project: Project, auth: Authentication, emit: Emit, bulletin: Bulletin | None = None) -> None:
        """``bulletin`` is one that hears what ``emit`` is told; without one, only news of the Crib itself are told."""
        self.project, self.auth, self._emit = project, auth, emit
        self._bulletin = bulletin or Bulletin(time.time)
        self._stop_hearing = None if bulletin is not None else project.crib.servers.on_change(self._bulletin.hear)
        self._unfollow = follow(project.crib, self._bulletin)
        self.is_draining = False
        """Whether this replica is about to stop, so that probes say so."""
        self.routes: dict[str, Handler] = {}
        """Handlers by exact path; all other paths are for :meth:`handle`."""
        self._routers: dict[str, Router] = {}
        self.joins: Joins | None = None
        """The clients that joined over stdio."""
        self.on_end: Callable[[bool], None] | None = None
        """Ends the process, or has it begin anew, where a command serves."""
        self._sessions: AgentSessions | None = None
        """Of agents, in this project and others of its user; a Crib that a program made has no such project."""

    async def open(self, profile: str = "") -> Self:
        """Begin to answer MCP and probes; REST and the page need to know where they are reached, see ``publish``."""
        project, auth, identity = self.project, self.auth, ServerIdentity(version=VERSION)
        self._roaming = roaming = await _open_roaming(project)
        self._profiles = Addresses(project.windows, identity, auth.caller, auth.may_stay, roaming)
        self._by_server = ServerDoors(project.crib, identity, auth.caller, auth.may_stay, roaming)
        probes = probe_routes(project.crib, auth.caller, lambda: self.is_draining)
        self.routes |= {**self._profiles.at_root(project.windows.need(profile)), **probes}
        fleet = project.crib.fleet
        if not project.is_fixed:
            self._sessions = AgentSessions(
                projects_beside(project),
                self._emit,
                self.stays,
                replica=fleet.replica if fleet is not None else "",
            )
        return self

    def stays(self) -> list[Stay]:
        """The MCP clients that are here, by whichever door."""
        joined = self.joins.stays() if self.joins is not None else []
        return [*joined, *self._profiles.stays(), *self._by_server.stays()]

    def publish(self, address: PageAddress, url: str, base: str) -> None:
        """Begin to answer REST and the page, which tell people and programs that MCP is at ``url``; ``base`` is where
        clients from elsewhere find this server."""
        auth, config = self.auth, self.project.config
        auth.sign_ins.open(address)
        if auth.resource is not None:
            auth.resource.base = base
        if self._sessions is not None:
            self._sessions.start()
        if self.project.crib.sign_ins is not None:
            self.project.crib.sign_ins.serve_at(url.removesuffix(MCP_PATH), config.public_url)
        served = ServedProject(
            project=self.project,
            sign_ins=auth.sign_ins,
            url=url,
            started_s=elapsed(),
            edit_commands=config.edit_commands,
            needs_token=auth.identify is not None,
            tokens=auth.tokens,
            bulletin=self._bulletin,
            sessions=self._sessions,
            oauth=auth.oauth,
            stays=self.stays,
            on_end=self.on_end,
        )
        usual = auth.caller if auth.identify is None else None
        entering = Entering(auth.sign_ins, auth.by_token, usual)
        self._routers = {
            "rest": Router(rest_routes(served), entering, self._emit, served=served),
            "agents": Router(AGENT_ROUTES, entering, self._emit, served=served),
            "web": WebPages(served, Entering(auth.sign_ins, auth.by_token), self._emit),
        }
        if auth.resource is not None:
            audit = self.project.crib.audit
            self._routers["oauth"] = OAuthEndpoints(auth.resource, auth.oauth, audit, self._emit, elapsed)

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        """Take a request whose path is not in ``routes``."""
        if is_mcp(request.path) or is_one_server(request):
            (self._profiles if is_mcp(request.path) else self._by_server).handle(request, exchange)
            return
        router = self._routers.get(_router_of(request))
        (router.handle if router is not None else answer_not_found)(request, exchange)

    async def close(self, stop_listening: Callable[[], Awaitable[None]] | None = None) -> None:
        """End the standing streams, take no more clients, give calls a moment, then end whoever is left."""
        if self._stop_hearing is not None:
            self._stop_hearing()
        self._unfollow()
        self._bulletin.close()
        for router in self._routers.values():
            await router.close()
        for doors in (self._profiles, self._by_server):
            doors.end_streams()
        if stop_listening is not None:
            await stop_listening()
        for doors in (self._profiles, self._by_server):
            await doors.close()
        if self._roaming is not None:
            await self._roaming.close()
        if self._sessions is not None:
            await self._sessions.close()


def _router_of(request: HttpRequest) -> str:
    """Who answers a request that is not MCP."""
    if is_oauth(request.path):
        return "oauth"
    return "rest" if is_rest(request) else "agents" if is_gateway(request) else "web"


def is_rest(request: HttpRequest) -> bool:
    """Whether a request is for the REST door."""
    return request.path.startswith(f"{ROOT}/".encode()) or request.path == ROOT.encode()


def is_gateway(request: HttpRequest) -> bool:
    """Whether an agent asks which servers there are."""
    return request.path.startswith(AGENTS_ROOT.encode())


def is_one_server(request: HttpRequest) -> bool:
    """Whether a request is MCP for the tools of one server."""
    return request.path.startswith(SERVERS_PATH.encode()) and not request.path.endswith(b"/mcpServers")


def asks_itself(request: HttpRequest) -> bool:
    """REST and the page know who is signed in; everything else needs a token before it is looked at."""
    return request.path != METRICS_PATH.encode() and not is_mcp(request.path) and not is_one_server(request)


async def _open_roaming(project: Project) -> Roaming | None:
    """Go on with sessions of other replicas, and follow their edits, where there are any."""
    fleet = project.crib.fleet
    if fleet is None:
        return None
    fleet.on_config = project.reload
    roaming = Roaming(fleet.book, fleet.coordination, fleet.failed)
    await roaming.open()
    return roaming


def guard_policy(config: Config, auth: Authentication, settings: ServerSettings, own: tuple[str, ...]) -> GuardPolicy:
    """Which hosts and origins are answered, and who needs a token; ``own`` are the server's names beside loopback."""
    public = (host_of(config.public_url),) if config.public_url else ()
    page = "/".join(config.public_url.split("/")[:3])
    origins = {origin.rstrip("/") for origin in (*settings.allow_origins, page) if origin}
    return GuardPolicy(
        allowed_hosts=LOOPBACK_HOSTS | {_any_port(name) for name in (*settings.allow_hosts, *public, *own)},
        allowed_origins=LOOPBACK_ORIGINS | origins,
        identify=auth.identify,
        open_paths=OPEN_PATHS | {PROOF_PATH} | (OAUTH_PATHS if auth.oauth is not None else frozenset()),
        asks_itself=asks_itself,
        admit=None if auth.resource is None else TokenAdmission(auth.resource),
        challenge=None if auth.resource is None else partial(_challenge, auth.resource),
    )


def _challenge(resource: ResourceIdentity, request: HttpRequest) -> bytes:
    error = "" if request.header(b"authorization") is None else "invalid_token"
    return resource.challenge(request.path.decode("latin-1"), error)


@dataclass(frozen=True, slots=True)
class TokenAdmission:
    """Keeps tokens to the address they are for, and has clients without any scope ask for one."""

    resource: ResourceIdentity

    def __call__(self, request: HttpRequest, identity: object) -> Refusal | None:
        """Why somebody with a valid token may not come in."""
        if not isinstance(identity, Caller):
            return None
        path = request.path.decode("latin-1")
        if identity.audience and identity.audience != self.resource.address_of(path):
            return self._refusal(401, "HTTP_UNAUTHORIZED", "This token is for another address.", "invalid_token", path)
        if identity.grants.level is None and is_endpoint(path):
            words = "This token grants no level: ask for a scope such as toolcrib:level:read_only."
            return self._refusal(403, "HTTP_FORBIDDEN", words, "insufficient_scope", path)
        return None

    def _refusal(self, status: int, code: str, words: str, error: str, path: str) -> Refusal:
        return Refusal(status, code, words, ((b"www-authenticate", self.resource.challenge(path, error)),))


def _any_port(name: str) -> str:
    """A host as the guard writes it; one given with a port counts with that port only."""
    if name.startswith("["):
        return name if name.rpartition("]")[2] else f"{name}:*"
    if name.count(":") > 1:
        return f"[{name}]:*"
    return name if ":" in name else f"{name}:*"


class EmitBoth:
    """Tells the log and the bulletin; the log alone says which levels are worth putting into words."""

    def __init__(self, log: Emit, bulletin: Bulletin) -> None:
        self._log, self._bulletin = log, bulletin

    def __call__(self, event: Event) -> None:
        """Tell both."""
        self._log(event)
        self._bulletin.hear(event)

    def hears(self, level: str) -> bool:
        """What is beneath the log is no news either."""
        return events.hears(self._log, level)


def never() -> bool:
    """For servers that do not drain."""
    return False


def probe_routes(crib: Crib, usual: Caller, is_draining: Callable[[], bool] = never) -> dict[str, Handler]:
    """The handlers by path; ``usual`` is who comes without a token."""
    started_at = time.time()

    def alive() -> tuple[int, bytes, bytes]:
        health = crib.health()
        # Whoever comes without a token learns that servers are away, not which ones there are.
        away = sorted({"servers" if part.startswith("server ") else part for part in health.away})
        told = {"status": health.status, "version": VERSION, "away": away}
        return 200, msgspec.json.encode(told), _JSON

    def ready() -> tuple[int, bytes, bytes]:
        told = readiness(crib.audit.status(), crib.fleet, is_draining=is_draining())
        return 200 if told["ready"] else 503, msgspec.json.encode(told), _JSON

    def metrics() -> tuple[int, bytes, bytes]:
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

    def answer(request: HttpRequest, exchange: Exchange) -> None:
        caller = request.identity if isinstance(request.identity, Caller) else usual
        if caller.grants == EVERYTHING or METRICS in (caller.grants.capabilities or ()):
            handler(request, exchange)
        else:
            exchange.answer(403, error_body("HTTP_FORBIDDEN", "Metrics need a token with the capability metrics."))

    return answer


def _get(page: Page) -> Handler:
    def answer(request: HttpRequest, exchange: Exchange) -> None:
        if request.method not in (b"GET", b"HEAD"):
            exchange.answer(405, error_body("HTTP_METHOD_NOT_ALLOWED", "Use GET."), headers=((b"allow", b"GET, HEAD"),))
            return
        exchange.answer(*page())

    return answer
