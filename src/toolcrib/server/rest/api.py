"""Everything under ``/api/v1``, as one list of routes."""

from toolcrib.server.rest.approvals import approval_routes, pin_routes
from toolcrib.server.rest.audit import audit_routes
from toolcrib.server.rest.calls import call_routes, calling_routes
from toolcrib.server.rest.openapi import description_routes
from toolcrib.server.rest.projects import project_routes
from toolcrib.server.rest.servers import server_routes
from toolcrib.server.rest.state import cost_routes, event_routes, sign_in_routes, state_routes
from toolcrib.server.rest.tools import policy_routes, tool_routes
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import ServedProject

ROOT = "/api/v1"


def rest_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the REST door."""
    routes: list[RouteSpec] = [
        *tool_routes(premises),
        *calling_routes(premises),
        *cost_routes(premises),
        *server_routes(premises),
        *policy_routes(premises),
        *pin_routes(premises),
        *approval_routes(premises),
        *call_routes(premises),
        *event_routes(premises),
        *audit_routes(premises),
        *state_routes(premises),
        *sign_in_routes(premises),
        *project_routes(premises),
        *description_routes(lambda: routes),
    ]
    return routes
