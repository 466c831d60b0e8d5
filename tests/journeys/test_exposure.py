"""Real clients that are shown three tools, or a profile, in place of everything: they still reach every server."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.clients import Place, SdkClient
from tests.fleet.gateway import serving, stdio_command
from tests.fleet.running import until
from tests.journeys.test_approval import HELLO, TURNCOAT, Pipe
from tests.journeys.test_real_servers import LONG, SERVERS, request_to
from tests.journeys.workshop import Workshop

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

CLIENTS = {"stdio": SdkClient(1, "legacy"), "http": SdkClient(2, "modern")}
META = ["tools_find", "tools_describe", "tools_call"]
PURPOSES = {
    "everything__echo": "echo a message back",
    "filesystem__read_text_file": "read the text of a file",
    "memory__create_entities": "create entities in the knowledge graph",
    "time__convert_time": "convert a time to another time zone",
    "git__git_status": "status of the git working tree",
    "calculator__calculate": "calculate an expression",
}
PROFILES = """
[expose]
mode = "search"
pinned = ["time__*"]

[profiles.desk]
servers = ["filesystem", "git", "time"]
tools = ["filesystem__read_text_file", "git__git_status", "time__*"]
expose = "all"

[profiles.desk.change.filesystem__read_text_file]
name = "read_note"
description = "Read the note."
fixed = { path = %s }
hidden = ["head", "tail"]
"""


def through(name: str, **arguments: object) -> dict[str, object]:
    return {"op": "call", "tool": "tools_call", "arguments": {"name": name, "arguments": arguments}}


def call(tool: str, **arguments: object) -> dict[str, object]:
    return {"op": "call", "tool": tool, "arguments": arguments}


@pytest.fixture(scope="module")
def config(workshop: Workshop, quick_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The servers of the workshop, with profiles."""
    path = tmp_path_factory.mktemp("exposure") / "toolcrib.toml"
    tables = ["[kb]\nenabled = false\n"]
    for name, entry in json.loads(quick_config.read_text())["mcpServers"].items():
        env = entry.pop("env", {})
        lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
        lines += [f"env.{key} = {json.dumps(value)}" for key, value in env.items()]
        tables.append(f"[servers.{name}]\n" + "\n".join(lines) + "\n")
    path.write_text("\n".join(tables) + PROFILES % json.dumps(str(workshop.note)))
    return path


@pytest.fixture(scope="module")
def gateway(config: Path) -> Iterator[str]:
    with serving(config) as (url, _):
        yield url


@pytest.fixture(scope="module")
def places(config: Path, gateway: str) -> dict[str, Place]:
    command = stdio_command(config)
    return {"stdio": Place(config.parent, argv=command), "http": Place(config.parent, url=gateway)}


@pytest.mark.parametrize("door", CLIENTS)
def test_a_client_with_three_tools_finds_and_calls_every_server(places, workshop, door):
    """What is found can be called from what was found; text, structure, pictures and progress come through."""
    requests = {server: request_to(server, workshop, f"search-over-{door}") for server in SERVERS}
    calls = [through(f"{server}__{request.tool}", **request.arguments) for server, request in requests.items()]
    finds = [call("tools_find", query=query, limit=3) for query in PURPOSES.values()]
    more = [
        {"op": "list"},
        call("tools_describe", name="git__git_status"),
        through("everything__get-tiny-image"),
        through(LONG, duration=0.4, steps=4),
        {**through(LONG, duration=30, steps=300), "op": "cancel"},
        through("everything__get-sum", a="one", b=2),
        through("everything__get_sum"),
        call("time__convert_time", source_timezone="UTC", time="12:30", target_timezone="Asia/Tokyo"),
    ]
    outcomes = CLIENTS[door].converse(places[door], [*calls, *finds, *more])["outcomes"]
    called, found, rest = outcomes[: len(calls)], outcomes[len(calls) : -len(more)], outcomes[-len(more) :]
    listing, described, picture, long, cancelled, wrong, unknown, pinned = rest

    for request, outcome in zip(requests.values(), called, strict=True):
        assert re.fullmatch(request.says, outcome["result"]["content"][0]["text"], re.DOTALL)
        assert request.structured is None or outcome["result"]["structuredContent"] == request.structured
    for name, outcome in zip(PURPOSES, found, strict=True):
        assert any(line.startswith(f"{name}(") for line in outcome["result"]["content"][0]["text"].splitlines())
    assert sorted(tool["name"] for tool in listing["tools"]) == sorted(
        ["result_read", "time__convert_time", "time__get_current_time", *META]
    )
    assert json.loads(described["result"]["content"][0]["text"])["name"] == "git__git_status"
    assert "image" in [block["type"] for block in picture["result"]["content"]]
    assert long["progress"] == [1, 2, 3, 4]
    assert cancelled == {"cancelled": True}
    assert "everything__get-sum(a: float, b: float)" in wrong["result"]["content"][0]["text"]
    assert "'everything__get-sum'" in unknown["result"]["content"][0]["text"]
    assert "21:30" in pinned["result"]["content"][0]["text"]


