"""Serving on our own HTTP server: the address, the run file that commands find it by, and an orderly end."""

import asyncio
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from toolcrib.config.model import Config
from toolcrib.config.sections import AuthMode
from toolcrib.core.audit import AuditEntry
from toolcrib.core.clocks import Moments, elapsed
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event, StandardLog
from toolcrib.crib.bulletin import Bulletin
from toolcrib.crib.crib import Crib
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project, project_of
from toolcrib.server.app import ServerApp, ServerSettings, guard_policy
from toolcrib.server.identity.authentication import OWNER, AuthContext, Authentication, make_authentication
from toolcrib.server.identity.owner_token import FoundToken, is_loopback, kept_token
from toolcrib.server.identity.run_proof import PATH as PROOF_PATH
from toolcrib.server.identity.run_proof import RunProof
from toolcrib.server.identity.sign_in import OwnNames, PageAddress, PublicAddress
from toolcrib.server.joins import Joins, JoinTerms
from toolcrib.server.mcp.addresses import PATH as MCP_PATH
from toolcrib.stores.paths import state_directory
from toolcrib.stores.run_files import OwnRunFile, RunFiles, RunOffer
from toolcrib.transports.http.server import HttpServer
from toolcrib.version import VERSION

CLOSE_S = 2.0
AMONG_OTHERS_S = 10.0
"""How long requests are still answered where there are other replicas: balancers look every few seconds."""


def drain_s(config: Config, sign: int, *, has_fleet: bool) -> float:
    """How long to go on after a signal; whoever presses Ctrl-C does not want to wait."""
    if sign != signal.SIGTERM:
        return 0.0
    if config.drain_s is not None:
        return config.drain_s
    return AMONG_OTHERS_S if has_fleet else 0.0


@dataclass(slots=True)
class Serving:
    """What serves right now."""

    project: Project
    url: str
    """Where MCP is."""
    sign_in: str
    """An address that signs the owner in to the page, once."""
    app: ServerApp
    server: HttpServer
    emit: Emit
    is_followed: bool = False
    """Whether another toolcrib takes over when this one ends."""

    @property
    def crib(self) -> Crib:
        """What is served."""
        return self.project.crib

    @property
    def loaded(self) -> Loaded:
        """What it is made from."""
        return self.project.loaded

    @property
    def joins(self) -> Joins:
        """The clients that joined over stdio."""
        assert self.app.joins is not None
        return self.app.joins

    @property
    def token(self) -> FoundToken | None:
        """The owner's token, where clients need one."""
        return self.app.auth.owner

    async def drain(self, sign: int) -> None:
        """Say that this will end, and answer for a while whoever has not heard yet."""
        self.app.is_draining = True
        seconds = drain_s(self.loaded.config, sign, has_fleet=self.crib.fleet is not None)
        if seconds > 0:
            self.server.wind_down()
            self.emit(Event("serve.draining", "info", {"seconds": seconds}))
            await asyncio.sleep(seconds)


def authenticate(config: Config, settings: ServerSettings, env: Mapping[str, str], emit: Emit) -> Authentication:
    """Who may come in; what would leave everything open by mistake is an error before anything is served."""
    return make_authentication(
        config,
        AuthContext(env, Moments(), elapsed, emit),
        token=settings.token,
        insecure=settings.insecure,
        is_agent=settings.is_agent,
    )


@asynccontextmanager
async def serve(  # noqa: PLR0913 - what a program may wish, each by its name
    crib: Crib,
    *,
    host: str | None = None,
    port: int | None = None,
    token: str | None = None,
    auth: AuthMode | None = None,
    insecure: bool = False,
    public_url: str | None = None,
    profile: str = "",
    allow_hosts: Iterable[str] = (),
    allow_origins: Iterable[str] = (),
    emit: Emit | None = None,
) -> AsyncIterator[Serving]:
    """Serve an open Crib over HTTP, as the command ``toolcrib serve`` does; ends in good order with the block.

    What is not given is as its configuration says: by default 127.0.0.1 and port 7337; port 0 takes any free one.
    """
    project = project_of(crib)
    said = project.config
    config = replace(
        said,
        host=said.host if host is None else host,
        port=said.port if port is None else port,
        auth_mode=auth or said.auth_mode,
        public_url=said.public_url if public_url is None else public_url.rstrip("/"),
    )
    project.loaded = replace(project.loaded, config=config)
    settings = ServerSettings(
        token=token,
        insecure=insecure,
        profile=profile,
        allow_hosts=tuple(allow_hosts),
        allow_origins=tuple(allow_origins),
    )
    emit = emit or StandardLog()
    authentication = authenticate(config, settings, project.around.env, emit)
    listening = _listening(project, authentication, settings, emit, None, None)
    async with authentication.kept_fresh(emit), listening as serving:
        yield serving


@asynccontextmanager
async def serve_project(
    project: Project, auth: Authentication, settings: ServerSettings, emit: Emit, bulletin: Bulletin | None = None
) -> AsyncIterator[Serving]:
    """Serve a project where its configuration says, so that commands of this user find it; ends with the block."""
    proof = RunProof(OWNER, time.monotonic)
    auth = auth.admit_proven(proof)
    async with auth.kept_fresh(emit), _listening(project, auth, settings, emit, bulletin, proof) as serving:
        joins = serving.app.joins = Joins(project, JoinTerms(settings.is_agent, settings.profile), emit)
        run = await _announce(serving, settings, proof)
        try:
            yield serving
        finally:
            if run is not None:
                run.remove()
            await joins.close(is_followed=serving.is_followed)


@asynccontextmanager
async def _listening(
    project: Project,
    auth: Authentication,
    settings: ServerSettings,
    emit: Emit,
    bulletin: Bulletin | None,
    proof: RunProof | None,
) -> AsyncIterator[Serving]:
    config = project.config
    app = await ServerApp(project, auth, emit, bulletin).open(settings.profile)
    app.on_end = settings.on_end
    if proof is not None:
        app.routes[PROOF_PATH] = proof.handle
    own = () if is_loopback(config.host) else tuple(own_names(config.host))
    server = HttpServer(app.routes, fallback=app.handle, policy=guard_policy(config, auth, settings, own))
    try:
        await server.start(config.host, config.port)
        url = mcp_url(server)
        base = config.public_url or url.removesuffix(MCP_PATH)
        app.publish(page_address(config, server, project.around.env), url, base)
        project.crib.audit.note(AuditEntry("start", details={"version": VERSION, "url": url}))
        yield Serving(project, url, auth.sign_ins.make_link(), app, server, emit)
    finally:
        await app.close(lambda: server.close(CLOSE_S))


async def _announce(serving: Serving, settings: ServerSettings, proof: RunProof) -> OwnRunFile | None:
    """Write the run file; where that cannot be done, other commands need ``--url``, and all else works."""
    project, loaded, joins = serving.project, serving.loaded, serving.joins
    runs = RunFiles(project.around.env)
    try:
        place = runs.new_socket()
        await joins.open(place)
        offered = RunOffer(
            serving.server.local_url,
            project.file.resolve(),
            VERSION,
            user=str(loaded.user or ""),
            is_chosen=loaded.is_chosen,
            socket=str(place),
            is_background=settings.is_background,
            log=settings.log,
        )
        run = runs.write(offered)
    except (ConfigError, OSError) as error:
        serving.emit(Event("run.file.failed", "warning", {"error": str(error)}))
        return None
    joins.secret = run.entry.secret
    proof.open(run.entry)
    return run


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
