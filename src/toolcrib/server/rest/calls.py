"""Calls over REST: those under way and the last that ended; one's own, or all for operators."""

import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolcrib.calls.live import CallEntry, LiveCall
from toolcrib.calls.results.shown import CallResult
from toolcrib.core.access import Caller
from toolcrib.core.call import ErrorInfo, ToolCall
from toolcrib.core.errors import InternalError, ToolFailed
from toolcrib.crib.crib import Crib
from toolcrib.server.answers import STATUSES, HttpAnswer, HttpProblem, json_answer, json_bytes, not_found
from toolcrib.server.rest.about import About, Param, count
from toolcrib.server.rest.tools import PATH as TOOLS_PATH
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.calls import CallList, Cancelled
from toolcrib.server.visit import PageRequest, ServedProject

PATH = "/api/v1/calls"
MOST = 500
USUAL = 100


def call_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the calls."""

    async def ls(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        limit, tool = visit.number("limit", USUAL, MOST), visit.query.get("tool")
        live = premises.crib.live
        found = live.recent(MOST * 2) if live is not None else []
        shown = [call for call in found if _may_see(visit, call) and tool in (None, call.tool)]
        return json_answer(CallList([call.view() for call in shown[:limit]]))

    async def show(visit: PageRequest) -> HttpAnswer:
        return json_answer(_known_call(premises, visit).view())

    async def cancel(visit: PageRequest) -> HttpAnswer:
        call = _known_call(premises, visit)
        live = premises.crib.live
        if live is None or not live.cancel(call.id):
            raise HttpProblem(409, "HTTP_CONFLICT", "This call has ended already.")
        return json_answer(Cancelled(call.id))

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


def _may_see(visit: PageRequest, call: LiveCall) -> bool:
    return call.caller == visit.caller.id or visit.is_operator()


def _known_call(premises: ServedProject, visit: PageRequest) -> LiveCall:
    visit.need_known()
    live = premises.crib.live
    call = live.find(visit.params["id"]) if live is not None else None
    if call is None or not _may_see(visit, call):
        raise not_found("call", visit.params["id"], "Only the latest are remembered; see the audit log.")
    return call


LONGEST_S = 24 * 3600


class CallBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A call: arguments that fit the tool's input schema."""

    arguments: dict[str, Any] = {}
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_S)] | None = None


def calling_routes(premises: ServedProject) -> list[RouteSpec]:
    """The route that calls a tool; whoever goes away while it runs has called it off."""

    async def call(visit: PageRequest) -> HttpAnswer:
        return await answer_call(premises.crib, visit, visit.caller)

    about = About(
        "Call a tool",
        "tools",
        CallResult,
        "A tool that fails has a result, with `success` false. A call that never ran is a problem: arguments that do"
        " not fit (422), a tool that is not there (404) or may not be called (403), too many calls (429), a server"
        " that does not start (503) or not in time (504). A client that goes away cancels its call.",
        body=CallBody,
        example={"arguments": {"expression": "6 * 7"}, "timeoutSeconds": 10},
        problems=(403, 404, 415, 422, 429, 502, 503, 504),
        is_open=True,
    )
    return [RouteSpec("POST", f"{TOOLS_PATH}/{{name}}/call", call, about)]


async def answer_call(crib: Crib, visit: PageRequest, caller: Caller) -> HttpAnswer:
    """Call the tool an address names; one whose result is too much work to show was carried out all the same."""
    body, began = visit.json(CallBody), time.perf_counter()
    made = crib.request(visit.params["name"], body.arguments, caller, timeout_s=body.timeout_seconds)
    result = await crib.run(made)
    if result.error is not None and _never_ran(result.error, made):
        raise _refused(result.error, made.id)
    try:
        return json_bytes(await crib.show(result, made.id, (time.perf_counter() - began) * 1000))
    except ToolFailed as error:
        raise HttpProblem(502, error.code, str(error), executionId=made.id) from None


def _never_ran(error: ErrorInfo, call: ToolCall) -> bool:
    """Whether the tool had no part in the failure; a fault of ours is none of its doing either."""
    return error.code == InternalError.code or (not call.context.sent and error.code in STATUSES)


def _refused(error: ErrorInfo, call_id: str) -> HttpProblem:
    more: dict[str, Any] = {"retryable": error.retryable, "executionId": call_id, "details": dict(error.details)}
    retry_after_s = error.details.get("retry_after_s")
    if isinstance(retry_after_s, int | float):
        more["retryAfterSeconds"] = retry_after_s
    return HttpProblem(STATUSES.get(error.code, 500), error.code, error.message, **more)
