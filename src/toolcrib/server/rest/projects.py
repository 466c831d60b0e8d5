"""Projects and sessions over REST: what each is configured to offer, who works where, and what changed meanwhile."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcrib.core.access import matches, may_operate
from toolcrib.core.call import ErrorInfo, ToolCall
from toolcrib.core.errors import ConfigError, InternalError
from toolcrib.core.tool import SecurityLevel
from toolcrib.project.known import ProjectPlace, Snapshot
from toolcrib.project.sessions import AgentSession, AgentSessions, UnknownSession, working
from toolcrib.server.answers import JSON, STATUSES, HttpAnswer, HttpProblem, json_answer
from toolcrib.server.rest.about import About, Param, count
from toolcrib.server.rest.calls import show_result
from toolcrib.server.rest.project_shapes import (
    ConfigurationView,
    HappeningList,
    LiveConfigurationView,
    NewSession,
    ProjectList,
    ProjectView,
    SessionCall,
    SessionCallResult,
    SessionList,
    SessionView,
)
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import PageRequest, ServedProject
from toolcrib.stores.projects import UnknownProject

SESSIONS_PATH = "/api/v1/sessions"
SESSIONS_TAG = "sessions"
LONGEST_WAIT_S = 60
NEWEST = 999_999_999


def session_routes(sessions: AgentSessions) -> list[RouteSpec]:
    """The routes of sessions."""

    async def look(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        return json_answer({"sessions": shown_sessions(visit, sessions)})

    async def show(visit: PageRequest) -> HttpAnswer:
        return json_answer({"session": session_entry(await find_session(visit, sessions), visit)})

    async def configuration(visit: PageRequest) -> HttpAnswer:
        session = await find_session(visit, sessions)
        return json_answer(session.workplace.document(visit.caller))

    async def events(visit: PageRequest) -> HttpAnswer:
        return json_answer(await _happenings(visit, await find_session(visit, sessions)))

    async def end(visit: PageRequest) -> HttpAnswer:
        await sessions.end(await find_session(visit, sessions))
        return HttpAnswer(204)

    async def call(visit: PageRequest) -> HttpAnswer:
        session = await find_session(visit, sessions)
        return await working(session, _call(visit, session))

    return [
        RouteSpec("GET", SESSIONS_PATH, look, LIST_SESSIONS),
        RouteSpec("GET", f"{SESSIONS_PATH}/{{id}}", show, SHOW_SESSION),
        RouteSpec("GET", f"{SESSIONS_PATH}/{{id}}/configuration", configuration, SESSION_CONFIGURATION),
        RouteSpec("GET", f"{SESSIONS_PATH}/{{id}}/events", events, EVENTS),
        RouteSpec("DELETE", f"{SESSIONS_PATH}/{{id}}", end, END),
        RouteSpec("POST", f"{SESSIONS_PATH}/{{id}}/tools/{{name}}/call", call, CALL),
    ]


LIST_SESSIONS = About(
    "List the sessions", SESSIONS_TAG, SessionList, "One's own; operators see all, those of MCP clients among them."
)
SHOW_SESSION = About("Show one session and what it can use", SESSIONS_TAG, SessionView, problems=(404,))
SESSION_CONFIGURATION = About(
    "Show what a session can use, with the settings that count",
    SESSIONS_TAG,
    LiveConfigurationView,
    "Prefers what really runs; a server that has not answered yet is shown as the record knows it.",
    problems=(404,),
)
EVENTS = About(
    "Hear of servers and tools that come, change and go",
    SESSIONS_TAG,
    HappeningList,
    params=(
        Param("after", "only what happened after this id", count(0)),
        Param("wait", f"wait so many seconds for something to happen, up to {LONGEST_WAIT_S}", count(0)),
    ),
    problems=(404, 422),
)
END = About("End a session", SESSIONS_TAG, status=204, problems=(404,))
CALL = About(
    "Call a tool in a session",
    SESSIONS_TAG,
    SessionCallResult,
    "A tool that fails has a result, with `success` false. A call that never ran is a problem.",
    body=SessionCall,
    example={"arguments": {"text": "hello"}, "timeoutSeconds": 10},
    problems=(403, 404, 409, 415, 422, 429, 502, 503, 504),
)


def may_see(visit: PageRequest, session: AgentSession) -> bool:
    """Whether a session concerns the visitor; those in other projects concern only who could open one there."""
    if not session.workplace.place.is_served:
        return may_operate(visit.caller, SecurityLevel.SYSTEM)
    return session.caller.id == visit.caller.id or may_operate(visit.caller, SecurityLevel.ADMIN)


async def find_session(visit: PageRequest, sessions: AgentSessions) -> AgentSession:
    """The session an address names, as far as it concerns the visitor."""
    visit.need_known()
    wanted = visit.params["id"]
    if not may_see(visit, sessions.find(wanted)):
        raise UnknownSession(wanted)
    return await sessions.use(wanted)


def shown_sessions(visit: PageRequest, sessions: AgentSessions, project: str | None = None) -> list[dict[str, Any]]:
    """The sessions that concern the visitor, of one project or of all."""
    return [
        session.to_dict()
        for session in sessions.all()
        if may_see(visit, session) and project in (None, session.workplace.place.id)
    ]


def session_entry(session: AgentSession, visit: PageRequest) -> dict[str, Any]:
    """One session, with the tools the visitor can use in it right now."""
    return session.to_dict() | {
        "lastEvent": session.workplace.journal.latest(_sees(visit)),
        "availableTools": session.workplace.entries(visit.caller),
    }


async def _happenings(visit: PageRequest, session: AgentSession) -> dict[str, Any]:
    """What happened after an id, as far as it concerns the visitor; waits for something if nothing has."""
    journal, after, sees = session.workplace.journal, visit.number("after", 0, NEWEST), _sees(visit)
    await working(session, journal.wait(after, visit.number("wait", 0, LONGEST_WAIT_S), sees))
    return {
        "events": [one.to_dict() for one in journal.after(after, sees, session.since)],
        "last": journal.latest(sees),
        "missed": after < journal.forgotten(sees) and session.since < journal.forgotten(),
    }


def _sees(visit: PageRequest) -> Callable[[frozenset[str]], bool]:
    """What happens to servers outside of a token's grants does not concern its owner, not even that it does."""
    patterns = visit.caller.grants.servers
    return lambda servers: any(matches(server, patterns) for server in servers)


