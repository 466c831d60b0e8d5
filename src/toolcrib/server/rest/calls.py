"""Calls over REST: those under way and the last that ended; one's own, or all for operators."""

from toolcrib.calls.live import CallEntry, LiveCall
from toolcrib.server.answers import HttpAnswer, conflict, json_answer, not_found
from toolcrib.server.rest.about import About, Param, RestResource, count
from toolcrib.server.views.calls import CallList, Cancelled
from toolcrib.server.visit import PageRequest

CALLS = RestResource("calls", "Calls under way, and the last that ended.")
MOST = 500
USUAL = 100
HINT = "Only the latest are remembered; see the audit log."


@CALLS.route(
    "GET",
    "/calls",
    About(
        "List the calls",
        CallList,
        "One's own; for operators, everybody's. Of arguments only names and kinds are shown.",
        params=(
            Param("tool", "only calls of this tool"),
            Param("limit", f"how many at most, up to {MOST}", count(USUAL)),
        ),
        problems=(422,),
    ),
)
async def _list(visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    limit, tool = visit.number("limit", USUAL, MOST), visit.query.get("tool")
    shown = [call for call in visit.view.calls(MOST * 2) if tool in (None, call.tool)]
    return json_answer(CallList([call.view() for call in shown[:limit]]))


@CALLS.route("GET", "/calls/{id}", About("Show one call", CallEntry, problems=(404,)))
async def _show(visit: PageRequest) -> HttpAnswer:
    return json_answer(known_call(visit).view())


@CALLS.route(
    "POST",
    "/calls/{id}/cancel",
    About("End a call", Cancelled, "Its caller is told that a person ended it.", problems=(404, 409)),
)
async def _cancel(visit: PageRequest) -> HttpAnswer:
    return json_answer(Cancelled(cancel_call(visit).id))


def known_call(visit: PageRequest, hint: str = HINT) -> LiveCall:
    """The call an address names, if its visitor may know of it."""
    visit.need_known()
    call = visit.view.call(visit.params["id"])
    if call is None:
        raise not_found("call", visit.params["id"], hint)
    return call


def cancel_call(visit: PageRequest, hint: str = HINT) -> LiveCall:
    """End the call an address names."""
    call = known_call(visit, hint)
    if not visit.view.cancel(call):
        raise conflict("This call has ended already.")
    return call
