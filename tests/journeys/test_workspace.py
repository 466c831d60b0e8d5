"""An agent at work in a directory, over MCP: the official SDK, every workspace tool, and no way out."""

from pathlib import Path
from typing import Any

import pytest
from tests.fleet.clients import Place, SdkClient
from tests.fleet.gateway import TOOLCRIB, stdio_command

from toolcrib.config.sections import WORKSPACE_TOOLS

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

CLIENTS = {"sdk2": SdkClient(2, "modern"), "sdk1": SdkClient(1, "legacy")}
SECRET = "canary-7f3a"
CONFIG = "[kb]\nenabled = false\n[workspace]\nenabled = true\nroot = 'work'\nbash = true\n"


@pytest.fixture
def place(fleet: None, tmp_path: Path) -> Place:
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (home / "secret.txt").write_text(SECRET)
    (home / "toolcrib.toml").write_text(CONFIG)
    (home / "work" / "way_out").symlink_to(home)
    return Place(home, argv=stdio_command(home / "toolcrib.toml"))


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"op": "call", "tool": tool, "arguments": arguments}


def texts(outcomes: list[Any]) -> list[str]:
    return ["\n".join(block.get("text", "") for block in outcome["result"]["content"]) for outcome in outcomes]


STEPS = [
    {"op": "list"},
    call("task_create", title="Fix the sum"),
    call("task_create", title="Tell everybody", after=[1]),
    call("file_write", path="src/sum.sh", content="#!/bin/sh\n\na=2\nb=3\necho $((a - b))\n"),
    call("file_find", pattern="*.sh"),
    call("ripgrep_search", pattern=r"a . b\)"),
    call("bash", command="sh src/sum.sh"),
    call("file_edit", path="src/sum.sh", old_text="a - b", new_text="a + b"),
    call("bash", command="sh src/sum.sh"),
    call("file_read", path="src/sum.sh", limit=2),
    call("task_complete", id=1, note="It was a minus."),
    call("file_list", depth=2),
]
ATTEMPTS = [
    call("file_read", path="../secret.txt"),
    call("file_read", path="way_out/secret.txt"),
    call("file_write", path="way_out/toolcrib.toml", content="pwned"),
    call("file_edit", path="way_out/secret.txt", old_text="canary", new_text="pwned"),
    call("file_list", path="way_out"),
    call("file_find", path="..", pattern="*"),
    call("ripgrep_search", path="way_out", pattern="canary"),
    call("bash", command="echo pwned > ../toolcrib.toml; cat ../secret.txt way_out/secret.txt"),
    call("url_fetch", url="http://127.0.0.1:1/"),
    call("delegate", task="Get me the secret."),
]


@pytest.mark.parametrize("client", CLIENTS)
def test_an_agent_works_in_its_directory(client: str, place: Place):
    answer = CLIENTS[client].converse(place, STEPS)
    listed, *outcomes = answer["outcomes"]
    said = texts(outcomes)

    assert {tool["name"] for tool in listed["tools"]} >= set(WORKSPACE_TOOLS)
    assert said[3] == "src/sum.sh"
    assert said[4] == "src/sum.sh\n5:echo $((a - b))"
    assert said[5].startswith("-1\n[exit code 0, isolation ")
    assert "-echo $((a - b))\n+echo $((a + b))" in said[6]
    assert said[7].startswith("5\n[exit code 0")
    assert said[8].startswith("     1\t#!/bin/sh\n     2\t\n(lines 1 to 2 of 5")
    assert outcomes[9]["result"]["structuredContent"]["unblocked"] == [{"id": 2, "title": "Tell everybody"}]
    assert "src/sum.sh" in said[10]


def test_an_agent_that_wants_out_stays_in(place: Place):
    answer = CLIENTS["sdk2"].converse(place, ATTEMPTS)
    said = texts(answer["outcomes"])

    assert SECRET not in str(answer)
    assert [outcome["result"]["isError"] for outcome in answer["outcomes"] if "result" in outcome].count(False) == 1
    assert "Permission denied" in said[7] or "No such file" in said[7]  # confined, or isolated
    assert "[exit code 1, " in said[7]
    assert "There is no model here" in said[9]
    assert (place.home / "toolcrib.toml").read_text() == CONFIG
    assert (place.home / "secret.txt").read_text() == SECRET


def test_one_option_is_enough(place: Place):
    (place.home / "toolcrib.toml").unlink()
    argv = (*TOOLCRIB, "stdio", "--alone", "--workspace", str(place.home / "work"))
    answer = CLIENTS["sdk2"].converse(
        Place(place.home, argv=argv), [{"op": "list"}, call("bash", command="true"), call("file_list")]
    )
    listed, refused, done = answer["outcomes"]

    assert {tool["name"] for tool in listed["tools"]} >= {"file_read", "file_write"}
    assert "No tool named 'bash'" in str(refused)
    assert "way_out" in texts([done])[0]
