"""Real servers and clients that know tasks, with toolcrib between them: handed on, translated, or followed."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import run as conformance
from tests.fleet import servers
from tests.fleet.gateway import joining_command, serving
from tests.fleet.running import homely, until

import toolcrib
from toolcrib.core.long_work import EXTENSION
from toolcrib.testing import RecordingChannel

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet
HERE = Path(__file__).resolve().parent
RESEARCH = "everything__simulate-research-query"
MODERN = "2026-07-28"
RELATED = "io.modelcontextprotocol/related-task"


def digger() -> servers.Launch:
    """A server of the official SDK 1.x whose tool may be a task."""
    return servers.Launch(servers.sdk_python(1), (str(HERE / "tasks_server.py"),))


def modern() -> servers.Launch:
    """A server of the stateless era that knows the extension."""
    return servers.Launch(servers.sdk_python(2), (str(conformance.HERE / "upstream.py"), "stdio"))


@pytest.fixture(scope="module")
def config(fleet: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tasks")
    launches = {"everything": servers.everything(), "digger": digger(), "modern": modern()}
    path = home / "toolcrib.toml"
    tables = [
        f"[servers.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in launch.entry().items())
        for name, launch in launches.items()
    ]
    path.write_text("\n".join([*(table.replace("env = {}\n", "") for table in tables), '[tasks]\nafter = "200ms"\n']))
    return path


@pytest.fixture(scope="module")
def url(config: Path) -> Iterator[str]:
    with serving(config) as (address, _):
        yield address


@pytest.fixture(params=["http", "stdio"])
def where(request: pytest.FixtureRequest, config: Path, url: str) -> list[str]:
    return [url] if request.param == "http" else list(joining_command(config))


def old_client(where: list[str], home: Path, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the official SDK 1.x makes of a tool as a task."""
    argv = [servers.sdk_python(1), str(HERE / "tasks_client.py"), *map(json.dumps, (where, tool, arguments))]
    done = subprocess.run(argv, env=homely(home), capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


class NewClient:
    """A client of the stateless era that knows the extension; no SDK has such a one yet."""

    def __init__(self, url: str, **capabilities: Any) -> None:
        self._url, self._capabilities = url, {"extensions": {EXTENSION: {}}, **capabilities}

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        prefix = "io.modelcontextprotocol"
        meta = {f"{prefix}/protocolVersion": MODERN, f"{prefix}/clientCapabilities": self._capabilities}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            "mcp-name": params.get("name") or params.get("taskId") or "",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as error:
            answer = json.load(error)
        return answer["result"] if "result" in answer else answer["error"]

    def until(self, task_id: str, *wanted: str) -> dict[str, Any]:
        state: dict[str, Any] = {}

        def stands_so() -> bool:
            state.update(self.ask("tasks/get", taskId=task_id))
            return "code" in state or state["status"] in wanted

        until(stands_so, deadline_s=60, what=f"the task to be {wanted}")
        return state


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("digger__dig", {"deep": True}, "dug: accept"),
        (RESEARCH, {"topic": "pythons", "ambiguous": True}, "# Research Report: pythons (snake)"),
        ("modern__slow_compute", {"seconds": 0.6, "label": "x"}, "computed x"),
        ("modern__confirm_delete", {"filename": "f"}, "f: accept"),
    ],
    ids=["sdk1", "everything", "modern", "modern-asks"],
)
def test_the_official_client_of_the_handshake_era_runs_tools_as_tasks(where, config, tool, arguments, says):
    """Of servers of its own era, whose tasks are handed on, and of the other, whose tasks are followed."""
    seen = old_client(where, config.parent, tool, arguments)

    assert (seen["capability"], seen["support"], seen["last"]) == (True, "optional", "completed")
    assert seen["first"] in ("working", "input_required", "completed")
    assert seen["text"].startswith(says)
    assert seen["related"][RELATED] == {"taskId": seen["task"]}
    assert (seen["listed"][-1], seen["refused"]) == (seen["task"], -32602)
    related = [asked["_meta"][RELATED]["taskId"] for asked in seen["asked"] if "_meta" in asked]
    assert set(related) <= {seen["task"]}  # what is asked before there is a task belongs to the call


def test_a_client_of_the_stateless_era_runs_a_handshake_era_tool_that_can_only_be_a_task(url):
    """It is followed, and asks by the task of toolcrib."""
    client = NewClient(url, elicitation={})
    created = client.ask("tools/call", name=RESEARCH, arguments={"topic": "pythons", "ambiguous": True})
    asking = client.until(created["taskId"], "input_required")
    (key,) = asking["inputRequests"]
    answer = {"action": "accept", "content": {"interpretation": "snake"}}
    acknowledged = client.ask("tasks/update", taskId=created["taskId"], inputResponses={key: answer})
    ended = client.until(created["taskId"], "completed", "failed")

    assert (created["resultType"], acknowledged["resultType"]) == ("task", "complete")
    assert asking["inputRequests"][key]["method"] == "elicitation/create"
    assert ended["result"]["content"][0]["text"].startswith("# Research Report: pythons (snake)")


def test_a_client_of_the_stateless_era_calls_a_handshake_era_task_off(url):
    """Its server stops, too: nothing more is heard of it."""
    client = NewClient(url)
    created = client.ask("tools/call", name=RESEARCH, arguments={"topic": "tea"})
    client.ask("tasks/cancel", taskId=created["taskId"])

    assert client.until(created["taskId"], "cancelled")["status"] == "cancelled"


def test_a_task_of_a_server_of_the_stateless_era_is_handed_on_to_a_client_of_it(url):
    """With its questions, under an id of our own."""
    client = NewClient(url, elicitation={})
    created = client.ask("tools/call", name="modern__confirm_delete", arguments={"filename": "f"})
    asking = client.until(created["taskId"], "input_required")
    client.ask("tasks/update", taskId=created["taskId"], inputResponses={"confirm": {"action": "accept"}})
    ended = client.until(created["taskId"], "completed", "failed")

    assert (list(asking["inputRequests"]), asking["pollIntervalMs"]) == (["confirm"], 100)
    assert ended["result"]["content"][0]["text"] == "f: accept"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("everything__simulate-research-query", {"topic": "pythons", "ambiguous": True}, "# Research Report: pythons"),
        ("modern__confirm_delete", {"filename": "f"}, "f: accept"),
    ],
)
async def test_a_program_that_knows_no_tasks_is_answered_with_what_comes_of_them(config, tool, arguments, says):
    """It is told of progress and asked questions as with any call."""
    answer = {"action": "accept", "content": {"interpretation": "snake"}}
    channel = RecordingChannel({"elicitation/create": answer}, capabilities={"elicitation": {}}, wants_progress=True)
    async with toolcrib.open_crib(str(config)) as crib:
        result = await crib.call(tool, arguments, channel=channel)

    assert result.text.startswith(says)
    assert len(channel.asked) == 1
    assert "related-task" not in json.dumps(channel.asked)
    steps = [told["progress"] for method, told in channel.told if method == "notifications/progress"]
    assert steps == sorted(steps)
