"""Projects and sessions over REST: what is read, who may read it, and what a session can do."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.program import TINY
from tests.server.conftest import Browser, Clock, Reply

from toolcrib.config.lock import Lock, Record, write_lock
from toolcrib.config.model import config_hash
from toolcrib.core.access import EVERYTHING, Caller, Grants
from toolcrib.core.events import Stay, drop
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.offers import SecurityLevel
from toolcrib.crib.builder import assemble
from toolcrib.crib.loading import load
from toolcrib.project.project import Project, project_id
from toolcrib.project.projects import Projects
from toolcrib.project.sessions import AgentSessions
from toolcrib.server.identity.sign_in import SignIns, Tokens
from toolcrib.server.rest.api import rest_routes
from toolcrib.server.rest.projects import PROJECTS, SESSIONS
from toolcrib.server.router import Entering, Router
from toolcrib.server.visit import ServedProject
from toolcrib.stores.paths import Environment
from toolcrib.stores.projects import KnownProject, ProjectFile
from toolcrib.transports.http.server import GuardPolicy, HttpServer

LOCAL = Caller("local", "local", EVERYTHING)
CALLERS = {
    "owner": Caller("owner", "local", EVERYTHING),
    "reader": Caller("token:reader", "token", Grants(SecurityLevel.READ_ONLY, servers=("tiny",))),
    "stranger": Caller("token:stranger", "token", Grants(SecurityLevel.READ_ONLY, servers=("other",))),
    "admin": Caller("token:admin", "token", Grants(SecurityLevel.ADMIN)),
    "agent": Caller("token:agent", "agent", EVERYTHING),
}
ADDRESSES = [
    ("GET", "/projects"),
    ("GET", "/projects/{project}"),
    ("GET", "/projects/{project}/configuration"),
    ("GET", "/projects/{project}/sessions"),
    ("POST", "/projects/{project}/sessions"),
    ("GET", "/sessions"),
    ("GET", "/sessions/{session}"),
    ("GET", "/sessions/{session}/configuration"),
    ("GET", "/sessions/{session}/events"),
    ("DELETE", "/sessions/{session}"),
    ("POST", "/sessions/{session}/tools/tiny__echo/call"),
]


@dataclass
class House:
    """A served project and one beside it, behind a real HTTP server."""

    home: Path
    stays: list[Stay] = field(default_factory=list)
    sessions: AgentSessions = field(init=False)
    browser: Browser = field(init=False)
    premises: ServedProject = field(init=False)
    router: Router = field(init=False)

    @property
    def id(self) -> str:
        return project_id(self.home / "mine")

    @property
    def other_id(self) -> str:
        return project_id(self.home / "other")

    @property
    def diary(self) -> Path:
        return self.home / "diary"

    def write(self, name: str, more: str = "") -> Path:
        directory = self.home / name
        directory.mkdir(exist_ok=True)
        args = json.dumps([str(TINY), str(self.diary)])
        settings = "audit.enabled = false\nkb.enabled = false\n"
        table = f"{settings}[servers.tiny]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"
        (directory / "toolcrib.toml").write_text(f'{table}env = {{ TOKEN = "very-secret" }}\n{more}')
        return directory

    def record(self, name: str, *tools: str) -> None:
        directory = self.home / name
        config = load(None, Environment(directory, {"HOME": str(self.home)})).config
        shown = tuple({"name": tool, "inputSchema": {"type": "object"}} for tool in tools)
        found = Record(
            "tiny",
            DiscoveryStatus.SUCCESS,
            shown,
            "2026-01-02T03:04:05Z",
            config_hash=config_hash(config.servers["tiny"]),
        )
        (directory / "toolcrib.lock").write_text(write_lock(Lock({"tiny": found})))

    async def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        sent = {"authorization": f"Bearer {who}"} if who else {}
        if body is not None:
            sent["content_type"] = "application/json"
        encoded = b"" if body is None else json.dumps(body).encode()
        return await self.browser.send(method, f"/api/v1{path}", encoded, **sent, **headers)

    async def open(self, who: str = "owner", project: str = "") -> str:
        reply = await self.ask(who, "POST", f"/projects/{project or self.id}/sessions", {"name": "work"})
        assert reply.status == 201, reply.body
        return reply.json["session"]["id"]

    async def settled(self, session: str) -> dict[str, Any]:
        """A session whose servers have answered."""
        async with asyncio.timeout(150):
            while True:
                found = (await self.ask("owner", "GET", f"/sessions/{session}")).json["session"]
                if found["availableTools"] and all(tool["isLive"] for tool in found["availableTools"]):
                    return found
                await self.ask("owner", "GET", f"/sessions/{session}/events?after={found['lastEvent']}&wait=5")


def identify(presented: bytes) -> Caller | None:
    return CALLERS.get(presented.decode())


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    directory, other = house.write("mine"), house.write("other")
    house.record("mine", "read_file", "write_file")
    file = ProjectFile(tmp_path / "state")
    file.note(KnownProject(house.other_id, str(other), "2026-01-02T03:04:05Z"))
    around = Environment(directory, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    loaded = load(None, around)
    crib = await assemble(loaded, surroundings=around)
    project = Project(crib, loaded, None, around)
    house.sessions = AgentSessions(Projects(project, file), drop, lambda: house.stays)
    sign_ins = SignIns(CALLERS["owner"], lambda: "owner", Tokens(identify, lambda _: True, lambda _: True), Clock())
    house.premises = ServedProject(project, sign_ins, "http://127.0.0.1/mcp", 0.0, sessions=house.sessions)
    served = house.premises
    router = house.router = Router(rest_routes(served), Entering(sign_ins, identify, LOCAL), drop, served=served)
    server = HttpServer({}, fallback=router.handle, policy=GuardPolicy())
    await server.start("127.0.0.1", 0)
    house.browser = Browser(server)
    try:
        yield house
    finally:
        await house.browser.close()
        await router.close()
        await server.close(1)
        await house.sessions.close()
        await crib.close()


def names(tools: list[dict[str, Any]]) -> list[str]:
    return [tool["name"] for tool in tools]


def test_the_addresses_of_this_page_are_all_there_are():
    """Each stands in the table that the tests below go through."""
    routes = [*PROJECTS.routes, *SESSIONS.routes]
    shown = {"{id}": "{project}", "{name}": "tiny__echo"}
    paths = {(route.method, route.path.removeprefix("/api/v1")) for route in routes}

    assert len(ADDRESSES) == len(paths)
    assert {method for method, _ in ADDRESSES} == {method for method, _ in paths}
    for method, path in paths:
        wanted = path.replace("/sessions/{id}", "/sessions/{session}")
        for name, value in shown.items():
            wanted = wanted.replace(name, value)
        assert (method, wanted) in ADDRESSES


@pytest.mark.parametrize("who", ["owner", "reader"])
async def test_every_answer_is_as_described(house: House, who: str):
    """Whoever asks: the type in the description holds all there is in the answer, and nothing else."""
    for method, path in ADDRESSES:
        session = await house.open(who)
        await house.sessions.find(session).workplace.wake()
        wanted = path.format(project=house.id, session=session)
        body = {"arguments": {"text": "x"}} if path.endswith("/call") else {} if method == "POST" else None
        about = house.router.find(method, f"/api/v1{wanted}".encode())[0].about.about
        reply = await house.ask(who, method, wanted, body)

        assert reply.status == about.status, (method, path)
        if about.answer is not None:
            typed = msgspec.json.decode(reply.body, type=about.answer)
            assert without_nulls(msgspec.to_builtins(typed)) == without_nulls(reply.json), (method, path)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


async def test_nobody_looks_or_works_without_a_token(house: House):
    """An agent on this machine could be behind it."""
    session = await house.open()
    for method, path in ADDRESSES:
        wanted = path.format(project=house.id, session=session)
        reply = await house.ask("", method, wanted, {} if method == "POST" else None)

        assert (reply.status, reply.json["code"]) == (401, "HTTP_UNAUTHORIZED"), (method, path)


async def test_what_is_not_there_is_not_found(house: House):
    """With the code that says so."""
    for method, path in [address for address in ADDRESSES if "{" in address[1]]:
        wanted = path.format(project="0123456789ab", session="s-0")
        reply = await house.ask("owner", method, wanted, {} if method == "POST" else None)

        assert (reply.status, reply.json["code"]) == (404, "RESOURCE_NOT_FOUND"), (method, path)


async def test_sessions_of_others_are_not_found(house: House):
    """Whoever neither opened one nor looks after the whole does not learn that it is there."""
    session = await house.open()
    for method, path in [address for address in ADDRESSES if "{session}" in address[1]]:
        reply = await house.ask("reader", method, path.format(session=session), {} if method == "POST" else None)

        assert (reply.status, reply.json["code"]) == (404, "RESOURCE_NOT_FOUND"), (method, path)
        assert (await house.ask("reader", "GET", "/sessions")).json == {"sessions": []}
        assert [one["id"] for one in (await house.ask("admin", "GET", "/sessions")).json["sessions"]] == [session]


async def test_the_configuration_of_a_project_is_read_without_starting_anything(house: House):
    """Settings with their origins, servers, and the tools that are on record; no secret among them."""
    reply = await house.ask("owner", "GET", f"/projects/{house.id}/configuration")
    configuration = reply.json["configuration"]

    assert names(configuration["availableTools"]) == ["tiny__read_file", "tiny__write_file"]
    assert [server["name"] for server in configuration["servers"]] == ["tiny"]
    policy = {"setting": "security.policy", "value": "allow", "origin": "default", "overrules": [], "overruledBy": None}
    assert policy in configuration["settings"]
    assert b"very-secret" not in reply.body
    assert not house.diary.exists()


async def test_a_configuration_that_is_known_is_not_sent_again(house: House):
    """Until one of the files changes."""
    address = f"/projects/{house.id}/configuration"
    first = await house.ask("owner", "GET", address)
    same = await house.ask("owner", "GET", address, if_none_match=f'"x", W/{first.headers["etag"]}')
    house.record("mine", "read_file")
    changed = await house.ask("owner", "GET", address, if_none_match=first.headers["etag"])

    assert (same.status, same.body, same.headers["etag"]) == (304, b"", first.headers["etag"])
    assert changed.status == 200
    assert names(changed.json["configuration"]["availableTools"]) == ["tiny__read_file"]
    assert changed.headers["etag"] != first.headers["etag"]


@pytest.mark.parametrize(
    ("who", "tools", "sees_settings"),
    [
        ("owner", ["tiny__read_file", "tiny__write_file"], True),
        ("admin", ["tiny__read_file", "tiny__write_file"], True),
        ("agent", ["tiny__read_file", "tiny__write_file"], False),
        ("reader", ["tiny__read_file"], False),
        ("stranger", [], False),
    ],
)
async def test_what_is_seen_of_a_project_is_what_was_granted(
    house: House, who: str, tools: list[str], sees_settings: bool
):
    """Tools, servers and settings; where things are on the disk is for those who look after it."""
    reply = await house.ask(who, "GET", f"/projects/{house.id}/configuration")
    configuration = reply.json["configuration"]

    assert names(configuration["availableTools"]) == tools
    assert bool(configuration["settings"]) == sees_settings
    assert (str(house.home).encode() in reply.body) == sees_settings
    assert bool(configuration["servers"]) == (who != "stranger")


@pytest.mark.parametrize("who", ["reader", "agent"])
async def test_other_projects_concern_only_who_looks_after_the_whole(house: House, who: str):
    """They are neither listed nor found."""
    listed = await house.ask(who, "GET", "/projects")
    found = await house.ask(who, "GET", f"/projects/{house.other_id}/configuration")

    shown = {"id": house.id, "name": "mine", "isServed": True, "directory": None, "file": None, "lastUsed": None}
    assert listed.json == {"projects": [shown]}
    assert found.status == 404


async def test_projects_are_listed_with_the_served_one_first(house: House):
    """And each can be looked at; broken files of another project are told."""
    listed = (await house.ask("owner", "GET", "/projects")).json["projects"]
    one = (await house.ask("owner", "GET", f"/projects/{house.id}")).json["project"]
    other = (await house.ask("owner", "GET", f"/projects/{house.other_id}/configuration")).json["configuration"]
    (house.home / "other" / "toolcrib.toml").write_text("[servers.x\n")
    broken = await house.ask("owner", "GET", f"/projects/{house.other_id}/configuration")

    assert [(project["name"], project["isServed"]) for project in listed] == [("mine", True), ("other", False)]
    assert listed[1]["directory"] == str(house.home / "other")
    assert (one["servers"], one["tools"], one["sessions"]) == (1, 2, 0)
    assert (other["project"]["name"], other["availableTools"]) == ("other", [])
    assert (broken.status, broken.json["code"]) == (422, "TOOL_INVALID_INPUT")


async def test_why_files_cannot_be_used_is_for_who_looks_after_them(house: House):
    """For it says where they are."""
    (house.home / "mine" / "toolcrib.lock").write_text("{")
    owner, reader = [await house.ask(who, "GET", f"/projects/{house.id}/configuration") for who in ("owner", "reader")]

    assert (owner.status, reader.status) == (422, 422)
    assert str(house.home) in owner.json["detail"]
    assert str(house.home) not in reader.json["detail"]


async def test_a_session_shows_what_runs_and_calls_it(house: House):
    """What was on record gives way to what the server says."""
    session = await house.open()
    found = await house.settled(session)
    configuration = (await house.ask("owner", "GET", f"/sessions/{session}/configuration")).json["configuration"]
    called = await house.ask(
        "owner",
        "POST",
        f"/sessions/{session}/tools/tiny__echo/call",
        {"arguments": {"text": "hi"}, "timeoutSeconds": 9},
    )
    failed = await house.ask("owner", "POST", f"/sessions/{session}/tools/tiny__fail/call", {})
    late = await house.ask("owner", "POST", f"/sessions/{session}/tools/tiny__hang/call", {"timeoutSeconds": 0.05})

    assert names(found["availableTools"])[0] == "tiny__echo"
    assert configuration["availableTools"] == found["availableTools"]
    assert "result_read" not in names(found["availableTools"])
    assert (called.status, json.loads(called.json["data"]), called.json["success"]) == (200, {"text": "hi"}, True)
    assert [(reply.status, reply.json["success"], reply.json["error"]["code"]) for reply in (failed, late)] == [
        (200, False, "TOOL_EXECUTION_FAILED"),
        (200, False, "TOOL_TIMEOUT"),
    ]


@pytest.mark.parametrize(
    ("tool", "body", "expected"),
    [
        ("tiny__echo", {"arguments": {}}, (422, "TOOL_INVALID_INPUT")),
        ("tiny__echo", {"argument": {}}, (422, "TOOL_INVALID_INPUT")),
        ("tiny__echo", {"arguments": {"text": "x"}, "timeoutSeconds": 0}, (422, "TOOL_INVALID_INPUT")),
        ("tiny__echo", {"arguments": {"text": "x"}, "timeoutSeconds": -1}, (422, "TOOL_INVALID_INPUT")),
        ("tiny__nothing", {}, (404, "TOOL_NOT_FOUND")),
    ],
)
async def test_a_call_that_never_ran_is_a_problem(
    house: House, tool: str, body: dict[str, Any], expected: tuple[int, str]
):
    """With the status of its reason."""
    session = await house.open()
    await house.settled(session)
    reply = await house.ask("owner", "POST", f"/sessions/{session}/tools/{tool}/call", body)

    assert (reply.status, reply.json["code"]) == expected


async def test_a_session_lists_and_calls_within_the_grants_of_the_visitor(house: House):
    """A reader's session does not reach what it was not granted."""
    session = await house.open("reader")
    async with asyncio.timeout(150):
        while not house.sessions.find(session).workplace.crib.shelves["tiny"].is_compared:
            await house.ask("reader", "GET", f"/sessions/{session}/events?after=0&wait=1")
    found = (await house.ask("reader", "GET", f"/sessions/{session}")).json["session"]
    refused = await house.ask("reader", "POST", f"/sessions/{session}/tools/tiny__paint/call", {})

    assert names(found["availableTools"]) == ["tiny__echo"]
    assert refused.status in (403, 404)


