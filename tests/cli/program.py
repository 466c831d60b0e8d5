"""The real command, run as a person runs it: its own process, its own home, a folder of its own."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fleet import launcher
from tests.fleet.oauth import sign_in
from tests.fleet.running import until

TINY = Path(__file__).with_name("tiny_server.py")
TOOLCRIB = [sys.executable, "-m", "toolcrib"]

Result = subprocess.CompletedProcess[str]


@dataclass
class Serving:
    """A ``toolcrib serve`` or ``up`` under way."""

    process: "subprocess.Popen[bytes]"
    log: Path
    url: str = ""

    @property
    def output(self) -> str:
        return self.log.read_text()

    def wait_for(self, words: str) -> None:
        until(lambda: words in self.output, deadline_s=150, what=f"{words!r} in {self.output!r}")

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=150)
        sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"} | headers
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        return connection.getresponse()

    def tool_names(self, path: str = "/mcp", client: str = "test", **headers: str) -> list[str]:
        """The tools as a stateless client sees them."""
        answer = json.loads(self.list_tools(path, client, **headers).read())
        return [tool["name"] for tool in answer["result"]["tools"]]

    def list_tools(self, path: str = "/mcp", client: str = "test", **headers: str) -> http.client.HTTPResponse:
        """The answer to a stateless client's ``tools/list``."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        needed = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
        return self.request("POST", path, asked, **needed, **headers)

    def stop(self, sign: int) -> int:
        self.process.send_signal(sign)
        return self.process.wait(150)


@dataclass
class Program:
    """toolcrib in a project folder nobody else uses."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def diary(self) -> Path:
        return self.home / "diary"

    @property
    def config(self) -> Path:
        return self.project / "toolcrib.toml"

    @property
    def starts(self) -> int:
        """How often the tiny server was started."""
        return self.diary.read_text().count("started") if self.diary.exists() else 0

    def has_noted(self, words: str) -> bool:
        """Whether the tiny server noted something."""
        return self.diary.exists() and words in self.diary.read_text()

    def variables(self) -> dict[str, str]:
        dropped = ("XDG_", "TOOLCRIB_", "NO_COLOR", "FORCE_COLOR")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        return {**kept, "HOME": str(self.home), "XDG_STATE_HOME": str(self.home / "state"), **self.env}

    def run(self, *words: str, stdin: str = "", **env: str) -> Result:
        told: Result = launcher.run(
            [*TOOLCRIB, *words], stdin=stdin, timeout_s=200, cwd=self.project, env=self.variables() | env
        )
        return told

    def json(self, *words: str) -> Any:
        """What a command prints with ``--json``."""
        result = self.run(*words, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def start(self, *words: str, **streams: Any) -> "subprocess.Popen[bytes]":
        return launcher.popen([*TOOLCRIB, *words], cwd=self.project, env=self.variables(), **streams)

    def log_in(self, server: str = "tracker", name: str = "ada") -> str:
        """Sign in at a server as somebody does whose browser is elsewhere; what the command said."""
        pipe = subprocess.PIPE
        process = self.start("login", server, "--no-browser", stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdout, process.stdin:
            said = b""
            while b"paste" not in said:
                said += (line := process.stdout.readline())
                assert line, said
            url = re.search(rb"http://\S+/auth\?\S+", said)
            assert url, said
            process.stdin.write(sign_in(url.group().decode(), name).encode() + b"\n")
            process.stdin.close()
            told = (said + process.stdout.read()).decode()
        assert process.wait(150) == 0, told
        return told

    @contextlib.contextmanager
    def serving(self, *words: str) -> Iterator[Serving]:
        """A server on a free port; ends with the block if it has not ended before."""
        log = self.home / "serving.log"
        with log.open("wb") as file:
            process = self.start(
                words[0], "--port", "0", *words[1:], stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        serving = Serving(process, log)
        try:
            until(
                lambda: "serving MCP at" in serving.output or process.poll() is not None, deadline_s=150, what="serving"
            )
            found = re.search(r"serving MCP at (\S+)", serving.output)
            assert found, serving.output
            serving.url = found[1]
            yield serving
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def write(self, *tables: str) -> Path:
        """Write the project's configuration; connections are tried once, so that failures are quick, and the knowledge
        base's tools are left out unless a test wants them, so that catalogues are short."""
        without = [] if any("[kb]" in table for table in tables) else ["[kb]\nenabled = false"]
        self.config.write_text("\n\n".join(["[connect]\nattempts = 1", *tables, *without]) + "\n")
        return self.config

    def tiny(self, name: str = "tiny", more: str = "") -> str:
        """The table of the tiny server."""
        args = json.dumps([str(TINY), str(self.diary)])
        command = f"command = {json.dumps(sys.executable)}  # this one"
        return f"# {name} is small\n[servers.{name}]\n{command}\nargs = {args}\n{more}"

    def broken(self, name: str = "broken") -> str:
        """The table of a server that says why it cannot start, and ends."""
        args = json.dumps(["-c", "import sys; sys.exit('no luck today')"])
        return f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}"
