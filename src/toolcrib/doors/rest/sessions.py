"""Sessions over REST: who works where, what they can use right now, what changed meanwhile, and calls of their own.

A session is shown to whoever opened it and to operators. Its tools are those that really run; a server that has not
answered yet is shown as the record knows it (``isLive`` is false).
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcrib.core.access import matches, may_operate
from toolcrib.core.call import ErrorInfo, ToolCall
from toolcrib.core.errors import InternalError
from toolcrib.core.tool import SecurityLevel
from toolcrib.doors.http.answers import STATUSES, Answer, Problem, json_answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About, Param, count
from toolcrib.doors.rest.calling import show_result
from toolcrib.doors.rest.project_shapes import (
    HappeningList,
    LiveConfigurationView,
    SessionCall,
    SessionCallResult,
    SessionList,
    SessionView,
)
from toolcrib.sessions import Session, Sessions, UnknownSession, working

PATH = "/api/v1/sessions"
TAG = "sessions"
LONGEST_WAIT_S = 60
NEWEST = 999_999_999


def session_routes(sessions: Sessions) -> list[RouteSpec]:
    """The routes of sessions."""

    async def look(visit: Visit) -> Answer:
        visit.need_known()
        return json_answer({"sessions": shown_sessions(visit, sessions)})

    async def show(visit: Visit) -> Answer:
        return json_answer({"session": session_entry(await find_session(visit, sessions), visit)})

    async def configuration(visit: Visit) -> Answer:
        session = await find_session(visit, sessions)
        return json_answer(session.workplace.document(visit.caller))

    async def events(visit: Visit) -> Answer:
        return json_answer(await _happenings(visit, await find_session(visit, sessions)))

    async def end(visit: Visit) -> Answer:
        await sessions.end(await find_session(visit, sessions))
        return Answer(204)

    async def call(visit: Visit) -> Answer:
        session = await find_session(visit, sessions)
        return await working(session, _call(visit, session))

    return [
        RouteSpec("GET", PATH, look, LIST),
        RouteSpec("GET", f"{PATH}/{{id}}", show, SHOW),
        RouteSpec("GET", f"{PATH}/{{id}}/configuration", configuration, CONFIGURATION),
        RouteSpec("GET", f"{PATH}/{{id}}/events", events, EVENTS),
        RouteSpec("DELETE", f"{PATH}/{{id}}", end, END),
        RouteSpec("POST", f"{PATH}/{{id}}/tools/{{name}}/call", call, CALL),
    ]


LIST = About("List the sessions", TAG, SessionList, "One's own; operators see all, those of MCP clients among them.")
SHOW = About("Show one session and what it can use", TAG, SessionView, problems=(404,))
CONFIGURATION = About(
    "Show what a session can use, with the settings that count",
    TAG,
    LiveConfigurationView,
    "Prefers what really runs; a server that has not answered yet is shown as the record knows it.",
    problems=(404,),
)
EVENTS = About(
    "Hear of servers and tools that come, change and go",
    TAG,
    HappeningList,
    params=(
        Param("after", "only what happened after this id", count(0)),
        Param("wait", f"wait so many seconds for something to happen, up to {LONGEST_WAIT_S}", count(0)),
    ),
    problems=(404, 422),
)
END = About("End a session", TAG, status=204, problems=(404,))
CALL = About(
    "Call a tool in a session",
    TAG,
    SessionCallResult,
    "A tool that fails has a result, with `success` false. A call that never ran is a problem.",
    body=SessionCall,
    example={"arguments": {"text": "hello"}, "timeoutSeconds": 10},
    problems=(403, 404, 409, 415, 422, 429, 502, 503, 504),
)


def may_see(visit: Visit, session: Session) -> bool:
    """Whether a session concerns the visitor; those in other projects concern only who could open one there."""
    if not session.workplace.place.is_served:
        return may_operate(visit.caller, SecurityLevel.SYSTEM)
    return session.caller.id == visit.caller.id or may_operate(visit.caller, SecurityLevel.ADMIN)


async def find_session(visit: Visit, sessions: Sessions) -> Session:
    """The session an address names, as far as it concerns the visitor."""
    visit.need_known()
    wanted = visit.params["id"]
    if not may_see(visit, sessions.find(wanted)):
        raise UnknownSession(wanted)
    return await sessions.use(wanted)


def shown_sessions(visit: Visit, sessions: Sessions, project: str | None = None) -> list[dict[str, Any]]:
    """The sessions that concern the visitor, of one project or of all."""
    return [
        session.to_dict()
        for session in sessions.all()
        if may_see(visit, session) and project in (None, session.workplace.place.id)
    ]


def session_entry(session: Session, visit: Visit) -> dict[str, Any]:
    """One session, with the tools the visitor can use in it right now."""
    return session.to_dict() | {
        "lastEvent": session.workplace.journal.latest(_sees(visit)),
        "availableTools": session.workplace.entries(visit.caller),
    }


async def _happenings(visit: Visit, session: Session) -> dict[str, Any]:
    """What happened after an id, as far as it concerns the visitor; waits for something if nothing has."""
    journal, after, sees = session.workplace.journal, visit.number("after", 0, NEWEST), _sees(visit)
    await working(session, journal.wait(after, visit.number("wait", 0, LONGEST_WAIT_S), sees))
    return {
        "events": [one.to_dict() for one in journal.after(after, sees, session.since)],
        "last": journal.latest(sees),
        "missed": after < journal.forgotten(sees) and session.since < journal.forgotten(),
    }


def _sees(visit: Visit) -> Callable[[frozenset[str]], bool]:
    """What happens to servers outside of a token's grants does not concern its owner, not even that it does."""
    patterns = visit.caller.grants.servers
    return lambda servers: any(matches(server, patterns) for server in servers)


async def _call(visit: Visit, session: Session) -> Answer:
    if session.stay is not None:
        raise Problem(409, "HTTP_CONFLICT", "This session belongs to an MCP client: open one of your own.")
    body = visit.json(SessionCall)
    caller = replace(visit.caller, session=session.id)
    made = ToolCall(visit.params["name"], "", body.arguments, caller=caller, timeout_s=body.timeout_seconds)
    began = time.perf_counter()
    result = await session.workplace.crib.run(made)
    if result.error is not None and _never_ran(result.error, made):
        raise _refused(result.error, made.id)
    more: dict[str, Any] = {"durationMs": round((time.perf_counter() - began) * 1000, 3), "executionId": made.id}
    return await show_result(session.workplace.crib, result, more if result.error else {"error": None} | more)


def _never_ran(error: ErrorInfo, call: ToolCall) -> bool:
    """Whether the tool had no part in the failure."""
    return error.code == InternalError.code or (not call.sent and error.code in STATUSES)


def _refused(error: ErrorInfo, call_id: str) -> Problem:
    more: dict[str, Any] = {"retryable": error.retryable, "executionId": call_id, "details": dict(error.details)}
    retry_after_s = error.details.get("retry_after_s")
    if isinstance(retry_after_s, int | float):
        more["retryAfterSeconds"] = retry_after_s
    return Problem(STATUSES.get(error.code, 500), error.code, error.message, **more)
