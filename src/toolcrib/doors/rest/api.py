"""Everything under ``/api/v1``, as one list of routes."""

from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.rest.approvals import approval_routes
from toolcrib.doors.rest.audit import audit_routes
from toolcrib.doors.rest.calling import calling_routes
from toolcrib.doors.rest.calls import call_routes
from toolcrib.doors.rest.costs import cost_routes
from toolcrib.doors.rest.description import description_routes
from toolcrib.doors.rest.events import event_routes
from toolcrib.doors.rest.pins import pin_routes
from toolcrib.doors.rest.policies import policy_routes
from toolcrib.doors.rest.projects import project_routes
from toolcrib.doors.rest.servers import server_routes
from toolcrib.doors.rest.sign_in_links import sign_in_routes
from toolcrib.doors.rest.state import state_routes
from toolcrib.doors.rest.tools import tool_routes

ROOT = "/api/v1"


def rest_routes(premises: Premises) -> list[RouteSpec]:
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
