"""Projects and sessions over REST: what each is configured to offer, who works where, and what changed meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

from msgspec import Meta, structs

from toolcrib.calls.results.shown import CallResult
from toolcrib.core.access import matches, may_operate
from toolcrib.core.errors import ConfigError
from toolcrib.core.tool import SecurityLevel
from toolcrib.core.view import View
from toolcrib.project.known import ConfigurationView, ProjectPlace, Snapshot
from toolcrib.project.sessions import AgentSession, AgentSessions, SessionSummary, UnknownSession, working
from toolcrib.server.answers import JSON, HttpAnswer, HttpProblem, json_answer
from toolcrib.server.rest.about import About, Param, count
from toolcrib.server.rest.calls import CallBody, answer_call
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.projects import (
    HappeningList,
    ProjectDetail,
    ProjectList,
    ProjectView,
    SessionDetail,
    SessionList,
    SessionView,
    project_entry,
)
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
        return json_answer(SessionList(shown_sessions(visit, sessions)))

    async def show(visit: PageRequest) -> HttpAnswer:
        return json_answer(SessionView(_session(await find_session(visit, sessions), visit)))

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
        if session.stay is not None:
            raise HttpProblem(409, "HTTP_CONFLICT", "This session belongs to an MCP client: open one of your own.")
        caller = replace(visit.caller, session=session.id)
        return await working(session, answer_call(session.workplace.crib, visit, caller))

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
    ConfigurationView,
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
    CallResult,
    "A tool that fails has a result, with `success` false. A call that never ran is a problem.",
    body=CallBody,
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


def shown_sessions(visit: PageRequest, sessions: AgentSessions, project: str | None = None) -> list[SessionSummary]:
    """The sessions that concern the visitor, of one project or of all."""
    return [
        session.view()
        for session in sessions.all()
        if may_see(visit, session) and project in (None, session.workplace.place.id)
    ]


def _session(session: AgentSession, visit: PageRequest) -> SessionDetail:
    """One session, with the tools the visitor can use in it right now."""
    latest, tools = session.workplace.journal.latest(_sees(visit)), session.workplace.entries(visit.caller)
    return SessionDetail(**structs.asdict(session.view()), last_event=latest, available_tools=tools)


async def _happenings(visit: PageRequest, session: AgentSession) -> HappeningList:
    """What happened after an id, as far as it concerns the visitor; waits for something if nothing has."""
    journal, after, sees = session.workplace.journal, visit.number("after", 0, NEWEST), _sees(visit)
    await working(session, journal.wait(after, visit.number("wait", 0, LONGEST_WAIT_S), sees))
    missed = after < journal.forgotten(sees) and session.since < journal.forgotten()
    return HappeningList(list(journal.after(after, sees, session.since)), journal.latest(sees), missed)


def _sees(visit: PageRequest) -> Callable[[frozenset[str]], bool]:
    """What happens to servers outside of a token's grants does not concern its owner, not even that it does."""
    patterns = visit.caller.grants.servers
    return lambda servers: any(matches(server, patterns) for server in servers)


PATH = "/api/v1/projects"
TAG = "projects"
NAME_MAX = 100


class NewSession(View, forbid_unknown_fields=True):
    """What a session is to be called."""

    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""


def project_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of projects and sessions."""
    sessions = premises.sessions
    if sessions is None:
        return []
    projects = sessions.projects

    async def look(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        places = await projects.places() if sees_others(visit) else [projects.place]
        return json_answer(ProjectList([project_entry(place, full=sees_others(visit)) for place in places]))

    async def show(visit: PageRequest) -> HttpAnswer:
        place = await find_place(visit, sessions)
        snapshot = await read_files(visit, sessions, place)
        return json_answer(ProjectView(_project(snapshot, visit, sessions)))

    async def configuration(visit: PageRequest) -> HttpAnswer:
        place = await find_place(visit, sessions)
        return configuration_answer(visit, await read_files(visit, sessions, place))

    async def look_at_sessions(visit: PageRequest) -> HttpAnswer:
        place = await find_place(visit, sessions)
        return json_answer(SessionList(shown_sessions(visit, sessions, place.id)))

    async def open_session(visit: PageRequest) -> HttpAnswer:
        place = await find_place(visit, sessions)
        if not place.is_served:
            visit.need_operator(SecurityLevel.SYSTEM)
        name = visit.json(NewSession).name if visit.request.body else ""
        session = await sessions.open(place, name, visit.caller)
        return json_answer(SessionView(_session(session, visit)), 201)

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


def _project(snapshot: Snapshot, visit: PageRequest, sessions: AgentSessions) -> ProjectDetail:
    return ProjectDetail(
        **structs.asdict(project_entry(snapshot.place, full=sees_others(visit))),
        servers=len(snapshot.servers(visit.caller, full=False)),
        tools=len(snapshot.entries(visit.caller)),
        sessions=len(shown_sessions(visit, sessions, snapshot.place.id)),
    )
