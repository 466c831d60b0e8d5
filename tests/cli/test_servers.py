"""Looking after servers: ``servers ls add rm enable disable refresh logs``."""

import http.server
import json
import sys
import threading

import pytest
from tests.cli.program import TINY

WRITTEN = """\
# written by hand
[connect]
attempts = 1  # be quick

# tiny is small
[servers.tiny]
command = "python"  # this one
args = ["-V"]

# the last word
[servers.other]
url = "https://example.com/mcp"
"""


def command(toolcrib):
    return ["--", sys.executable, str(TINY), str(toolcrib.diary)]


def test_add_creates_the_file_and_asks_the_server(toolcrib):
    """One command from nothing to tools."""
    result = toolcrib.run("servers", "add", "tiny", *command(toolcrib))

    assert result.returncode == 0, result.stderr
    assert str(toolcrib.config) in result.stderr
    assert ["tiny", "5"] in [line.split()[:2] for line in result.stdout.splitlines()]
    assert "tiny__echo" in toolcrib.run("ls", "--cached").stdout


def test_a_server_that_fails_stays_configured_and_is_reported(toolcrib):
    """The failure is stored, told, and in the exit code; the configuration keeps the server."""
    toolcrib.write()

    result = toolcrib.run("servers", "add", "broken", "--", sys.executable, "-c", "raise SystemExit('no luck today')")

    assert result.returncode == 4
    assert "no luck today" in result.stderr
    entry = toolcrib.json("servers", "ls")[0]
    assert (entry["name"], entry["state"], entry["discoveryStatus"]) == ("broken", "failed", "failed")


def test_add_keeps_what_a_person_wrote(toolcrib):
    """Comments and order stay; the new server is at the end."""
    toolcrib.config.write_text(WRITTEN)

    toolcrib.run("servers", "add", "tiny2", *command(toolcrib))

    assert toolcrib.config.read_text().startswith(WRITTEN)


def test_add_writes_references_instead_of_secrets(toolcrib):
    """``--env NAME`` alone takes the value from the environment each time."""
    toolcrib.run("servers", "add", "tiny", "--env", "TINY_KEY", "--env", "MODE=quick", *command(toolcrib), TINY_KEY="x")

    written = toolcrib.config.read_text()
    assert 'TINY_KEY = "${TINY_KEY}"' in written
    assert 'MODE = "quick"' in written


def test_add_keeps_secrets_out_of_the_file(toolcrib):
    """What looks like one is kept by toolcrib, and the server gets it all the same."""
    result = toolcrib.run("servers", "add", "tiny", "--env", "API_KEY=abc123", *command(toolcrib))

    assert "toolcrib keeps TINY_API_KEY" in result.stderr
    assert "abc123" not in result.stderr + result.stdout + toolcrib.config.read_text()
    assert 'API_KEY = "${TINY_API_KEY}"' in toolcrib.config.read_text()
    assert [one["name"] for one in toolcrib.json("secrets", "ls")] == ["TINY_API_KEY"]


def test_add_of_a_url_takes_headers(toolcrib):
    """A server that is reached instead of started."""
    toolcrib.write()

    result = toolcrib.run("servers", "add", "far", "http://127.0.0.1:9/mcp", "--header", "X-Team=tools")

    assert result.returncode == 4
    assert 'url = "http://127.0.0.1:9/mcp"' in toolcrib.config.read_text()
    assert 'X-Team = "tools"' in toolcrib.config.read_text()


def test_add_writes_into_the_file_that_is_in_use(toolcrib):
    """A project that lives in another program's file keeps living there: a toolcrib.toml would hide its servers."""
    foreign = toolcrib.project / ".mcp.json"
    foreign.write_text(json.dumps({"mcpServers": {"old": {"command": "old", "disabled": True}}}))

    toolcrib.run("servers", "add", "tiny", *command(toolcrib))

    assert set(json.loads(foreign.read_text())["mcpServers"]) == {"old", "tiny"}
    assert not toolcrib.config.exists()


def test_add_global_writes_the_users_file(toolcrib):
    """``--global`` is for every project of this user."""
    toolcrib.run("servers", "add", "tiny", "--global", *command(toolcrib))

    assert "[servers.tiny]" in (toolcrib.home / ".config" / "toolcrib" / "toolcrib.toml").read_text()
    assert not toolcrib.config.exists()


def test_add_with_a_config_creates_that_file(toolcrib):
    """``--config`` names the file, whether it is there yet or not."""
    toolcrib.run("servers", "add", "tiny", "--config", "mine.toml", *command(toolcrib))

    assert "[servers.tiny]" in (toolcrib.project / "mine.toml").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["tiny", "--", "python"],
        ["new"],
        ["new", "https://example.com", "--", "python"],
        ["new", "python"],
        ["Not-Snake", "--", "python"],
        ["new", "--header", "nothing", "https://example.com"],
    ],
)
def test_add_refuses_what_cannot_be_meant(toolcrib, words):
    """A taken name, neither command nor URL, both, a name that cannot be one: usage errors, and no edit."""
    toolcrib.config.write_text(WRITTEN)

    result = toolcrib.run("servers", "add", *words)

    assert result.returncode == 2
    assert toolcrib.config.read_text() == WRITTEN


