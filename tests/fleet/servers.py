"""How each real server of the fleet is started, as values a test can write into an ``mcpServers`` file.

Rule: a launch names only what is installed under ``.cache/fleet``; nothing is looked up on ``PATH``.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fleet.install import FLEET, env_python, node
from tests.fleet.running import accepts_connections, free_port, running


@dataclass(frozen=True)
class Launch:
    """A stdio server: what to start, and what to add to its environment."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def argv(self) -> list[str]:
        return [self.command, *self.args]

    def entry(self) -> dict[str, Any]:
        """The launch as an ``mcpServers`` entry."""
        return {"command": self.command, "args": list(self.args), "env": dict(self.env)}


@dataclass(frozen=True)
class Remote:
    """A server that is already there, behind an address; with a transport, if its entry is to name one."""

    url: str
    transport: str = ""

    def entry(self) -> dict[str, Any]:
        """The address as an ``mcpServers`` entry."""
        return {"url": self.url} | ({"type": self.transport} if self.transport else {})


def everything() -> Launch:
    """The reference server with one tool for each feature of the protocol (handshake era)."""
    return _npm("server-everything", "stdio")


def filesystem(root: Path) -> Launch:
    """Reads and writes files below ``root``; every tool has an output schema."""
    return _npm("server-filesystem", str(root))


def memory(file: Path) -> Launch:
    """A knowledge graph kept in ``file``."""
    return _npm("server-memory", env={"MEMORY_FILE_PATH": str(file)})


def time() -> Launch:
    """Time zone conversion, on SDK 2.x (speaks both eras)."""
    return Launch(str(FLEET / "envs" / "time" / "bin" / "mcp-server-time"), ("--local-timezone", "UTC"))


def git(repository: Path) -> Launch:
    """Git over one repository, on SDK 2.x (speaks both eras)."""
    return Launch(str(FLEET / "envs" / "git" / "bin" / "mcp-server-git"), ("--repository", str(repository)))


def calculator() -> Launch:
    """Arithmetic, on SDK 1.x: the oldest Python stack the fleet covers."""
    return Launch(str(FLEET / "envs" / "calculator" / "bin" / "mcp-server-calculator"))


@contextlib.contextmanager
def everything_over_http() -> Iterator[Remote]:
    """The reference server on a free port, for as long as the block runs."""
    port = free_port()
    argv = [*_npm("server-everything").argv, "streamableHttp"]
    with running(argv, env={**os.environ, "PORT": str(port)}, ready=lambda _: accepts_connections(port)):
        yield Remote(f"http://127.0.0.1:{port}/mcp")


@contextlib.contextmanager
def everything_over_sse() -> Iterator[Remote]:
    """The same over HTTP+SSE, the transport of 2024-11-05."""
    port = free_port()
    argv = [*_npm("server-everything").argv, "sse"]
    with running(argv, env={**os.environ, "PORT": str(port)}, ready=lambda _: accepts_connections(port)):
        yield Remote(f"http://127.0.0.1:{port}/sse", "sse")


@contextlib.contextmanager
def over_http(major: int, script: Path) -> Iterator[str]:
    """A server of the official SDK that takes the port it shall listen on; its URL."""
    port = free_port()
    with running([sdk_python(major), str(script), str(port)], ready=lambda _: accepts_connections(port)):
        yield f"http://127.0.0.1:{port}/mcp"


@contextlib.contextmanager
def over_sse(script: Path) -> Iterator[Remote]:
    """A server of SDK 1.x that is given the port to serve HTTP+SSE on."""
    port = free_port()
    with running([sdk_python(1), str(script), str(port)], ready=lambda _: accepts_connections(port)):
        yield Remote(f"http://127.0.0.1:{port}/sse", "sse")


def sdk_python(major: int) -> str:
    """The interpreter that has the official SDK of that major version."""
    return str(env_python(f"sdk{major}"))


def inspector() -> list[str]:
    """The start of every MCP Inspector command line."""
    build = FLEET / "npm" / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build"
    return [str(node()), str(build / "index.js"), "--cli"]


def write_config(path: Path, servers: Mapping[str, Launch | Remote]) -> Path:
    """Write the ``mcpServers`` file most MCP programs share, and return its path."""
    path.write_text(json.dumps({"mcpServers": {name: server.entry() for name, server in servers.items()}}, indent=2))
    return path


def _npm(package: str, *args: str, env: Mapping[str, str] | None = None) -> Launch:
    script = FLEET / "npm" / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"
    return Launch(str(node()), (str(script), *args), env or {})
