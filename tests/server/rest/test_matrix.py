"""Who may do what: every route × everybody who can come. A route without a line here fails the test."""

import pytest
from tests.server.conftest import Doorman
from tests.server.rest.api import ROOT, Api, owner_token, serving_api

from toolcrib.config.model import Config
from toolcrib.core.events import drop
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.project.projects import Projects
from toolcrib.project.sessions import AgentSessions
from toolcrib.server.rest.about import Described
from toolcrib.server.rest.api import rest_routes
from toolcrib.server.visit import ServedProject
from toolcrib.stores.projects import ProjectFile
from toolcrib.testing.crib import memory_crib

WHO = ("nobody", "scoped", "agent", "admin", "owner")
"""Without a token · read_only, one server · an agent's, for everything · level admin, for everything · the owner's."""

# 401 without a token "?", refused "-", let in "+": with what is asked for here, that may be a 404 or a 422.
MATRIX = {
    ("GET", "/tools"): "+++++",
    ("GET", "/tools/{name}"): "+++++",
    ("GET", "/tools/{name}/complete"): "+++++",
    ("POST", "/tools/{name}/call"): "+++++",
    ("POST", "/tools/{name}/validate"): "+++++",
    ("GET", "/definitions"): "+++++",
    ("GET", "/costs"): "+++++",
    ("GET", "/resources"): "+++++",
    ("GET", "/resources/{name}"): "+++++",
    ("POST", "/resources/read"): "+++++",
    ("GET", "/prompts"): "+++++",
    ("GET", "/prompts/{name}"): "+++++",
    ("GET", "/skills"): "+++++",
    ("GET", "/skills/{name}"): "+++++",
    ("POST", "/prompts/{name}/get"): "+-+-+",  # who may not know of all hears no more of one that is not there
    ("GET", "/servers"): "?++++",
    ("GET", "/servers/{name}"): "?++++",
    ("GET", "/servers/{name}/logs"): "?--++",
    ("POST", "/servers"): "?--++",
    ("PATCH", "/servers/{name}"): "?--++",
    ("DELETE", "/servers/{name}"): "?--++",
    ("POST", "/servers/{name}/enable"): "?--++",
    ("POST", "/servers/{name}/disable"): "?--++",
    ("POST", "/servers/{name}/refresh"): "?--++",
    ("POST", "/servers/{name}/restart"): "?--++",
    ("GET", "/accounts"): "?--++",
    ("POST", "/accounts/{name}/sign-in"): "?--++",
    ("DELETE", "/accounts/{name}"): "?--++",
    ("GET", "/clients"): "?++++",
    ("DELETE", "/clients/{id}"): "?++++",
    ("GET", "/secrets"): "?---+",
    ("PUT", "/secrets/{name}"): "?---+",
    ("DELETE", "/secrets/{name}"): "?---+",
    ("GET", "/policies"): "?--++",
    ("GET", "/policies/{pattern}"): "?--++",
    ("PUT", "/policies/{pattern}"): "?--++",
    ("GET", "/pins"): "?--++",
    ("POST", "/pins/{name}/approve"): "?--++",
    ("GET", "/approvals"): "?---+",
    ("POST", "/approvals/{id}"): "?---+",
    ("GET", "/approvals/answers"): "?---+",
    ("DELETE", "/approvals/answers/{tool}/{caller}"): "?--++",
    ("GET", "/calls"): "?++++",
    ("GET", "/calls/{id}"): "?++++",
    ("POST", "/calls/{id}/cancel"): "?++++",
    ("GET", "/events"): "?--++",
    ("GET", "/audit"): "?--++",
    ("GET", "/audit/verify"): "?--++",
    ("GET", "/health"): "?++++",
    ("GET", "/metrics"): "?--++",
    ("GET", "/process"): "?--++",
    ("POST", "/process/stop"): "?---+",
    ("POST", "/process/restart"): "?---+",
    ("GET", "/projects"): "?++++",
    ("GET", "/projects/{id}"): "?++++",
    ("GET", "/projects/{id}/configuration"): "?++++",
    ("GET", "/projects/{id}/sessions"): "?++++",
    ("POST", "/projects/{id}/sessions"): "?++++",
    ("GET", "/sessions"): "?++++",
    ("GET", "/sessions/{id}"): "?++++",
    ("GET", "/sessions/{id}/configuration"): "?++++",
    ("GET", "/sessions/{id}/events"): "?++++",
    ("DELETE", "/sessions/{id}"): "?++++",
    ("POST", "/sessions/{id}/tools/{name}/call"): "?++++",
    ("GET", "/version"): "+++++",
    ("POST", "/signin-links"): "?---+",
    ("GET", "/openapi.json"): "+++++",
    ("GET", "/reference"): "+++++",
}
ASKED_FOR = {"name": "no_such_thing", "tool": "no_such_tool", "id": "nothing", "pattern": "a%20b", "caller": "nobody"}
HARMLESS = {
    ("GET", "/tools/{name}"): "result_read",
    ("GET", "/tools/{name}/complete"): "result_read",
    ("POST", "/tools/{name}/call"): "result_read",
    ("POST", "/tools/{name}/validate"): "result_read",
}
"""Tools everybody may reach; otherwise nothing real is asked for."""


def test_every_route_has_a_line_and_a_description(served_routes):
    """Both ways: no route without a line, no line without a route."""
    assert {(route.method, route.path.removeprefix(ROOT)) for route in served_routes} == set(MATRIX)
    assert all(isinstance(route.about, Described) for route in served_routes)


@pytest.fixture
async def served_routes(tmp_path):
    async with memory_crib() as memory:
        project = Project(memory.crib, Loaded(Config()))
        sessions = AgentSessions(Projects(project, ProjectFile(tmp_path / "projects.json")), drop)
        premises = ServedProject(project, Doorman().sign_ins(), "http://127.0.0.1:1/mcp", 0.0, sessions=sessions)
        try:
            return rest_routes(premises)
        finally:
            await sessions.close()


def test_everybody_may_do_what_the_table_says_and_nothing_else(program):
    """Where no token is needed, and where one is."""
    with serving_api(program, "--edit-commands") as api:
        found = {route: [outcome(api, route, "")] for route in MATRIX}
    tokens = [
        program.json("tokens", "create", *words)["token"]
        for words in (
            ("scoped", "--level", "read_only", "--server", "tiny"),
            ("agent", "--level", "system", "--agent"),
            ("admin", "--level", "admin"),
        )
    ]
    with program.serving("serve", "--edit-commands") as serving:
        owner = owner_token(program, serving)
        api = Api(program, serving, owner)
        for token in (*tokens, owner):
            for route, outcomes in found.items():
                outcomes.append(outcome(api, route, token))
        strangers = {api.send(method, path.format(**ASKED_FOR), token="").status for method, path in MATRIX}

    assert {route: "".join(outcomes) for route, outcomes in found.items()} == MATRIX
    assert strangers == {401}


def outcome(api, route, token):
    method, path = route
    asked_for = ASKED_FOR | ({"name": HARMLESS[route]} if route in HARMLESS else {})
    where = path.format(**asked_for)
    body = {} if method in ("POST", "PUT", "PATCH") else None
    if path == "/events":
        method = "HEAD"
    status = api.send(method, where, body, token=token).status
    return {401: "?", 403: "-"}.get(status, "+")
