"""Projects and sessions over REST: what each is configured to offer, who works where, and what changed meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

from msgspec import Meta, structs

from toolcrib.calls.results.shown import CallResult
from toolcrib.core.access import matches, may_operate
from toolcrib.core.errors import ConfigError, InternalError
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.view import View
from toolcrib.project.known import ConfigurationView, ProjectPlace, Snapshot
from toolcrib.project.sessions import AgentSession, AgentSessions, SessionSummary, UnknownSession, working
from toolcrib.server.answers import JSON, HttpAnswer, HttpProblem, conflict, json_answer
from toolcrib.server.rest.about import About, Param, RestResource, count
from toolcrib.server.rest.tools import CallBody, answer_call
from toolcrib.server.views.caller import CallerView
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
from toolcrib.server.visit import PageRequest
from toolcrib.stores.projects import UnknownProject

PROJECTS = RestResource("projects", "Directories with a configuration of their own, as their files tell.")
SESSIONS = RestResource("sessions", "Agents at work in a project.")
LONGEST_WAIT_S = 60
NEWEST = 999_999_999
NAME_MAX = 100


class NewSession(View, forbid_unknown_fields=True):
    """What a session is to be called."""

    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""


@PROJECTS.route(
    "GET",
    "/projects",
    About("List the projects", ProjectList, "The served one first, then those toolcrib was run in before."),
)
async def _list_projects(visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    projects, is_full = _sessions(visit).projects, _sees_others(visit)
    places = await projects.places() if is_full else [projects.place]
    return json_answer(ProjectList([project_entry(place, full=is_full) for place in places]))


@PROJECTS.route("GET", "/projects/{id}", About("Show one project", ProjectView, problems=(404, 422)))
async def _show_project(visit: PageRequest) -> HttpAnswer:
    snapshot = await _read_files(visit)
    detail = ProjectDetail(
        **structs.asdict(project_entry(snapshot.place, full=_sees_others(visit))),
        servers=len(snapshot.servers(visit.caller, full=False)),
        tools=len(snapshot.entries(visit.caller)),
        sessions=len(_shown_sessions(visit, snapshot.place.id)),
    )
    return json_answer(ProjectView(detail))


@PROJECTS.route(
    "GET",
    "/projects/{id}/configuration",
    About(
        "Show what a project is configured to offer",
        ConfigurationView,
        "Settings with their origins, servers, and the tools on record. Read from its files; nothing is started.",
        params=(Param("if-none-match", "the `etag` of an answer before: 304 while nothing changed", place="header"),),
        problems=(404, 422),
    ),
)
async def _configuration(visit: PageRequest) -> HttpAnswer:
    """Encoded beforehand for who may see all of it."""
    snapshot = await _read_files(visit)
    if not may_operate(visit.caller, SecurityLevel.SYSTEM):
        return json_answer(snapshot.document(visit.caller))
    headers = ((b"etag", snapshot.etag), (b"cache-control", b"private, no-cache"))
    if is_same(visit.request.header(b"if-none-match"), snapshot.etag):
        return HttpAnswer(304, b"", JSON, headers)
    return HttpAnswer(200, snapshot.encoded, JSON, headers)


@PROJECTS.route("GET", "/projects/{id}/sessions", About("List the sessions of a project", SessionList, problems=(404,)))
async def _list_sessions_of(visit: PageRequest) -> HttpAnswer:
    place = await _find_place(visit)
    return json_answer(SessionList(_shown_sessions(visit, place.id)))


@PROJECTS.route(
    "POST",
    "/projects/{id}/sessions",
    About(
        "Begin to work in a project",
        SessionView,
        "Its servers are asked for their tools in the background. A project that is not the served one needs a token"
        " for everything, up to level system.",
        status=201,
        body=NewSession,
        example={"name": "tidy up"},
        problems=(403, 404, 415, 422, 429),
    ),
)
async def _open_session(visit: PageRequest) -> HttpAnswer:
    place = await _find_place(visit)
    if not place.is_served:
        visit.need_operator(SecurityLevel.SYSTEM)
    name = visit.json(NewSession).name if visit.request.body else ""
    session = await _sessions(visit).open(place, name, visit.caller)
    return json_answer(SessionView(_session(session, visit)), 201)


def _sessions(visit: PageRequest) -> AgentSessions:
    if visit.served.sessions is None:
        raise InternalError("These addresses are only there with sessions.")
    return visit.served.sessions


def _sees_others(visit: PageRequest) -> bool:
    """Whether projects other than the served one concern the visitor: grants speak of the served one's servers."""
    return may_operate(visit.caller, SecurityLevel.ADMIN)


async def _find_place(visit: PageRequest) -> ProjectPlace:
    """The project an address names, as far as it concerns the visitor."""
    visit.need_known()
    wanted, projects = visit.params["id"], _sessions(visit).projects
    if wanted != projects.place.id and not _sees_others(visit):
        raise UnknownProject(wanted)
    return await projects.find(wanted)


