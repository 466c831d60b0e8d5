"""Sessions over REST: who works where, what they can use right now, what changed meanwhile, and calls of their own.

A session is shown to whoever opened it and to operators. Its tools are those that really run; a server that has not
answered yet is shown as the record knows it (``isLive`` is false).
"""

import time
from dataclasses import replace
from typing import Any

import msgspec

from toolcrib.core.access import matches, may_operate
from toolcrib.core.call import ToolResult
from toolcrib.core.tool import SecurityLevel
from toolcrib.doors.http.answers import STATUSES, Answer, Problem, json_answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.sessions import Session, Sessions, UnknownSession, working

PATH = "/api/v1/sessions"
LONGEST_WAIT_S = 60
NEWEST = 999_999_999


class CallBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A call: the arguments, and how long it may take."""

    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout_seconds: float | None = None


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
        RouteSpec("GET", PATH, look),
        RouteSpec("GET", f"{PATH}/{{id}}", show),
        RouteSpec("GET", f"{PATH}/{{id}}/configuration", configuration),
        RouteSpec("GET", f"{PATH}/{{id}}/events", events),
        RouteSpec("DELETE", f"{PATH}/{{id}}", end),
        RouteSpec("POST", f"{PATH}/{{id}}/tools/{{name}}/call", call),
    ]


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
        "lastEvent": session.workplace.journal.last,
        "availableTools": session.workplace.entries(visit.caller),
    }


async def _happenings(visit: Visit, session: Session) -> dict[str, Any]:
    """What happened after an id, as far as it concerns the visitor; waits for something if nothing has."""
    journal, after = session.workplace.journal, max(session.since, visit.number("after", 0, NEWEST))
    await working(session, journal.wait(after, visit.number("wait", 0, LONGEST_WAIT_S)))
    patterns = visit.caller.grants.servers
    happened = [one for one in journal.after(after) if not one.server or matches(one.server, patterns)]
    return {
        "events": [one.to_dict() for one in happened],
        "last": journal.last,
        "missed": after < journal.forgotten,
    }


async def _call(visit: Visit, session: Session) -> Answer:
    if session.stay is not None:
        raise Problem(409, "HTTP_CONFLICT", "This session belongs to an MCP client: open one of your own.")
    body = visit.json(CallBody)
    if body.timeout_seconds is not None and not 0 < body.timeout_seconds < float("inf"):
        raise Problem(422, "TOOL_INVALID_INPUT", "`timeoutSeconds` must be more than zero.")
    caller = replace(visit.caller, session=session.id)
    began, name = time.perf_counter(), visit.params["name"]
    result = await session.workplace.crib.call(name, body.arguments, caller=caller, timeout_s=body.timeout_seconds)
    return _told(result, round((time.perf_counter() - began) * 1000, 3))


def _told(result: ToolResult, duration_ms: float) -> Answer:
    """A tool's own failure is a result; a call that never ran is a problem."""
    error = result.error
    if error is not None and error.code in STATUSES:
        more = {"retryable": error.retryable, "details": dict(error.details)}
        retry = error.details.get("retry_after_s")
        raise Problem(
            STATUSES[error.code], error.code, error.message, **more, **({"retryAfterSeconds": retry} if retry else {})
        )
    shown = result.to_dict() | {"durationMs": duration_ms}
    return json_answer(shown | ({} if result.structured is None else {"structuredContent": result.structured}))
