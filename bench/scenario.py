"""The servers behind the contenders: how many, how they are reached, whether one can be broken."""

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bench import environments, procs

BACKENDS = environments.HERE / "backends"


@dataclass(frozen=True)
class Shape:
    servers: int
    tools: int  # of each server
    back: str = "stdio"
    fragile: str = ""  # the name of the server that ``Scenario.strike`` breaks; a stdio one
    pages: int = 0  # resources of each server, 1 MB each

    @property
    def names(self) -> list[str]:
        return [f"s{number}" for number in range(self.servers)]

    @property
    def count(self) -> int:
        return self.servers * self.tools


class Scenario:
    """Running servers, described in the ``mcpServers`` form that every contender reads."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.servers: dict[str, dict[str, Any]] = {}
        self.started: list[subprocess.Popen[bytes]] = []

    async def __aenter__(self) -> "Scenario":
        self.dir = Path(tempfile.mkdtemp(prefix="bench-"))
        self.strike("")
        for name in self.shape.names:
            self.servers[name] = await self._serve() if self.shape.back == "http" else self._describe(name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for started in self.started:
            await procs.stop(started)
        shutil.rmtree(self.dir, ignore_errors=True)

    def home(self) -> Path:
        """A fresh directory with the configuration in it, for one contender."""
        home = Path(tempfile.mkdtemp(dir=self.dir))
        (home / "mcp.json").write_text(json.dumps({"mcpServers": self.servers}))
        return home

    def strike(self, fault: str) -> None:
        """How the fragile server behaves from its next start on: ``dead``, ``hang``, or healthy when empty."""
        (self.dir / "mood").write_text(fault)

    def pids(self) -> list[int]:
        return [started.pid for started in self.started]

    def _describe(self, name: str) -> dict[str, Any]:
        mood = [str(self.dir / "mood")] if name == self.shape.fragile else []
        counts = [str(self.shape.tools), str(self.shape.pages)]
        return {"command": sys.executable, "args": [str(BACKENDS / "echo_stdio.py"), *counts, *mood]}

    async def _serve(self) -> dict[str, Any]:
        port = procs.free_port()
        argv = [
            sys.executable,
            str(BACKENDS / "echo_http.py"),
            str(self.shape.tools),
            str(self.shape.pages),
            str(port),
        ]
        self.started.append(procs.start(argv, {}, self.dir, self.dir / "servers.log"))
        await procs.wait_port(port, 30)
        return {"type": "streamable-http", "url": f"http://127.0.0.1:{port}/mcp"}