async def _read_files(visit: PageRequest) -> Snapshot:
    """What a project's files tell; why they cannot be used is for operators, for it names them."""
    place = await _find_place(visit)
    try:
        return await _sessions(visit).projects.read(place)
    except ConfigError as error:
        if _sees_others(visit):
            raise
        raise HttpProblem(
            422, error.code, "The files of this project cannot be used; its operators can see why."
        ) from None


def is_same(given: bytes | None, etag: bytes) -> bool:
    """Whether a client has this very version already."""
    known = [tag.strip().removeprefix(b"W/") for tag in (given or b"").split(b",")]
    return etag in known or b"*" in known


@SESSIONS.route(
    "GET",
    "/sessions",
    About("List the sessions", SessionList, "One's own; operators see all, those of MCP clients among them."),
)
async def _list_sessions(visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    return json_answer(SessionList(_shown_sessions(visit)))


@SESSIONS.route("GET", "/sessions/{id}", About("Show one session and what it can use", SessionView, problems=(404,)))
async def _show_session(visit: PageRequest) -> HttpAnswer:
    return json_answer(SessionView(_session(await _find_session(visit), visit)))


@SESSIONS.route(
    "GET",
    "/sessions/{id}/configuration",
    About(
        "Show what a session can use, with the settings that count",
        ConfigurationView,
        "Prefers what really runs; a server that has not answered yet is shown as the record knows it.",
        problems=(404,),
    ),
)
async def _session_configuration(visit: PageRequest) -> HttpAnswer:
    return json_answer((await _find_session(visit)).workplace.document(visit.caller))


@SESSIONS.route(
    "GET",
    "/sessions/{id}/events",
    About(
        "Hear of servers and tools that come, change and go",
        HappeningList,
        params=(
            Param("after", "only what happened after this id", count(0)),
            Param("wait", f"wait so many seconds for something to happen, up to {LONGEST_WAIT_S}", count(0)),
        ),
        problems=(404, 422),
    ),
)
async def _events(visit: PageRequest) -> HttpAnswer:
    """What happened after an id, as far as it concerns the visitor; waits for something if nothing has."""
    session = await _find_session(visit)
    journal, after, sees = session.workplace.journal, visit.number("after", 0, NEWEST), _sees(visit)
    await working(session, journal.wait(after, visit.number("wait", 0, LONGEST_WAIT_S), sees))
    missed = after < journal.forgotten(sees) and session.since < journal.forgotten()
    return json_answer(HappeningList(list(journal.after(after, sees, session.since)), journal.latest(sees), missed))


@SESSIONS.route("DELETE", "/sessions/{id}", About("End a session", status=204, problems=(404,)))
async def _end_session(visit: PageRequest) -> HttpAnswer:
    await _sessions(visit).end(await _find_session(visit))
    return HttpAnswer(204)


@SESSIONS.route(
    "POST",
    "/sessions/{id}/tools/{name}/call",
    About(
        "Call a tool in a session",
        CallResult,
        "A tool that fails has a result, with `success` false. A call that never ran is a problem.",
        body=CallBody,
        example={"arguments": {"text": "hello"}, "timeoutSeconds": 10},
        problems=(403, 404, 409, 415, 422, 424, 429, 502, 503, 504),
    ),
)
async def _call(visit: PageRequest) -> HttpAnswer:
    session = await _find_session(visit)
    if session.stay is not None:
        raise conflict("This session belongs to an MCP client: open one of your own.")
    caller = replace(visit.caller, session=session.id)
    view = CallerView(session.workplace.project, caller, visit.is_operator())
    return await working(session, answer_call(visit, view))


def _may_see(visit: PageRequest, session: AgentSession) -> bool:
    """Whether a session concerns the visitor; those in other projects concern only who could open one there."""
    if not session.workplace.place.is_served:
        return may_operate(visit.caller, SecurityLevel.SYSTEM)
    return session.caller.id == visit.caller.id or may_operate(visit.caller, SecurityLevel.ADMIN)


async def _find_session(visit: PageRequest) -> AgentSession:
    """The session an address names, as far as it concerns the visitor."""
    visit.need_known()
    wanted, sessions = visit.params["id"], _sessions(visit)
    if not _may_see(visit, sessions.find(wanted)):
        raise UnknownSession(wanted)
    return await sessions.use(wanted)


def _shown_sessions(visit: PageRequest, project: str | None = None) -> list[SessionSummary]:
    """The sessions that concern the visitor, of one project or of all."""
    return [
        session.view()
        for session in _sessions(visit).all()
        if _may_see(visit, session) and project in (None, session.workplace.place.id)
    ]


def _session(session: AgentSession, visit: PageRequest) -> SessionDetail:
    """One session, with the tools the visitor can use in it right now."""
    latest, tools = session.workplace.journal.latest(_sees(visit)), session.workplace.entries(visit.caller)
    return SessionDetail(**structs.asdict(session.view()), last_event=latest, available_tools=tools)


def _sees(visit: PageRequest) -> Callable[[frozenset[str]], bool]:
    """What happens to servers outside of a token's grants does not concern its owner, not even that it does."""
    patterns = visit.caller.grants.servers
    return lambda servers: any(matches(server, patterns) for server in servers)
