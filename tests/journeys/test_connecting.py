"""Real clients sign in to the built-in authorization server, are let in by a person, and call a tool."""

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fleet import servers
from tests.fleet.consent import Person, asked_for
from tests.fleet.gateway import TOOLCRIB, serving
from tests.fleet.install import FLEET, node
from tests.fleet.running import Running, homely, running, until

REMOTE = FLEET / "npm-remote" / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
CLIENT = Path(__file__).with_name("oauth_client.py")
TOOLS = '''
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"
'''


@dataclass
class Toolcrib:
    """One that gives tokens itself."""

    config: Path
    url: str

    @property
    def home(self) -> Path:
        return self.config.parent

    @property
    def person(self) -> Person:
        """Its owner."""
        return Person((self.home / ".local/state/toolcrib/token").read_text().strip())

    def run(self, *argv: str) -> str:
        command = [*TOOLCRIB, *argv, "--config", str(self.config)]
        return subprocess.run(
            command, env=homely(self.home), cwd=self.home, capture_output=True, text=True, check=True
        ).stdout


@pytest.fixture
def toolcrib(tmp_path: Path) -> Iterator[Toolcrib]:
    (tmp_path / "own_tools.py").write_text(TOOLS)
    config = tmp_path / "toolcrib.toml"
    config.write_text('native = ["own_tools:greet"]\n\n[serve]\noauth = "builtin"\n\n[kb]\nenabled = false\n')
    with serving(config) as (url, _):
        yield Toolcrib(config, url)


@pytest.mark.parametrize("major", [1, 2])
def test_the_official_client_signs_in_calls_renews_and_comes_again(fleet: None, toolcrib: Toolcrib, major: int):
    argv = [servers.sdk_python(major), str(CLIENT), toolcrib.url, "greet"]
    with running(argv, ready=lambda client: "/oauth/authorize" in client.output()) as client:
        back = toolcrib.person.let_in(asked_for(client))
        result = told(client)
    [listed] = json.loads(toolcrib.run("clients", "ls", "--json"))

    assert re.match(r"http://127\.0\.0\.1:\d+/callback\?code=", back)
    assert result == {
        "texts": ["Hello Ada"] * 3,
        "renewed": True,
        "rotated": True,
        "scope": "toolcrib:level:write",
    }
    assert (listed["name"], listed["user"], listed["state"]) == ("The official SDK", "the owner", "active")


def told(client: Running) -> dict[str, object]:
    until(lambda: client.process.poll() is not None, deadline_s=150, what="a client's end")
    found = re.search(r"^RESULT (.*)", client.output(), re.MULTILINE)
    assert found, client.output()
    return json.loads(found[1])


def test_mcp_remote_signs_in_and_calls_a_tool_until_it_is_disconnected(fleet: None, toolcrib: Toolcrib):
    """What Claude Desktop and others that only know stdio are told to start."""
    with remote(toolcrib) as (line, client):
        toolcrib.person.let_in(asked_for(client))
        begun = line.ask("initialize", **HELLO)
        line.tell("notifications/initialized")
        called = line.ask("tools/call", name="greet", arguments={"name": "Ada"})
    with remote(toolcrib) as (line, client):
        line.ask("initialize", **HELLO)
        line.tell("notifications/initialized")
        again = line.ask("tools/call", name="greet", arguments={"name": "Grace"})
        asked_again = "/oauth/authorize" in client.output()
    [listed] = json.loads(toolcrib.run("clients", "ls", "--json"))
    toolcrib.run("clients", "rm", listed["id"])
    with remote(toolcrib) as (_, client):
        asked_for(client)

    assert begun["serverInfo"]["name"] == "toolcrib"
    assert called["content"][0]["text"] == "Hello Ada"
    assert (again["content"][0]["text"], asked_again) == ("Hello Grace", False)
    assert listed["name"] == "MCP CLI Proxy"


@contextmanager
def remote(toolcrib: Toolcrib) -> Iterator[tuple["StdioLine", Running]]:
    """``mcp-remote`` on a machine without a browser; what it has to say to a person is on stderr."""
    env = {"HOME": str(toolcrib.home), "PATH": str(toolcrib.home), "MCP_REMOTE_CONFIG_DIR": str(toolcrib.home / "mcp")}
    argv = [str(node()), str(REMOTE), toolcrib.url, "--auth-timeout", "150"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env, start_new_session=True
        )
        try:
            yield StdioLine(process), Running(process, log)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "journey", "version": "1"}}


@dataclass
class StdioLine:
    """Somebody who speaks MCP with a program's stdin and stdout."""

    process: "subprocess.Popen[bytes]"
    last: int = 0

    def tell(self, method: str, **params: object) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: object) -> dict:
        self.last += 1
        self._send({"id": self.last, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            assert line, "it ended"
            answer = json.loads(line)
            if answer.get("id") == self.last and "method" not in answer:
                assert "result" in answer, answer
                return answer["result"]

    def _send(self, message: dict[str, object]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()
