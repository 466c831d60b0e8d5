"""The pages of the daily work, as one list: tools, calls, approvals, the audit log, the knowledge base."""

from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.web.approvals_page import approvals_routes
from toolcrib.doors.web.audit_page import audit_routes
from toolcrib.doors.web.calls_page import calls_routes
from toolcrib.doors.web.kb_page import kb_routes
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.tool_deeds import tool_deed_routes
from toolcrib.doors.web.tools_page import tools_routes


def work_routes(pages: Pages) -> list[RouteSpec]:
    """Their routes."""
    return [
        *tools_routes(pages),
        *tool_deed_routes(pages),
        *calls_routes(pages),
        *approvals_routes(pages),
        *audit_routes(pages),
        *kb_routes(pages),
    ]
