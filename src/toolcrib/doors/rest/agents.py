"""toolcrib as a tooling gateway: its servers, listed the way agents ask a gateway for theirs."""

from typing import Any

from toolcrib.core.access import NATIVE
from toolcrib.core.names import is_own
from toolcrib.doors.http.answers import Answer, json_answer
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit

ROOT = "/agents/"
PATHS = ("/agents/{app}/mcpServers", "/agents/v2/{app}/mcpServers")


def agent_routes(premises: Premises) -> list[RouteSpec]:
    """Both addresses a gateway is asked at; every application gets what its token may reach."""

    async def ls(visit: Visit) -> Answer:
        return json_answer({"mcpServers": await offered_servers(premises, visit)})

    return [RouteSpec("GET", path, ls) for path in PATHS]


async def offered_servers(premises: Premises, visit: Visit) -> list[dict[str, Any]]:
    """The servers of whose tools the caller is shown any, each at its own address here."""
    catalog = await premises.crib.current()
    routes = [route for route in catalog.visible_to(visit.caller.grants) if not route.tool.reads_results]
    names = sorted({route.server or NATIVE for route in routes if route.server or not is_own(route.name)})
    base = premises.url.rpartition("/")[0]
    return [
        {"mcpServerName": name, "mcpServerUniqueName": name, "url": f"{base}{ROOT}servers/{name}"} for name in names
    ]
