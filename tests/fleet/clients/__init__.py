"""Real MCP clients: the official SDK, 1.x and 2.x, and the MCP Inspector, each in a process of its own."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fleet import install, servers
from tests.fleet.launcher import imports_of, shared_launcher
from tests.fleet.running import homely

Json = dict[str, Any]
HERE = Path(__file__).resolve().parent
TIMEOUT_S = 150


class ClientFailedError(AssertionError):
    """A client ended with an error or printed something that is not JSON."""


@dataclass(frozen=True)
class Place:
    """Where a client finds the server: a command it starts in ``home``, or a URL."""

    home: Path
    argv: tuple[str, ...] = ()
    url: str = ""


@dataclass(frozen=True)
class SdkClient:
    """The official SDK of one major version, asking for one protocol era."""

    major: int
    mode: str
    answers: bool = False
    """Whether it answers what servers ask."""

    def converse(self, place: Place, operations: Sequence[Json]) -> Json:
        """Perform the operations over one connection; see `conversation` for their shape."""
        where = ["--url", place.url] if place.url else ["--stdio", json.dumps(place.argv)]
        script = HERE / f"sdk{self.major}_client.py"
        env = {**os.environ, "PYTHONPATH": str(HERE)}
        launcher = shared_launcher(servers.sdk_python(self.major), imports_of([script.read_text()]), env)
        answers = ["--answers"] if self.answers else []
        argv = [str(script), "--mode", self.mode, *where, *answers, json.dumps(operations)]
        return _understand(launcher.run(argv, timeout_s=TIMEOUT_S, cwd=place.home, env=homely(place.home)))


@dataclass(frozen=True)
class TypeScriptClient:
    """The official TypeScript SDK of one major version, asking for one protocol era."""

    major: int
    mode: str

    def converse(self, place: Place, operations: Sequence[Json]) -> Json:
        """Perform the operations over one connection; see `conversation` for their shape."""
        where = ["--url", place.url] if place.url else ["--stdio", json.dumps(place.argv)]
        how = [str(install.FLEET / "npm"), str(self.major), self.mode]
        return _ask(
            [str(install.node()), str(HERE / "ts_client.mjs"), *how, *where, json.dumps(operations)], place.home
        )


@dataclass(frozen=True)
class InspectorClient:
    """The MCP Inspector's command line, one connection for each request."""

    era: str

    def list_tools(self, place: Place) -> Json:
        return self._request(place, "tools/list")

    def call(self, place: Place, tool: str, arguments: Json) -> Json:
        return self._request(place, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))

    def list_offers(self, place: Place, kind: str) -> Json:
        return self._request(place, f"{kind}/list")

    def read(self, place: Place, uri: str) -> Json:
        return self._request(place, "resources/read", "--uri", uri)

    def get(self, place: Place, prompt: str, arguments: dict[str, str]) -> Json:
        pairs = [f"{name}={value}" for name, value in arguments.items()]
        return self._request(place, "prompts/get", "--prompt-name", prompt, "--prompt-args", *pairs)

    def _request(self, place: Place, method: str, *options: str) -> Json:
        where = [place.url, "--transport", "http"] if place.url else self._session_file(place)
        how = ["--protocol-era", self.era, "--method", method, *options, "-q", "--format", "json"]
        return _ask([*servers.inspector(), *where, *how], place.home)

    def _session_file(self, place: Place) -> list[str]:
        # On the Inspector's own command line, an option of the server's would be taken for one of the Inspector's.
        command, *args = place.argv
        config = servers.write_config(place.home / "inspector.json", {"server": servers.Launch(command, tuple(args))})
        return ["--config", str(config), "--server", "server"]


@dataclass(frozen=True)
class SseNodeClient:
    """The official SDK of Node.js, 1.x, over HTTP+SSE."""

    def call(self, place: Place, tool: str, arguments: Json) -> Json:
        """Connect, list, call; what was found."""
        module = servers.FLEET / "npm" / "node_modules" / "@modelcontextprotocol" / "sdk" / "dist" / "esm"
        argv = [str(servers.node()), str(HERE / "sse_client.mjs"), str(module), place.url, tool, json.dumps(arguments)]
        return _ask(argv, place.home)


def _ask(argv: Sequence[str], home: Path) -> Json:
    return _understand(
        subprocess.run(
            argv,
            cwd=home,
            env=homely(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    )


def _understand(done: "subprocess.CompletedProcess[str]") -> Json:
    said = f"{done.args[1]}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    if done.returncode:
        raise ClientFailedError(f"ended with {done.returncode}: {said}")
    try:
        answer: Json = json.loads(done.stdout)
    except ValueError:
        raise ClientFailedError(f"did not print JSON: {said}") from None
    return answer