@pytest.mark.parametrize("door", CLIENTS)
def test_a_profile_has_an_address_and_a_flag(places, config, gateway, workshop, door):
    """Its clients see and reach its tools, dressed, and nothing else."""
    profile = {
        "stdio": Place(config.parent, argv=(*places["stdio"].argv, "--profile", "desk")),
        "http": Place(config.parent, url=f"{gateway}/desk"),
    }
    operations = [
        call("read_note"),
        call("read_note", path="/etc/passwd"),
        call("everything__echo", message="hi"),
        call("filesystem__read_text_file", path=str(workshop.note)),
        call("time__get_current_time", timezone="UTC"),
        {"op": "list"},
    ]
    note, other, outside, real, clock, listing = CLIENTS[door].converse(profile[door], operations)["outcomes"]

    assert note["result"]["structuredContent"] == {"content": workshop.note.read_text()}
    assert other["result"]["isError"] is True
    assert (outside["error"]["code"], real["error"]["code"]) == (-32602, -32602)
    assert not clock["result"].get("isError")
    tools = {tool["name"]: tool for tool in listing["tools"]}
    assert sorted(tools) == [
        "git__git_status",
        "read_note",
        "result_read",
        "time__convert_time",
        "time__get_current_time",
    ]
    assert (tools["read_note"]["description"], tools["read_note"]["inputSchema"]["properties"]) == (
        "Read the note.",
        {},
    )


def test_an_edit_of_a_profile_counts_without_a_restart(config, gateway):
    """At its address, and an unknown one says which there are."""
    place, client = Place(config.parent, url=f"{gateway}/desk"), CLIENTS["http"]
    written = config.read_text()
    try:
        config.write_text(written.replace('name = "read_note"', 'name = "peek"'))

        def has_changed() -> bool:
            tools = client.converse(place, [{"op": "list"}])["outcomes"][0]["tools"]
            return "peek" in [tool["name"] for tool in tools]

        until(has_changed, deadline_s=150, what="the renamed tool")
    finally:
        config.write_text(written)


def test_a_client_is_told_when_it_is_shown_something_else(tmp_path):
    """A change of the file alone, without a word from any server."""
    (tmp_path / "face.json").write_text(json.dumps([{"name": "work", "inputSchema": {"type": "object"}}]))
    file = tmp_path / "toolcrib.toml"
    argv = ["-I", "-S", str(TURNCOAT), str(tmp_path / "face.json")]
    file.write_text(f"[kb]\nenabled = false\n[servers.srv]\ncommand = {sys.executable!r}\nargs = {argv!r}\n")
    pipe = Pipe(file)
    try:
        pipe.send(id=1, method="initialize", params=HELLO)
        pipe.send(id=2, method="tools/list")
        before = [tool["name"] for tool in pipe.read(2)["result"]["tools"]]
        file.write_text(file.read_text() + '[expose]\nmode = "search"\n')
        told = next(line for line in pipe.process.stdout if b"list_changed" in line)
        pipe.send(id=3, method="tools/list")
        after = [tool["name"] for tool in pipe.read(3)["result"]["tools"]]
    finally:
        pipe.close()

    assert json.loads(told)["method"] == "notifications/tools/list_changed"
    assert (before, after) == (["result_read", "srv__work"], ["result_read", *META])