async def test_a_session_hears_of_changes(house: House):
    """What happened after an id; whoever waits is told at once, and only of servers within the grants."""
    session, strange = await house.open(), await house.open("stranger")
    last = (await house.settled(session))["lastEvent"]
    waiting = asyncio.ensure_future(house.ask("owner", "GET", f"/sessions/{session}/events?after={last}&wait=20"))
    house.write("mine", '[servers.more]\ncommand = "true"\nenabled = false\n')
    await house.sessions.projects.served.reload()
    told, seen = (await waiting).json, await house.ask("stranger", "GET", f"/sessions/{strange}/events?after={last}")

    assert [(one["id"], one["kind"], one["server"]) for one in told["events"]] == [(last + 1, "server.created", "more")]
    assert (told["last"], told["missed"]) == (last + 1, False)
    assert seen.json["events"] == []


async def test_a_session_that_is_ended_is_gone(house: House):
    """It is listed until then, in its project as well."""
    session = await house.open()
    listed = (await house.ask("owner", "GET", f"/projects/{house.id}/sessions")).json["sessions"]
    ended = await house.ask("owner", "DELETE", f"/sessions/{session}")

    assert [(one["id"], one["name"], one["kind"]) for one in listed] == [(session, "work", "rest")]
    assert (ended.status, ended.body) == (204, b"")
    assert (await house.ask("owner", "GET", f"/sessions/{session}")).status == 404


