"""Real servers behind the gateway, real clients before it, every combination of door and protocol era.

A client is slow to start, so each pair of door and client holds one conversation; the tests look at its parts.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.fleet.clients import InspectorClient, Place, SdkClient
from tests.journeys.workshop import Workshop

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

Json = dict[str, Any]
Converse = Callable[[str, str], Json]

DOORS = ("stdio", "http")
CLIENTS = {"sdk2-legacy": SdkClient(2, "legacy"), "sdk2-modern": SdkClient(2, "modern"), "sdk1": SdkClient(1, "legacy")}
ERAS = {"sdk2-legacy": "2025-11-25", "sdk2-modern": "2026-07-28", "sdk1": "2025-11-25"}
TIMEOUT_CODES = {"sdk2-legacy": -32001, "sdk2-modern": -32001, "sdk1": 408}  # each SDK's own way to say so
SERVERS = ("everything", "filesystem", "memory", "time", "git", "calculator", "remote")
TOOL_COUNTS = {"everything": 17, "filesystem": 14, "memory": 9, "time": 2, "git": 12, "calculator": 1, "remote": 17}

LONG = "everything__trigger-long-running-operation"
SCRIPT: dict[str, Json] = {
    "progress": {"op": "call", "tool": LONG, "arguments": {"duration": 0.4, "steps": 4}},
    "timeout": {"op": "call", "tool": LONG, "arguments": {"duration": 30, "steps": 2}, "timeout_s": 0.5},
    "cancel": {"op": "cancel", "tool": LONG, "arguments": {"duration": 30, "steps": 300}},
    "afterwards": {"op": "call", "tool": "everything__echo", "arguments": {"message": "still here"}},
    "unknown": {"op": "call", "tool": "everything__no_such_tool", "arguments": {}},
    "invalid": {"op": "call", "tool": "everything__get-sum", "arguments": {"a": "one", "b": 2}},
}


@dataclass(frozen=True)
class Request:
    """One call, and the answer that proves the real server ran it."""

    tool: str
    arguments: Json
    says: str
    structured: Json | None = None


def request_to(server: str, workshop: Workshop, caller: str) -> Request:
    """The call that shows ``server`` at work; ``says`` is a pattern for the whole text."""
    note = workshop.note.read_text()
    conversion = {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}
    entities = {"entities": [{"name": caller, "entityType": "client", "observations": ["was here"]}]}
    requests = {
        "everything": Request("echo", {"message": "hi"}, "Echo: hi"),
        "remote": Request("echo", {"message": "hi"}, "Echo: hi"),
        "filesystem": Request(
            "read_text_file", {"path": str(workshop.note)}, re.escape(note), structured={"content": note}
        ),
        "memory": Request("create_entities", entities, f'.*"name": "{caller}".*', structured=entities),
        "time": Request("convert_time", conversion, r'.*"datetime": "\d{4}-\d\d-\d\dT21:30:00\+09:00".*'),
        "git": Request(
            "git_status", {"repo_path": str(workshop.repository)}, r".*On branch main.*Untracked.*untracked\.txt.*"
        ),
        "calculator": Request("calculate", {"expression": "6 * 7"}, "42", structured={"result": "42"}),
    }
    return requests[server]


@pytest.fixture(scope="session")
def converse(places: dict[str, Place], workshop: Workshop) -> Converse:
    """Hold the whole conversation of a client with a door, once, and return its outcomes by name."""

    @functools.cache
    def hold(door: str, client: str) -> Json:
        calls = {server: request_to(server, workshop, f"{client}-over-{door}") for server in SERVERS}
        script = {
            **{
                server: {"op": "call", "tool": f"{server}__{call.tool}", "arguments": call.arguments}
                for server, call in calls.items()
            },
            "list": {"op": "list"},  # by now every server has been discovered, however slow the machine
            **SCRIPT,
        }
        answer = CLIENTS[client].converse(places[door], list(script.values()))
        return {**answer, **dict(zip(script, answer["outcomes"], strict=True))}

    return hold


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_every_client_calls_every_server_through_every_door(converse, workshop, door, client, server):
    """The answer is the real server's own, text and structure."""
    expected = request_to(server, workshop, f"{client}-over-{door}")

    result = converse(door, client)[server]["result"]

    assert not result.get("isError"), result
    assert re.fullmatch(expected.says, result["content"][0]["text"], re.DOTALL)
    if expected.structured is not None:
        assert result["structuredContent"] == expected.structured


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_the_client_gets_the_era_it_asked_for(converse, door, client):
    """The gateway speaks both protocol eras at either door, whatever the servers behind it speak."""
    assert converse(door, client)["protocolVersion"] == ERAS[client]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_the_listing_holds_every_tool_of_every_server(converse, door, client):
    """Nothing is lost and nothing is listed twice."""
    names = [tool["name"] for tool in converse(door, client)["list"]["tools"]]

    assert Counter(re.split(r"__|\.", name)[0] for name in names) == {**TOOL_COUNTS, "result_read": 1}
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_the_listing_is_the_same_for_everybody_and_in_order(converse, door, client):
    """Neither the door nor the era changes a name, a description or a schema."""
    tools = converse(door, client)["list"]["tools"]
    reference = converse("http", "sdk2-modern")["list"]["tools"]

    assert [tool["name"] for tool in tools] == sorted(tool["name"] for tool in tools)
    assert {t["name"]: (t["description"], t["inputSchema"]) for t in tools} == {
        t["name"]: (t["description"], t["inputSchema"]) for t in reference
    }


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_progress_reaches_the_client(converse, door, client):
    """Each step the server reports arrives, in order, before the result."""
    outcome = converse(door, client)["progress"]

    assert outcome["progress"] == [1, 2, 3, 4]
    assert outcome["result"]["content"][0]["text"].startswith("Long running operation completed.")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_a_client_that_gives_up_or_cancels_can_go_on(converse, door, client):
    """A timeout and a cancellation end one call each, not the connection."""
    conversation = converse(door, client)

    assert conversation["timeout"]["error"]["code"] == TIMEOUT_CODES[client]
    assert conversation["cancel"] == {"cancelled": True}
    assert conversation["afterwards"]["result"]["content"][0]["text"] == "Echo: still here"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_tool_is_refused_by_name(converse, door, client):
    """The specification's invalid-params error, naming what was asked for."""
    error = converse(door, client)["unknown"]["error"]

    assert error["code"] == -32602
    assert "everything__no_such_tool" in error["message"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_wrong_arguments_come_back_as_an_error_the_model_can_read(converse, door, client):
    """A failed result, not a protocol error, and it names the argument."""
    result = converse(door, client)["invalid"]["result"]

    assert result["isError"] is True
    assert "a" in result["content"][0]["text"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("door", DOORS)
def test_the_inspector_lists_the_same_tools(converse, places, door, era):
    """A client of another make, in TypeScript, sees the same catalogue."""
    listing = InspectorClient(era).list_tools(places[door])["result"]["tools"]

    assert [tool["name"] for tool in listing] == [
        tool["name"] for tool in converse("http", "sdk2-modern")["list"]["tools"]
    ]


@pytest.mark.parametrize(
    ("door", "era", "server"),
    [
        *(("http", "modern", server) for server in SERVERS),
        ("http", "legacy", "everything"),
        ("stdio", "legacy", "time"),
    ],
)
def test_the_inspector_calls_real_tools(places, workshop, door, era, server):
    """A client of another make, in TypeScript, gets the real server's answer."""
    request = request_to(server, workshop, f"inspector-{era}-over-{door}")

    result = InspectorClient(era).call(places[door], f"{server}__{request.tool}", request.arguments)["result"]

    assert re.fullmatch(request.says, result["content"][0]["text"], re.DOTALL)
