"""One contender, up and reachable."""

import asyncio
import subprocess
import time
from pathlib import Path
from typing import Any

from bench import environments, procs
from bench.contenders import Argv, Contender, Place, Speaks
from bench.scenario import Scenario
from bench.wire.base import Wire, WireError
from bench.wire.http import HttpWire
from bench.wire.rest import RestWire
from bench.wire.sse import SseWire
from bench.wire.stdio import StdioWire
from bench.wire.worker import WorkerWire

LOGS = environments.CACHE / "logs"
DELAY_S = 0.01  # between two attempts to reach a starting contender


class Running:
    """Starts a contender in ``home`` and holds the wire to it."""

    def __init__(self, contender: Contender, scenario: Scenario, home: Path, front: str) -> None:
        self.contender, self.scenario, self.home, self.front = contender, scenario, home, front
        self._variables = environments.variables(home)
        self.process: subprocess.Popen[bytes] | None = None
        self.wire: Wire | None = None
        self.began = 0.0

    async def start(self, limit_s: float = 90.0) -> None:
        """Launch and finish the handshake; ``began`` is the moment of the launch."""
        LOGS.mkdir(parents=True, exist_ok=True)
        port = procs.free_port()
        argv = self._argv(port)  # installs the contender when it is not there yet
        self.began = time.perf_counter()
        try:
            await asyncio.wait_for(self._open(argv, port), limit_s)
        except TimeoutError:
            raise WireError(f"no handshake in {limit_s:.0f} s; see {self._log}") from None

    async def stop(self) -> None:
        if self.wire is not None:
            await self.wire.close()
        if self.process is not None:
            await procs.stop(self.process)

    @property
    def name(self) -> str:
        return self.contender.name

    @property
    def reach(self) -> Wire:
        assert self.wire is not None, "not started"
        return self.wire

    def pids(self) -> tuple[list[int], list[int]]:
        """The contender's own processes, and those of the servers behind it."""
        pid = self.process.pid if self.process is not None else self.reach.pid
        if self.contender.speaks is Speaks.DIRECT or pid is None:
            return [], [pid] if pid is not None else self.scenario.pids()
        own, behind = procs.split(pid)
        return own, behind or self.scenario.pids()

    def seconds(self) -> float:
        """Since the launch."""
        return time.perf_counter() - self.began

    @property
    def _log(self) -> Path:
        return LOGS / f"{self.name}.log"

    def _argv(self, port: int) -> Argv:
        if self.contender.speaks is Speaks.DIRECT:
            server = self._first_server
            return [] if "url" in server else [server["command"], *server["args"]]
        command = self.contender.command(self.front)
        assert command is not None, "chosen only when it can be reached"
        return command(Place(self.home, port, self._first_server.get("url", "")))

    async def _open(self, argv: Argv, port: int) -> None:
        if not argv:
            self.wire = HttpWire(self._first_server["url"])
            await self.wire.open()
        elif self.front == "stdio" or self.contender.speaks in (Speaks.WORKER, Speaks.DIRECT):
            make = WorkerWire if self.contender.speaks is Speaks.WORKER else StdioWire
            self.wire = make(argv, self._variables, self.home, self._log)
            await self.wire.open()
        else:
            self.process = procs.start(argv, self._variables, self.home, self._log)
            self.wire = await self._knock(f"http://127.0.0.1:{port}{self.contender.path}")

    async def _knock(self, url: str) -> Wire:
        """Try again until the handshake succeeds or the process is gone."""
        assert self.process is not None
        while True:
            wire = self._http_wire(url)
            try:
                await wire.open()
            except (OSError, WireError):
                if self.process.poll() is not None:
                    raise WireError(f"ended with code {self.process.returncode}; see {self._log}") from None
                await asyncio.sleep(DELAY_S)
            else:
                return wire

    def _http_wire(self, url: str) -> Wire:
        if self.contender.speaks is Speaks.REST:
            return RestWire(url, list(self.scenario.servers))
        return SseWire(url) if self.contender.speaks is Speaks.SSE else HttpWire(url)

    @property
    def _first_server(self) -> dict[str, Any]:
        return self.scenario.servers["s0"]