async def _call(visit: PageRequest, session: AgentSession) -> HttpAnswer:
    if session.stay is not None:
        raise HttpProblem(409, "HTTP_CONFLICT", "This session belongs to an MCP client: open one of your own.")
    body = visit.json(SessionCall)
    caller = replace(visit.caller, session=session.id)
    crib = session.workplace.crib
    made = crib.request(visit.params["name"], body.arguments, caller, timeout_s=body.timeout_seconds)
    began = time.perf_counter()
    result = await crib.run(made)
    if result.error is not None and _never_ran(result.error, made):
        raise _refused(result.error, made.id)
    more: dict[str, Any] = {"durationMs": round((time.perf_counter() - began) * 1000, 3), "executionId": made.id}
    return await show_result(crib, result, more if result.error else {"error": None} | more)


def _never_ran(error: ErrorInfo, call: ToolCall) -> bool:
    """Whether the tool had no part in the failure."""
    return error.code == InternalError.code or (not call.context.sent and error.code in STATUSES)


def _refused(error: ErrorInfo, call_id: str) -> HttpProblem:
    more: dict[str, Any] = {"retryable": error.retryable, "executionId": call_id, "details": dict(error.details)}
    retry_after_s = error.details.get("retry_after_s")
    if isinstance(retry_after_s, int | float):
        more["retryAfterSeconds"] = retry_after_s
    return HttpProblem(STATUSES.get(error.code, 500), error.code, error.message, **more)


PATH = "/api/v1/projects"
TAG = "projects"


