"""``toolcrib projects``: what was run here is remembered, listed and forgotten."""

import json
import signal
import subprocess

import pytest
from tests.cli.program import TOOLCRIB, Serving
from tests.fleet import launcher
from tests.fleet.running import until

from toolcrib.project.project import project_id


def remembered(program) -> bool:
    return (program.home / "state" / "toolcrib" / "projects.json").exists()


def entry(program) -> dict[str, object]:
    directory = program.project
    return {"id": project_id(directory), "name": "project", "directory": str(directory), "file": None}


@pytest.mark.parametrize("command", ["serve", "up"])
def test_a_directory_that_is_served_is_remembered(tiny, command):
    """Without anybody waiting for it."""
    with tiny.serving(command):
        until(lambda: remembered(tiny), deadline_s=150, what="a remembered project")

    found = tiny.json("projects", "ls")

    assert [{name: one[name] for name in entry(tiny)} for one in found] == [entry(tiny)]


def test_a_directory_that_a_client_works_in_is_remembered(tiny):
    """``stdio`` serves a project, too; with the file that was named."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = tiny.start("stdio", "--alone", "--config", "toolcrib.toml", **streams)
    try:
        until(lambda: remembered(tiny), deadline_s=150, what="a remembered project")
    finally:
        process.communicate(timeout=150)

    assert tiny.json("projects", "ls")[0]["file"] == str(tiny.config)


def test_a_state_that_cannot_be_written_does_not_keep_toolcrib_from_serving(tiny):
    """Nobody needs the list of projects."""
    state = tiny.home / "state" / "toolcrib"
    state.mkdir(parents=True)
    (state / "projects.json").write_text("{")

    with tiny.serving("serve", "--log-level", "debug") as serving:
        serving.wait_for("projects.not.noted")

        assert "tiny__echo" in serving.tool_names()


def test_projects_are_listed_and_forgotten(toolcrib):
    """The table for people; a second time there is nothing to forget."""
    nothing = toolcrib.run("projects", "ls")
    with toolcrib.serving("serve"):
        until(lambda: remembered(toolcrib), deadline_s=150, what="a remembered project")

    listed = toolcrib.run("projects", "ls")
    completed = toolcrib.run("__complete", "--", "projects", "rm", "pro").stdout
    forgotten = toolcrib.run("projects", "rm", "project")
    again = toolcrib.run("projects", "rm", "project", "--json")

    assert "Run `toolcrib up` in one." in nothing.stderr
    assert listed.stdout.split()[:6] == ["NAME", "ID", "LAST", "USED", "DIRECTORY", "project"]
    assert completed.partition("\t")[0] == "project"
    assert "is forgotten" in forgotten.stderr
    assert toolcrib.json("projects", "ls") == []
    assert (again.returncode, json.loads(again.stdout or again.stderr)["error"]["code"]) == (7, "RESOURCE_NOT_FOUND")


TOKEN = "a-token-of-my-own-choosing"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def ask(serving, method, path, body=None):
    answer = serving.request(method, f"/api/v1{path}", body, authorization=f"Bearer {TOKEN}")
    return json.loads(answer.read() or b"null")


def configuration(serving, program):
    return ask(serving, "GET", f"/projects/{project_id(program.project)}/configuration")["configuration"]


def test_a_project_is_looked_at_without_starting_its_servers(tiny):
    """What an earlier run found is there; flags are told as such."""
    tiny.env["TOOLCRIB_TOKEN"] = TOKEN
    tiny.json("servers", "refresh")
    started = tiny.starts

    with tiny.serving("serve", "--no-prefix") as serving:
        told = configuration(serving, tiny)

        assert [tool["name"] for tool in told["availableTools"]] == ["echo", "fail", "hang", "paint", "picture"]
        assert {one["setting"]: one["origin"] for one in told["settings"]}["serve.port"] == "flag"
        assert tiny.starts == started


def test_where_nothing_is_configured_the_builtin_tools_are_told(toolcrib):
    """As they are to MCP clients."""
    toolcrib.env["TOOLCRIB_TOKEN"] = TOKEN
    with toolcrib.serving("serve") as serving:
        told = [tool["name"] for tool in configuration(serving, toolcrib)["availableTools"]]

    assert [name for name in told if not name.startswith("kb_")] == [
        "calculate",
        "clock_now",
        "json_query",
        "text_count",
    ]


def test_a_client_that_connects_is_a_session(tiny):
    """Seen over REST, and ended there."""
    tiny.env["TOOLCRIB_TOKEN"] = TOKEN
    with tiny.serving("serve") as serving:
        hello = serving.request("POST", "/mcp", HELLO, authorization=f"Bearer {TOKEN}")
        (session,) = ask(serving, "GET", "/sessions")["sessions"]
        ask(serving, "DELETE", f"/sessions/{session['id']}")
        headers = {"mcp-session-id": hello.headers["mcp-session-id"], "authorization": f"Bearer {TOKEN}"}
        after = serving.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, **headers)

        assert (session["name"], session["kind"], session["era"]) == ("test 1", "mcp", "2025-06-18")
        assert after.status == 404
        assert ask(serving, "GET", "/sessions") == {"sessions": []}


def test_everything_that_was_opened_ends_with_toolcrib(tiny):
    """A session in another project has servers of its own; a signal ends them all in good order."""
    tiny.env["TOOLCRIB_TOKEN"] = TOKEN
    with tiny.serving("serve"):
        until(lambda: remembered(tiny), deadline_s=150, what="a remembered project")
    other = tiny.home / "elsewhere"
    other.mkdir()
    log = tiny.home / "elsewhere.log"
    command = [*TOOLCRIB, "serve", "--port", "0"]
    with log.open("wb") as file:
        process = launcher.popen(command, cwd=other, env=tiny.variables(), stdout=file, stderr=file)
    serving = Serving(process, log)
    try:
        serving.wait_for("serving MCP at")
        serving.url = serving.output.partition("serving MCP at ")[2].split()[0]
        opened = ask(serving, "POST", f"/projects/{project_id(tiny.project)}/sessions", {"name": "far"})
        address = f"/sessions/{opened['session']['id']}"
        until(lambda: ask(serving, "GET", address)["session"]["availableTools"], deadline_s=150, what="tools")
        called = ask(serving, "POST", f"{address}/tools/tiny__echo/call", {"arguments": {"text": "far away"}})

        assert called["success"]
        assert serving.stop(signal.SIGTERM) == 0
        assert "Traceback" not in serving.output
    finally:
        process.kill()
        process.wait()
