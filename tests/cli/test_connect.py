"""``toolcrib connect`` and ``disconnect``: one entry in a client's file, and out again."""

import json

import pytest
from tests.cli.keyboard import typed
from tests.fleet.running import until

from toolcrib.cli.commands.connect import Mask
from toolcrib.stores.run_files import RunFiles

SECRET = "sk-0123456789abcdef"
WRITTEN = """\
{
  // my servers
  "mcpServers": {
    "time": {"command": "time-server", "args": ["--key", "hush-hush"]}, // clock
    "notes": {"command": "notes-server", "env": {"API_KEY": "sk-0123456789abcdef"}}
  }
}"""


@pytest.fixture
def cursor(toolcrib):
    """Cursor's file, with comments and a secret in it."""
    path = toolcrib.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(WRITTEN)
    return path


def test_connect_and_disconnect_leave_no_trace(toolcrib, cursor):
    """Byte for byte."""
    connected = toolcrib.run("connect", "cursor")
    in_between = cursor.read_text()
    gone = toolcrib.run("disconnect", "cursor")

    assert connected.returncode == gone.returncode == 0, connected.stderr + gone.stderr
    assert '"stdio"' in in_between
    assert "// my servers" in in_between
    assert "is as it was before" in gone.stderr
    assert cursor.read_text() == WRITTEN
    assert [path.name for path in cursor.parent.iterdir()] == ["mcp.json"]


def test_the_list_shows_who_is_connected(toolcrib, cursor):
    """For people and for programs."""
    toolcrib.run("connect", "cursor")

    rows = {line.split()[0]: line for line in toolcrib.run("connect").stdout.splitlines()}
    shown = {entry["client"]: entry["connected"] for entry in toolcrib.json("connect")}

    assert " connected " in rows["cursor"]
    assert "not here" in rows["windsurf"]
    assert shown["cursor"] is True
    assert shown["zed"] is False


def test_a_client_is_told_which_configuration_is_meant(toolcrib, cursor):
    """It starts toolcrib from anywhere; in a project it starts it there."""
    toolcrib.write(toolcrib.tiny())

    toolcrib.run("connect", "cursor")
    toolcrib.run("connect", "vscode", "--project")

    user = json.loads(cursor.read_text().replace("// my servers", "").replace("// clock", ""))
    project = json.loads((toolcrib.project / ".vscode" / "mcp.json").read_text())
    assert user["mcpServers"]["toolcrib"]["args"][-3:] == ["stdio", "--config", str(toolcrib.config)]
    assert project["servers"]["toolcrib"]["args"][-1] == "stdio"


