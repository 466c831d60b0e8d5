"""The user's rules hold whatever file the servers come from, by every way in."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.program import TINY, Program

from toolcrib.cli.main import run


@pytest.fixture
def denied(toolcrib: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A project with another program's file, whose server's tools the user has denied; this process is in it."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TOOLCRIB_CONFIG", "TOOLCRIB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(toolcrib.home))
    monkeypatch.chdir(toolcrib.project)
    tiny = {"command": sys.executable, "args": [str(TINY), str(toolcrib.diary)]}
    (toolcrib.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": tiny}}))
    assert run(["policy", "x__*", "deny"]) == 0
    return toolcrib


def user_file(program: Program) -> Path:
    return program.home / ".config" / "toolcrib" / "toolcrib.toml"


@pytest.mark.parametrize("named", [["--config", ".mcp.json"], []])
def test_a_tool_the_user_denied_is_not_called(denied, capsys, named):
    """With the file named, as the entry that ``up`` prints names it, and without."""
    capsys.readouterr()

    code = run(["call", "x__echo", "text=hello", "--json", *named])

    assert code != 0
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "TOOL_PERMISSION_DENIED"
    assert not denied.has_noted("called echo")


def test_nor_with_the_file_named_by_the_variable(denied, capsys, monkeypatch):
    """``TOOLCRIB_CONFIG`` is the same."""
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(denied.project / ".mcp.json"))
    capsys.readouterr()

    assert run(["call", "x__echo", "text=hello", "--json"]) != 0

    assert json.loads(capsys.readouterr().out)["error"]["code"] == "TOOL_PERMISSION_DENIED"
    assert not denied.has_noted("called echo")


def test_why_and_policy_tell_the_same_of_a_named_file(denied, capsys):
    """What is shown is what holds."""
    run(["servers", "refresh", "x", "--config", ".mcp.json"])
    capsys.readouterr()
    run(["why", "x__echo", "--config", ".mcp.json", "--json"])
    story = json.loads(capsys.readouterr().out)
    run(["policy", "--config", ".mcp.json", "--json"])
    rows = {row["name"]: row["policy"] for row in json.loads(capsys.readouterr().out)}

    assert story["verdict"] == "denied"
    assert rows["x__echo"] == "deny"


def test_show_origin_names_the_users_file_for_its_rule(denied, capsys):
    """And ``path`` that the file is read for its rules; a policy set with a JSON file named goes there, too."""
    capsys.readouterr()
    run(["config", "show", "--origin", "--json", "--config", ".mcp.json"])
    settings = {entry["setting"]: entry for entry in json.loads(capsys.readouterr().out)}
    run(["config", "path", "--json", "--config", ".mcp.json"])
    files = {file["kind"]: file["path"] for file in json.loads(capsys.readouterr().out)}
    assert run(["policy", "x__fail", "ask", "--config", ".mcp.json"]) == 0

    assert settings['security.policies."x__*"']["value"] == "deny"
    assert settings['security.policies."x__*"']["origin"].startswith(str(user_file(denied)))
    assert files["rules"] == str(user_file(denied))
    assert 'x__fail = "ask"' in user_file(denied).read_text()


def test_show_origin_says_which_looser_rule_does_not_count(denied, capsys):
    """A project that would allow what the user denied."""
    (denied.project / "theirs.toml").write_text('[security.policies]\n"x__*" = "allow"\nx__echo = "allow"\n')
    capsys.readouterr()

    run(["config", "show", "--origin", "--config", "theirs.toml"])

    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "; stricter than allow (" in lines['security.policies."x__*"']
    assert "; does not count beside deny (" in lines["security.policies.x__echo"]


def test_a_client_that_starts_toolcrib_with_a_named_file_is_refused(denied):
    """Over stdio, as ``connect`` writes it."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": "x__echo", "arguments": {"text": "hello"}, "_meta": meta}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + "\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with denied.start("stdio", "--alone", "--config", ".mcp.json", **pipes) as process:
        out, _ = process.communicate(asked.encode(), timeout=60)

    assert "TOOL_PERMISSION_DENIED" in out.decode()
    assert not denied.has_noted("called echo")


def test_neither_listed_nor_called_over_http(denied):
    """A client of ``serve`` with a named file does not even see it; an edit of the rule counts at once."""
    with denied.serving("serve", "--config", ".mcp.json") as serving:
        body = {"arguments": {"text": "hello"}}
        answer = serving.request("POST", "/api/v1/tools/x__echo/call", body).read().decode()
        listed = serving.tool_names()

    assert "TOOL_PERMISSION_DENIED" in answer, answer
    assert [name for name in listed if name.startswith("x__")] == []
    assert not denied.has_noted("called echo")
