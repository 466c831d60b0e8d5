"""What is done to a tool on its page: tried, given a policy, taken out of quarantine."""

from dataclasses import replace

from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import PermissionDenied
from toolcrib.doors.http.answers import Answer, Problem, not_found
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.views.tools import SEEN_LENGTH, check_seen
from toolcrib.doors.web.notices import go_on
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.tool_rows import known_tool, tool_address
from toolcrib.doors.web.tools_page import POLICIES, render_tool
from toolcrib.doors.web.trying import read_try, run_try

LARGEST_TRY = 200_000


def tool_deed_routes(pages: Pages) -> list[RouteSpec]:
    """The routes of what can be done."""

    async def attempt(visit: Visit) -> Answer:
        visit.need_known()
        _refuse_large(visit)
        route, sent = known_tool(pages.premises.crib, visit), visit.form()
        trying = read_try(route, sent)
        if trying.is_wrong:
            return render_tool(pages, visit, route, trying, 422)
        if sent.get("do") == "run":
            outcome = await run_try(pages.premises.crib, route, visit, trying.arguments)
            return render_tool(pages, visit, route, replace(trying, outcome=outcome))
        return render_tool(pages, visit, route, replace(trying, is_shown=True))

    async def set_policy(visit: Visit) -> Answer:
        visit.need_operator()
        name, policy = _any_tool(pages, visit), visit.form().get("policy", "")
        if policy not in POLICIES:
            raise Problem(422, "TOOL_INVALID_INPUT", f"A policy is one of {', '.join(POLICIES)}.")
        caller, premises = visit.caller, pages.premises
        entry = AuditEntry("policy", name, caller=caller.id, caller_kind=caller.kind, decision=policy)
        await premises.crib.audit.commit(entry)
        await premises.project.set_policy(name, policy)
        route = premises.crib.lookup(name)
        holds = (route.policy if route is not None else "disable") == policy
        return go_on(tool_address(name), "policy" if holds else "policy_overruled", name)

    async def approve(visit: Visit) -> Answer:
        visit.need_operator()
        fields = visit.form()
        name, seen = visit.params["name"], fields.get("seen", "")
        await approve_tool(pages, visit, name, seen)
        place = "/approvals" if fields.get("next") == "approvals" else tool_address(name)
        return go_on(place, "accepted", name)

    return [
        RouteSpec("POST", "/tools/{name}/try", attempt),
        RouteSpec("GET", "/tools/{name}/try", _back),
        RouteSpec("POST", "/tools/{name}/policy", set_policy),
        RouteSpec("POST", "/tools/{name}/approve", approve),
    ]


def _refuse_large(visit: Visit) -> None:
    """What was sent is shown again, several times over; while that is made, nobody else is served."""
    if len(visit.request.body) > LARGEST_TRY:
        detail = "This is too much for the page. Call the tool over REST or with `toolcrib call`."
        raise Problem(413, "HTTP_BODY_TOO_LARGE", detail)


async def _back(visit: Visit) -> Answer:
    """Whoever reloads what came of a form begins anew."""
    from toolcrib.doors.http.answers import see_other

    return see_other(tool_address(visit.params["name"]))


def _any_tool(pages: Pages, visit: Visit) -> str:
    """The name of a tool that is there, or that a policy keeps away."""
    name, catalog = visit.params["name"], pages.premises.crib.catalog
    if name not in catalog.routes and name not in catalog.left_out:
        raise not_found("tool", name)
    return name


async def approve_tool(pages: Pages, visit: Visit, name: str, seen: str) -> None:
    """Accept a tool as it is now, if that is what was looked at."""
    crib = pages.premises.crib
    route = crib.lookup(name)
    if route is None or not route.held:
        raise not_found("tool in quarantine", name, "Somebody may have accepted it already.")
    if len(seen) < SEEN_LENGTH:
        raise Problem(422, "TOOL_INVALID_INPUT", "Look at what changed first.")
    try:
        check_seen(crib, route, seen)
        await crib.servers.approve(name, by=visit.caller, still=lambda: check_seen(crib, route, seen))
    except PermissionDenied as error:
        raise Problem(409, "HTTP_CONFLICT", str(error)) from None