def test_the_entry_starts_toolcrib(toolcrib, cursor):
    """What is written is a command that speaks MCP."""
    toolcrib.write('[serve]\nlinger = "0s"', toolcrib.tiny())
    toolcrib.run("connect", "claude-desktop")
    path = toolcrib.home / ".config" / "Claude" / "claude_desktop_config.json"
    entry = json.loads(path.read_text())["mcpServers"]["toolcrib"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})

    assert entry["args"][:2] == ["-m", "toolcrib"]
    result = toolcrib.run(*entry["args"][2:], stdin=asked + "\n")

    assert json.loads(result.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "toolcrib"
    until(lambda: not RunFiles(toolcrib.variables()).read(), deadline_s=150, what="the end of what was started")


def test_http_writes_the_address_and_a_reference_where_a_token_is_needed(toolcrib):
    """Never the token itself."""
    toolcrib.write('[serve]\nport = 9123\nauth = "required"')

    toolcrib.run("connect", "claude-code", "--http", "--project", TOOLCRIB_TOKEN="t0ken-" * 6)

    text = (toolcrib.project / ".mcp.json").read_text()
    assert json.loads(text)["mcpServers"]["toolcrib"] == {
        "type": "http",
        "url": "http://127.0.0.1:9123/mcp",
        "headers": {"Authorization": "Bearer ${TOOLCRIB_TOKEN}"},
    }


def test_replace_moves_the_servers_into_toolcrib(toolcrib, cursor):
    """One endpoint instead of many; a later sync does not take them away again; disconnect brings the file back."""
    toolcrib.write()
    result = toolcrib.run("connect", "cursor", "--replace")

    assert result.returncode == 0, result.stderr
    assert "time-server" not in cursor.read_text()
    assert "[servers.time]" in toolcrib.config.read_text()
    toolcrib.run("import", "--sync", "--yes")
    assert "[servers.time]" in toolcrib.config.read_text()
    toolcrib.run("disconnect", "cursor")
    assert cursor.read_text() == WRITTEN


def test_entries_that_toolcrib_serves_as_well_stay_where_nobody_can_be_asked_and_that_is_said(toolcrib, cursor):
    """In a pipe, or with --keep, which says nothing."""
    toolcrib.write('[servers.clock]\ncommand = "time-server"\nargs = ["--key", "hush-hush"]')

    piped = toolcrib.run("connect", "cursor")
    toolcrib.run("disconnect", "cursor")
    kept = toolcrib.run("connect", "cursor", "--keep")

    assert "servers of its own that toolcrib serves, too: time. Agents see their tools twice." in piped.stderr
    assert "connect cursor --replace" in piped.stderr
    assert "twice" not in kept.stderr
    assert "time-server" in cursor.read_text()
    assert "notes-server" not in toolcrib.config.read_text()
    assert toolcrib.run("connect", "cursor", "--keep", "--replace").returncode == 2


@pytest.mark.parametrize(("key", "stays"), [("", False), ("n", True)])
def test_a_person_is_asked_whether_tools_are_to_be_there_twice(toolcrib, cursor, key, stays):
    """Only about what toolcrib serves; afterwards the file is as it was, byte for byte."""
    toolcrib.write('[servers.clock]\ncommand = "time-server"\nargs = ["--key", "hush-hush"]')
    before = toolcrib.config.read_text()

    said, _ = typed(toolcrib, "connect", "cursor", answers=[("[Y/n]", key)])
    again = toolcrib.run("connect", "cursor")
    text = cursor.read_text()

    assert "Take time out of" in said
    assert ("time-server" in text) is stays
    assert "notes-server" in text
    assert toolcrib.config.read_text() == before
    assert ("connected already" in again.stderr, cursor.read_text()) == (True, text)
    toolcrib.run("disconnect", "cursor")
    assert cursor.read_text() == WRITTEN


def test_a_configuration_that_cannot_be_read_keeps_nobody_from_connecting(toolcrib, cursor):
    """Only from moving servers into it."""
    toolcrib.config.write_text("[servers\n")

    refused, connected = toolcrib.run("connect", "cursor", "--replace"), toolcrib.run("connect", "cursor")

    assert (refused.returncode, connected.returncode) == (1, 0), refused.stderr + connected.stderr
    assert "toolcrib.toml:1" in refused.stderr


def test_replace_puts_secrets_away_and_shows_none(toolcrib, cursor):
    toolcrib.write()

    result = toolcrib.run("connect", "cursor", "--replace")

    assert 'env = {API_KEY = "${NOTES_API_KEY}"}' in toolcrib.config.read_text()
    assert SECRET not in toolcrib.config.read_text() + result.stdout + result.stderr
    assert [(one["name"], one["neededBy"]) for one in toolcrib.json("secrets", "ls")] == [
        ("NOTES_API_KEY", ["notes"]),
        ("TIME_KEY", ["time"]),
    ]


def test_a_dry_run_shows_the_difference_without_secrets(toolcrib, cursor):
    """And nothing is written, imported or kept."""
    result = toolcrib.run("connect", "cursor", "--replace", "--dry-run")

    assert result.returncode == 0, result.stderr
    assert '+    "toolcrib": {' in result.stdout
    assert '-    "time": {"command": "time-server", "args": ["--key", "***"]}' in result.stdout
    assert SECRET not in result.stdout
    assert "hush-hush" not in result.stdout
    assert cursor.read_text() == WRITTEN
    assert not toolcrib.config.exists()


def test_a_file_that_was_changed_since_loses_only_our_entry(toolcrib, cursor):
    """And that is said."""
    toolcrib.run("connect", "cursor")
    cursor.write_text(cursor.read_text().replace("time-server", "clock-server"))

    result = toolcrib.run("disconnect", "cursor")

    assert "was changed since" in result.stderr
    assert cursor.read_text() == WRITTEN.replace("time-server", "clock-server")


def test_a_connected_project_does_not_start_toolcrib_in_toolcrib(toolcrib):
    """The project's file of Claude Code names toolcrib, and is the only configuration there."""
    toolcrib.run("connect", "claude-code", "--project")

    assert (toolcrib.project / ".mcp.json").is_file()
    assert toolcrib.json("servers", "ls") == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["connect", "curser"], 7, "Did you mean 'cursor'?"),
        (["connect", "claude-desktop", "--http"], 1, "Leave --http away"),
        (["connect", "claude-desktop", "--project"], 1, "Leave --project away"),
        (["connect", "cursor", "--with-token"], 2, "--with-token goes with --http"),
        (["disconnect", "zed"], 0, "Zed is not connected"),
    ],
)
def test_what_cannot_be_done_says_what_can(toolcrib, words, code, told):
    """In one line."""
    result = toolcrib.run(*words)

    assert result.returncode == code, result.stderr
    assert told in result.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('+      "command": "npx",', '+      "command": "npx",'),
        (' "env": {"API_KEY": "hush", "MODE": "x y"}', ' "env": {"API_KEY": "***", "MODE": "x y"}'),
        ('-"args": ["-y", "--token=hush", "--key", "hush"]', '-"args": ["-y", "--token=***", "--key", "***"]'),
        ('+bearer_token_env_var = "TOOLCRIB_TOKEN"', '+bearer_token_env_var = "TOOLCRIB_TOKEN"'),
        ("-API_KEY = 'hush'", '-API_KEY = "***"'),
        (' "url": "https://me:hush@x.example/mcp?key=hush"', ' "url": "https://***@x.example/mcp?key=***"'),
        (' "Authorization": "Bearer ${TOKEN}"', ' "Authorization": "Bearer ${TOKEN}"'),
        ('-"a\\"b": "c\\"hush"', '-"a\\"b": "***"'),
    ],
)
def test_a_line_of_a_strangers_file_is_shown_without_its_secrets(line, expected):
    """What a line changes can be seen, what it holds cannot."""
    assert Mask().applied(line) == expected


def test_a_secret_on_the_line_after_its_option_is_masked():
    """Arrays are often written one word a line."""
    mask = Mask()

    assert [mask.applied(line) for line in (' "--api-key",', ' "hush"')] == [' "--api-key",', ' "***"']