def test_rm_takes_out_one_server_and_nothing_else(toolcrib):
    """The rest of the file is as it was, comments included."""
    toolcrib.config.write_text(WRITTEN)

    assert toolcrib.run("servers", "rm", "tiny").returncode == 0

    before, _, after = WRITTEN.partition("# tiny is small")
    assert toolcrib.config.read_text() == before + after[after.index("# the last word") :]


def test_rm_forgets_what_was_discovered(tiny):
    """A server of the same name later on starts from nothing."""
    tiny.run("servers", "refresh")

    tiny.run("servers", "rm", "tiny")

    assert json.loads((tiny.project / "toolcrib.lock").read_text())["servers"] == {}


def test_a_server_nobody_configured_is_not_found(tiny):
    """Exit code 7 and the nearest name, for every command that takes one."""
    for verb in ("rm", "enable", "disable", "refresh", "logs"):
        result = tiny.run("servers", verb, "tny")

        assert (verb, result.returncode, result.stdout) == (verb, 7, "")
        assert "Did you mean 'tiny'?" in result.stderr


def test_disable_and_enable_keep_comments(toolcrib):
    """Off and on again, with only the switch changed."""
    toolcrib.config.write_text(WRITTEN)

    toolcrib.run("servers", "disable", "tiny")
    disabled = toolcrib.config.read_text()
    toolcrib.run("servers", "enable", "tiny")
    enabled = toolcrib.config.read_text()

    assert [line for line in disabled.splitlines() if line not in WRITTEN.splitlines()] == ["enabled = false"]
    assert [line for line in enabled.splitlines() if line not in WRITTEN.splitlines()] == ["enabled = true"]
    assert "# this one" in enabled


def test_a_disabled_servers_tools_leave_the_catalogue(tiny):
    """And come back, without being asked for again, when it is enabled."""
    tiny.run("servers", "refresh")

    tiny.run("servers", "disable", "tiny")
    off = tiny.json("ls", "--server", "tiny")
    tiny.run("servers", "enable", "tiny")

    assert (off, len(tiny.json("ls", "--server", "tiny")), tiny.starts) == ([], 5, 1)


def test_a_server_of_the_environment_cannot_be_edited(toolcrib):
    """The command says where it comes from instead."""
    result = toolcrib.run("servers", "rm", "far", FAR_MCP_URL="http://127.0.0.1:9/mcp")

    assert result.returncode == 1
    assert "FAR_MCP_URL" in result.stderr


def test_ls_starts_nothing_until_it_is_asked_to(tiny):
    """The state as it is known; ``--probe`` finds out."""
    before = tiny.json("servers", "ls")
    started = tiny.starts
    after = tiny.json("servers", "ls", "--probe")

    assert [before[0]["state"], started] == ["never", 0]
    assert [after[0]["state"], after[0]["tools"], tiny.starts] == ["ok", 5, 1]


def test_ls_masks_secrets(toolcrib):
    """What a server runs is shown without its keys."""
    args = '["--api-key", "sk-abcdefghijkl"]'
    toolcrib.config.write_text(f'[servers.paid]\ncommand = "paid"\nargs = {args}\n')

    result = toolcrib.run("servers", "ls")

    assert "--api-key ***" in result.stdout
    assert "sk-abc" not in result.stdout + result.stderr


def test_refresh_reports_each_server(tiny):
    """One table of outcomes; one failure is enough for exit code 4."""
    tiny.write(tiny.tiny(), tiny.broken())

    result = tiny.run("servers", "refresh", "--json")

    assert result.returncode == 4
    assert {entry["name"]: entry["state"] for entry in json.loads(result.stdout)} == {"broken": "failed", "tiny": "ok"}


def test_logs_shows_the_servers_own_words(tiny):
    """What a server writes to stderr, of a good one and of one that dies."""
    tiny.write(tiny.tiny(), tiny.broken())

    good, bad = tiny.run("servers", "logs", "tiny"), tiny.run("servers", "logs", "broken")

    assert (good.returncode, good.stdout) == (0, "tiny: at your service\n")
    assert (bad.returncode, bad.stdout) == (4, "no luck today\n")


class Refusing(http.server.BaseHTTPRequestHandler):
    """A server that wants a credential."""

    def do_POST(self):
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


def test_a_server_that_wants_a_credential_is_not_merely_unreachable(toolcrib):
    """Exit code 3, so that a script can ask for a token."""
    toolcrib.write()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        threading.Thread(target=refusing.serve_forever, daemon=True).start()
        result = toolcrib.run("servers", "add", "closed", f"http://127.0.0.1:{refusing.server_port}/mcp")
        refusing.shutdown()

    assert result.returncode == 3
    assert "toolcrib login closed" in result.stderr