def project_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of projects and sessions."""
    sessions = premises.sessions
    if sessions is None:
        return []
    projects = sessions.projects

    async def look(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        places = await projects.places() if sees_others(visit) else [projects.place]
        return json_answer({"projects": [_entry(place, visit) for place in places]})

    async def show(visit: PageRequest) -> HttpAnswer:
        place = await find_place(visit, sessions)
        snapshot = await read_files(visit, sessions, place)
        return json_answer({"project": _entry(place, visit) | _counts(snapshot, visit, sessions)})

    async def configuration(visit: PageRequest) -> HttpAnswer:
        place = await find_place(visit, sessions)
        return configuration_answer(visit, await read_files(visit, sessions, place))

    async def look_at_sessions(visit: PageRequest) -> HttpAnswer:
        place = await find_place(visit, sessions)
        return json_answer({"sessions": shown_sessions(visit, sessions, place.id)})

    async def open_session(visit: PageRequest) -> HttpAnswer:
        place = await find_place(visit, sessions)
        if not place.is_served:
            visit.need_operator(SecurityLevel.SYSTEM)
        name = visit.json(NewSession).name if visit.request.body else ""
        session = await sessions.open(place, name, visit.caller)
        return json_answer({"session": session_entry(session, visit)}, 201)

    return [
        RouteSpec("GET", PATH, look, LIST),
        RouteSpec("GET", f"{PATH}/{{id}}", show, SHOW),
        RouteSpec("GET", f"{PATH}/{{id}}/configuration", configuration, CONFIGURATION),
        RouteSpec("GET", f"{PATH}/{{id}}/sessions", look_at_sessions, SESSIONS),
        RouteSpec("POST", f"{PATH}/{{id}}/sessions", open_session, OPEN),
        *session_routes(sessions),
    ]


LIST = About("List the projects", TAG, ProjectList, "The served one first, then those toolcrib was run in before.")
SHOW = About("Show one project", TAG, ProjectView, problems=(404, 422))
CONFIGURATION = About(
    "Show what a project is configured to offer",
    TAG,
    ConfigurationView,
    "Settings with their origins, servers, and the tools on record. Read from its files; nothing is started.",
    params=(Param("if-none-match", "the `etag` of an answer before: 304 while nothing changed", place="header"),),
    problems=(404, 422),
)
SESSIONS = About("List the sessions of a project", TAG, SessionList, problems=(404,))
OPEN = About(
    "Begin to work in a project",
    TAG,
    SessionView,
    "Its servers are asked for their tools in the background. A project that is not the served one needs a token for"
    " everything, up to level system.",
    status=201,
    body=NewSession,
    example={"name": "tidy up"},
    problems=(403, 404, 415, 422, 429),
)


def sees_others(visit: PageRequest) -> bool:
    """Whether projects other than the served one concern the visitor: grants speak of the served one's servers."""
    return may_operate(visit.caller, SecurityLevel.ADMIN)


async def find_place(visit: PageRequest, sessions: AgentSessions) -> ProjectPlace:
    """The project an address names, as far as it concerns the visitor."""
    visit.need_known()
    wanted = visit.params["id"]
    if wanted != sessions.projects.place.id and not sees_others(visit):
        raise UnknownProject(wanted)
    return await sessions.projects.find(wanted)


async def read_files(visit: PageRequest, sessions: AgentSessions, place: ProjectPlace) -> Snapshot:
    """What a project's files tell; why they cannot be used is for operators, for it names them."""
    try:
        return await sessions.projects.read(place)
    except ConfigError as error:
        if sees_others(visit):
            raise
        raise HttpProblem(
            422, error.code, "The files of this project cannot be used; its operators can see why."
        ) from None


def configuration_answer(visit: PageRequest, snapshot: Snapshot) -> HttpAnswer:
    """The configuration, encoded beforehand for who may see all of it."""
    if not may_operate(visit.caller, SecurityLevel.SYSTEM):
        return json_answer(snapshot.document(visit.caller))
    headers = ((b"etag", snapshot.etag), (b"cache-control", b"private, no-cache"))
    if is_same(visit.request.header(b"if-none-match"), snapshot.etag):
        return HttpAnswer(304, b"", JSON, headers)
    return HttpAnswer(200, snapshot.encoded, JSON, headers)


def is_same(given: bytes | None, etag: bytes) -> bool:
    """Whether a client has this very version already."""
    known = [tag.strip().removeprefix(b"W/") for tag in (given or b"").split(b",")]
    return etag in known or b"*" in known


def _entry(place: ProjectPlace, visit: PageRequest) -> dict[str, Any]:
    is_operator = sees_others(visit)
    return {
        "id": place.id,
        "name": place.name,
        "isServed": place.is_served,
        "directory": str(place.directory) if is_operator else None,
        "lastUsed": place.last_used if is_operator else None,
    }


def _counts(snapshot: Snapshot, visit: PageRequest, sessions: AgentSessions) -> dict[str, Any]:
    servers = snapshot.servers(visit.caller, full=False)
    return {
        "servers": len(servers),
        "tools": len(snapshot.entries(visit.caller)),
        "sessions": len(shown_sessions(visit, sessions, snapshot.place.id)),
    }
