"""A token for one server: no answer of any route says that there are others, or how many."""

import json
import re

import pytest
from tests.cli.program import Program
from tests.server.rest.api import Api, owner_token
from tests.server.rest.test_matrix import MATRIX

FOREIGN = "zebra"
"""Part of the names of all servers and profiles that the token may not know of."""
PAGES = ("/", "/servers", "/tools", "/calls", "/approvals", "/audit", "/connect", "/settings", "/tokens", "/import")
PROBES = ("/healthz", "/readyz", "/metrics", "/mcp")


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, str]:
    """What a token for ``mine`` is told by every address, after others have used the foreign servers."""
    program = Program(tmp_path_factory.mktemp("scoped"))
    program.project.mkdir()
    foreign = program.tiny(f"{FOREIGN}_one"), program.broken(f"{FOREIGN}_two")
    program.write(program.tiny("mine"), *foreign, f'[profiles.{FOREIGN}]\ntools = ["{FOREIGN}_one__*"]')
    token = program.json("tokens", "create", "scoped", "--level", "read_only", "--server", "mine")["token"]
    with program.serving("serve") as serving:
        api = Api(program, serving, owner_token(program, serving))
        api.call(f"{FOREIGN}_one__echo", {"text": "x"})
        api.call(f"{FOREIGN}_two__echo")
        return asked(api, token, api.get("/projects")["projects"][0]["id"])


def asked(api: Api, token: str, project: str) -> dict[str, str]:
    found = {}
    session = api.send("POST", f"/projects/{project}/sessions", {"name": "s"}, token=token).json["session"]["id"]
    ids = {"projects": project, "sessions": session}
    for method, path in MATRIX:
        kind = path.split("/")[1]
        given = {"id": ids.get(kind, "1"), "name": "mine__echo" if "tools" in path else "mine", "tool": "mine__echo"}
        if method != "GET" or path == "/events":
            continue
        wanted = path.format(**given, pattern="mine__*", caller="x")
        found[f"GET {wanted}"] = api.raw("GET", wanted, token=token).body.decode()
    for name in (f"{FOREIGN}_one__echo", f"{FOREIGN}_two__echo", "zebr_one__echo", "mine__ecko", "ecko"):
        for path in (f"/tools/{name}/call", f"/sessions/{session}/tools/{name}/call"):
            body = json.dumps({"arguments": {}}).encode()
            reply = api.raw("POST", path, body, token=token, content_type="application/json")
            found[f"POST {path}"] = reply.body.decode().replace(name, "NAME")
        found[f"show {name}"] = api.raw("GET", f"/tools/{name}", token=token).body.decode().replace(name, "NAME")
    found["own calls"] = api.raw("GET", "/calls", token=token).body.decode()
    owners = api.send("POST", f"/projects/{project}/sessions", {"name": "o"}).json["session"]
    found["events for the owner"] = str(owners["lastEvent"])
    own = [f"{FOREIGN}_one__echo", f"{FOREIGN}_two__echo"]  # names that the caller has used itself
    for path in (*PAGES, *PROBES):
        reply = api.serving.request("GET", path, authorization=f"Bearer {token}", accept="text/html")
        body = reply.read().decode()
        found[path] = body.replace(own[0], "NAME").replace(own[1], "NAME")
    for path in ("/mcp", f"/mcp/{FOREIGN}"):
        found[f"list {path}"] = api.serving.list_tools(path, authorization=f"Bearer {token}").read().decode()
    return found


def test_no_route_names_a_server_that_the_token_is_not_for(answers):
    """Neither in what it may see, nor in a refusal, a hint or a page."""
    assert {path: body for path, body in answers.items() if FOREIGN in body and path != "own calls"} == {}
    assert len(answers) > 40


def test_a_session_counts_only_what_happens_to_the_servers_of_its_token(answers):
    """The journal of the project has entries of others, which are neither shown nor counted."""
    path = next(path for path in answers if path.endswith("/events"))
    told = json.loads(answers[path])
    shown = next(
        json.loads(body)["session"] for place, body in answers.items() if re.fullmatch("GET /sessions/[^/]+", place)
    )

    assert shown["lastEvent"] <= told["last"] < int(answers["events for the owner"])  # asked for one after the other
    assert len(told["events"]) <= told["last"]
    assert {event["server"] for event in told["events"]} <= {None, "mine"}


def test_a_call_that_is_refused_says_the_same_whether_the_tool_is_there_or_not(answers):
    """The answer, and what the caller finds of it among its own calls."""
    hidden, absent = (f"POST /tools/{name}/call" for name in (f"{FOREIGN}_one__echo", "zebr_one__echo"))
    calls = {call["tool"]: call for call in json.loads(answers["own calls"])["calls"]}
    names = (f"{FOREIGN}_one__echo", f"{FOREIGN}_two__echo", "zebr_one__echo")
    own = {"id", "tool", "beganAt", "endedAt", "traceId"}
    shown = [{key: value for key, value in calls[name].items() if key not in own} for name in names]

    assert without_ids(answers[hidden]) == without_ids(answers[absent])
    assert shown[0] == shown[1] == shown[2]


def without_ids(body: str) -> str:
    return re.sub(r'"(executionId|traceId|id)":"[^"]*"', "", body)
