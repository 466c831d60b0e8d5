"""Everything under ``/api/v1``, as one list of routes; a new resource is added here."""

from toolcrib.server.rest.accounts import ACCOUNTS, CLIENTS
from toolcrib.server.rest.approvals import APPROVALS, PINS, POLICIES
from toolcrib.server.rest.audit import AUDIT_LOG
from toolcrib.server.rest.calls import CALLS
from toolcrib.server.rest.openapi import description_routes
from toolcrib.server.rest.projects import PROJECTS, SESSIONS
from toolcrib.server.rest.secrets import SECRETS
from toolcrib.server.rest.servers import SERVERS
from toolcrib.server.rest.state import EVENTS, SIGN_IN, STATE
from toolcrib.server.rest.tools import OFFERS, TOOLS
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import ServedProject

RESOURCES = (
    TOOLS,
    OFFERS,
    SERVERS,
    ACCOUNTS,
    CLIENTS,
    SECRETS,
    PROJECTS,
    SESSIONS,
    POLICIES,
    PINS,
    APPROVALS,
    CALLS,
    EVENTS,
    AUDIT_LOG,
    STATE,
    SIGN_IN,
)


def rest_routes(served: ServedProject) -> list[RouteSpec]:
    """The routes of the REST door; a Crib that a program made has no projects and sessions."""
    shown = [one for one in RESOURCES if served.sessions is not None or one not in (PROJECTS, SESSIONS)]
    routes = [route for resource in shown for route in resource.routes]
    routes += description_routes(lambda: routes)
    return routes