async def test_a_session_needs_no_body(house: House):
    """A name is for people only; what is none of its fields is refused."""
    nameless = await house.ask("owner", "POST", f"/projects/{house.id}/sessions")
    wrong = await house.ask("owner", "POST", f"/projects/{house.id}/sessions", {"nme": "x"})

    assert (nameless.status, nameless.json["session"]["name"]) == (201, "")
    assert wrong.status == 422


async def test_sessions_in_other_projects_are_for_who_may_do_everything(house: House):
    """Opening one runs the commands of another directory."""
    refused = await house.ask("admin", "POST", f"/projects/{house.other_id}/sessions", {})
    session = await house.open(project=house.other_id)
    found = await house.settled(session)
    hidden = await house.ask("admin", "GET", f"/sessions/{session}")
    called = await house.ask(
        "owner", "POST", f"/sessions/{session}/tools/tiny__echo/call", {"arguments": {"text": "there"}}
    )

    assert refused.status == 403
    assert found["project"] == {"id": house.other_id, "name": "other"}
    assert (hidden.status, called.status) == (404, 200)


async def test_an_mcp_client_is_a_session_that_others_do_not_call_in(house: House):
    """Operators see it and can end it."""
    ended: list[bool] = []
    caller = Caller("local", "local", EVERYTHING, session="secret")
    house.stays = [Stay("mcp-1", "client 1", "2025-06-18", caller, 1.0, 0.0, lambda: ended.append(True))]
    listed = (await house.ask("owner", "GET", "/sessions")).json["sessions"]
    call = await house.ask("owner", "POST", "/sessions/mcp-1/tools/tiny__echo/call", {})
    gone = await house.ask("owner", "DELETE", "/sessions/mcp-1")

    assert [(one["id"], one["name"], one["kind"]) for one in listed] == [("mcp-1", "client 1", "mcp")]
    assert (call.status, gone.status, ended) == (409, 204, [True])


def test_without_sessions_there_are_no_such_addresses(house: House):
    """For doors that serve one project only."""
    alone = ServedProject(house.premises.project, house.premises.sign_ins, house.premises.url, 0.0)

    kept = {route.path.split("/")[3] for route in rest_routes(alone)}

    assert kept.isdisjoint({"projects", "sessions"})
    assert {route.path.split("/")[3] for route in rest_routes(house.premises)} - kept == {"projects", "sessions"}
