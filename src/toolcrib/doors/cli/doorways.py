"""Which door a request goes through, by its address."""

from toolcrib.core.events import Emit
from toolcrib.doors.cli.entrance import Entrance
from toolcrib.doors.cli.probes import METRICS_PATH
from toolcrib.doors.http.entering import Entering
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import Router
from toolcrib.doors.mcp.addresses import Addresses, is_mcp
from toolcrib.doors.mcp.by_server import PATH as SERVERS_PATH
from toolcrib.doors.mcp.by_server import ServerDoors
from toolcrib.doors.rest.agents import ROOT as AGENTS_ROOT
from toolcrib.doors.rest.agents import agent_routes
from toolcrib.doors.rest.api import ROOT, rest_routes
from toolcrib.doors.web.site import web_router
from toolcrib.transports.http_server import Exchange, Request, answer_not_found


class Doorways:
    """All addresses that are not exact: profiles, one server's tools alone, the gateway, REST, and the page."""

    def __init__(self, profiles: Addresses, by_server: ServerDoors) -> None:
        self._profiles, self._by_server = profiles, by_server
        self._agents: Router | None = None
        self._rest: Router | None = None
        self._web: Router | None = None

    def open(self, premises: Premises, entrance: Entrance, emit: Emit) -> None:
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
