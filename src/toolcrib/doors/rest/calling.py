"""Calls over REST: what ran has a result, whether the tool managed or not; what never ran is a problem."""

import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolcrib.core.call import ErrorInfo, ToolCall, ToolResult
from toolcrib.core.errors import InternalError, ToolFailed
from toolcrib.crib import Crib
from toolcrib.doors.http.answers import STATUSES, Answer, Problem, json_bytes
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About
from toolcrib.doors.rest.shapes import CallResult
from toolcrib.doors.rest.tools import PATH

LONGEST_S = 24 * 3600


class CallBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A call: arguments that fit the tool's input schema."""

    arguments: dict[str, Any] = {}
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_S)] | None = None


def calling_routes(premises: Premises) -> list[RouteSpec]:
    """The route that calls a tool; whoever goes away while it runs has called it off."""

    async def call(visit: Visit) -> Answer:
        body = visit.json(CallBody)
        began = time.perf_counter()
        name = visit.params["name"]
        made = ToolCall(name, "", body.arguments, caller=visit.caller, timeout_s=body.timeout_seconds)
        result = await premises.crib.run(made)
        if result.error is not None and _never_ran(result.error, made):
            raise _refused(result.error, made.id)
        took_ms = round((time.perf_counter() - began) * 1000, 3)
        return await show_result(premises.crib, result, {"durationMs": took_ms, "executionId": made.id})

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
    return [RouteSpec("POST", f"{PATH}/{{name}}/call", call, about)]


async def show_result(crib: Crib, result: ToolResult, more: dict[str, Any]) -> Answer:
    """What a call came to; one whose result is too much work to show was carried out all the same."""
    try:
        return json_bytes(await crib.show(result, more))
    except ToolFailed as error:
        raise Problem(502, error.code, str(error), executionId=more["executionId"]) from None


def _never_ran(error: ErrorInfo, call: ToolCall) -> bool:
    """Whether the tool had no part in the failure; a fault of ours is none of its doing either."""
    return error.code == InternalError.code or (not call.sent and error.code in STATUSES)


def _refused(error: ErrorInfo, call_id: str) -> Problem:
    more: dict[str, Any] = {"retryable": error.retryable, "executionId": call_id, "details": dict(error.details)}
    retry_after_s = error.details.get("retry_after_s")
    if isinstance(retry_after_s, int | float):
        more["retryAfterSeconds"] = retry_after_s
    return Problem(STATUSES.get(error.code, 500), error.code, error.message, **more)
