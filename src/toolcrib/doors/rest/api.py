"""Everything under ``/api/v1``, as one list of routes."""

from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.rest.approvals import approval_routes
from toolcrib.doors.rest.projects import project_routes

ROOT = "/api/v1"


def rest_routes(premises: Premises) -> list[RouteSpec]:
    """The routes of the REST door."""
    return [*approval_routes(premises.crib.inbox), *project_routes(premises)]
