"""Newline-delimited JSON-RPC over a child's stdin and stdout, fully multiplexed."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench import procs
from bench.wire.base import McpWire, WireError, unwrap


class _Child(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.rest = b""
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.gone = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            return
        *lines, self.rest = (self.rest + data if self.rest else data).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):  # some contenders log to stdout
                self._deliver(orjson.loads(line))

    def _deliver(self, message: dict[str, Any]) -> None:
        waiter = self.waiting.pop(message.get("id", -1), None) if "method" not in message else None
        if waiter is not None and not waiter.done():
            waiter.set_result(message)

    def process_exited(self) -> None:
        self.gone = True
        for waiter in self.waiting.values():
            if not waiter.done():
                waiter.set_exception(WireError("the process ended"))
        self.waiting.clear()


class StdioWire(McpWire):
    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> None:
        self.argv, self.env, self.cwd, self.log = argv, env, cwd, log
        self.last_id = 0

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        with self.log.open("ab") as stderr:
            self.transport, self.child = await loop.subprocess_exec(
                _Child, *self.argv, env=self.env, cwd=self.cwd, stderr=stderr, start_new_session=True
            )
        self.pid = self.transport.get_pid()
        self.stdin: Any = self.transport.get_pipe_transport(0)  # uvloop's transports are no asyncio classes
        await self.handshake()

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self.child.gone:
            raise WireError("the process ended")
        self.last_id += 1
        waiter = asyncio.get_running_loop().create_future()
        self.child.waiting[self.last_id] = waiter
        self._write({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return unwrap(await waiter, method)

    async def notify(self, method: str) -> None:
        self._write({"jsonrpc": "2.0", "method": method})

    def _write(self, message: dict[str, Any]) -> None:
        self.stdin.write(orjson.dumps(message) + b"\n")

    async def close(self) -> None:
        """Close stdin as a client does, and insist only when that is ignored."""
        if self.pid is None:
            return
        family = procs.family(self.pid)
        self.stdin.close()
        await procs.end(family, lambda: self.transport.get_returncode() is not None)
        self.transport.close()
