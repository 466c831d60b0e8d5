"""Calls over REST: those under way and the last that ended; one's own, or all for operators."""

from toolcrib.calls.live import LiveCall
from toolcrib.doors.http.answers import Answer, Problem, json_answer, not_found
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About, Param, count
from toolcrib.doors.rest.watch_shapes import CallEntry, CallList, Cancelled

PATH = "/api/v1/calls"
MOST = 500
USUAL = 100


def call_routes(premises: Premises) -> list[RouteSpec]:
    """The routes of the calls."""

    async def ls(visit: Visit) -> Answer:
        visit.need_known()
        limit, tool = visit.number("limit", USUAL, MOST), visit.query.get("tool")
        live = premises.crib.live
        found = live.recent(MOST * 2) if live is not None else []
        shown = [call for call in found if _may_see(visit, call) and tool in (None, call.tool)]
        return json_answer({"calls": [call.to_dict() for call in shown[:limit]]})

    async def show(visit: Visit) -> Answer:
        return json_answer(_known_call(premises, visit).to_dict())

    async def cancel(visit: Visit) -> Answer:
        call = _known_call(premises, visit)
        live = premises.crib.live
        if live is None or not live.cancel(call.id):
            raise Problem(409, "HTTP_CONFLICT", "This call has ended already.")
        return json_answer({"id": call.id, "cancelled": True})

    params = (Param("tool", "only calls of this tool"), Param("limit", f"how many at most, up to {MOST}", count(USUAL)))
    detail = "One's own; for operators, everybody's. Of arguments only names and kinds are shown."
    return [
        RouteSpec("GET", PATH, ls, About("List the calls", "calls", CallList, detail, params=params, problems=(422,))),
        RouteSpec("GET", f"{PATH}/{{id}}", show, About("Show one call", "calls", CallEntry, problems=(404,))),
        RouteSpec(
            "POST",
            f"{PATH}/{{id}}/cancel",
            cancel,
            About("End a call", "calls", Cancelled, "Its caller is told that a person ended it.", problems=(404, 409)),
        ),
    ]


def _may_see(visit: Visit, call: LiveCall) -> bool:
    return call.caller == visit.caller.id or visit.is_operator()


def _known_call(premises: Premises, visit: Visit) -> LiveCall:
    visit.need_known()
    live = premises.crib.live
    call = live.find(visit.params["id"]) if live is not None else None
    if call is None or not _may_see(visit, call):
        raise not_found("call", visit.params["id"], "Only the latest are remembered; see the audit log.")
    return call
