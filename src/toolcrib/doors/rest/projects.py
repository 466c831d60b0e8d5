"""Projects over REST: which there are, and what each is configured to offer. Reading starts nothing.

``GET /api/v1/projects/ID/configuration`` answers ``{"configuration": {…, "servers": […], "availableTools": […]}}``
from the project's files alone; with ``If-None-Match`` it costs next to nothing while they are the same.
"""

from typing import Any

from toolcrib.core.access import may_operate
from toolcrib.core.errors import ConfigError
from toolcrib.core.tool import SecurityLevel
from toolcrib.doors.http.answers import JSON, Answer, Problem, json_answer
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About, Param
from toolcrib.doors.rest.project_shapes import (
    ConfigurationView,
    NewSession,
    ProjectList,
    ProjectView,
    SessionList,
    SessionView,
)
from toolcrib.doors.rest.sessions import session_entry, session_routes, shown_sessions
from toolcrib.dossier import Place, Snapshot
from toolcrib.sessions import Sessions
from toolcrib.stores.projects import UnknownProject

PATH = "/api/v1/projects"
TAG = "projects"


def project_routes(premises: Premises) -> list[RouteSpec]:
    """The routes of projects and sessions."""
    sessions = premises.sessions
    if sessions is None:
        return []
    projects = sessions.projects

    async def look(visit: Visit) -> Answer:
        visit.need_known()
        places = await projects.places() if sees_others(visit) else [projects.place]
        return json_answer({"projects": [_entry(place, visit) for place in places]})

    async def show(visit: Visit) -> Answer:
        place = await find_place(visit, sessions)
        snapshot = await read_files(visit, sessions, place)
        return json_answer({"project": _entry(place, visit) | _counts(snapshot, visit, sessions)})

    async def configuration(visit: Visit) -> Answer:
        place = await find_place(visit, sessions)
        return configuration_answer(visit, await read_files(visit, sessions, place))

    async def look_at_sessions(visit: Visit) -> Answer:
        place = await find_place(visit, sessions)
        return json_answer({"sessions": shown_sessions(visit, sessions, place.id)})

    async def open_session(visit: Visit) -> Answer:
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


def sees_others(visit: Visit) -> bool:
    """Whether projects other than the served one concern the visitor: grants speak of the served one's servers."""
    return may_operate(visit.caller, SecurityLevel.ADMIN)


async def find_place(visit: Visit, sessions: Sessions) -> Place:
    """The project an address names, as far as it concerns the visitor."""
    visit.need_known()
    wanted = visit.params["id"]
    if wanted != sessions.projects.place.id and not sees_others(visit):
        raise UnknownProject(wanted)
    return await sessions.projects.find(wanted)


async def read_files(visit: Visit, sessions: Sessions, place: Place) -> Snapshot:
    """What a project's files tell; why they cannot be used is for operators, for it names them."""
    try:
        return await sessions.projects.read(place)
    except ConfigError as error:
        if sees_others(visit):
            raise
        raise Problem(422, error.code, "The files of this project cannot be used; its operators can see why.") from None


def configuration_answer(visit: Visit, snapshot: Snapshot) -> Answer:
    """The configuration, encoded beforehand for who may see all of it."""
    if not may_operate(visit.caller, SecurityLevel.SYSTEM):
        return json_answer(snapshot.document(visit.caller))
    headers = ((b"etag", snapshot.etag), (b"cache-control", b"private, no-cache"))
    if is_same(visit.request.header(b"if-none-match"), snapshot.etag):
        return Answer(304, b"", JSON, headers)
    return Answer(200, snapshot.encoded, JSON, headers)


def is_same(given: bytes | None, etag: bytes) -> bool:
    """Whether a client has this very version already."""
    known = [tag.strip().removeprefix(b"W/") for tag in (given or b"").split(b",")]
    return etag in known or b"*" in known


def _entry(place: Place, visit: Visit) -> dict[str, Any]:
    is_operator = sees_others(visit)
    return {
        "id": place.id,
        "name": place.name,
        "isServed": place.is_served,
        "directory": str(place.directory) if is_operator else None,
        "lastUsed": place.last_used if is_operator else None,
    }


def _counts(snapshot: Snapshot, visit: Visit, sessions: Sessions) -> dict[str, Any]:
    servers = snapshot.servers(visit.caller, full=False)
    return {
        "servers": len(servers),
        "tools": len(snapshot.entries(visit.caller)),
        "sessions": len(shown_sessions(visit, sessions, snapshot.place.id)),
    }
