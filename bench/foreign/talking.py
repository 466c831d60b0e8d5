"""A plain MCP client over stdio, in either era: it asks, and gives back what was answered as it was."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

LINE_MAX = 64 * 1024 * 1024
START_S = 90.0
CLIENT = {"name": "foreign-bench", "version": "1"}
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class SilentError(RuntimeError):
    """The server did not answer, or ended."""


@dataclass
class Talk:
    """One connection to one server."""

    process: asyncio.subprocess.Process
    is_stateless: bool
    greeting: Json = field(default_factory=dict)
    _waiting: dict[int, "asyncio.Future[Json]"] = field(default_factory=dict)
    _count: int = 0

    async def greet(self) -> None:
        """Agree on a revision; what the server says of itself is in ``greeting``."""
        if self.is_stateless:
            answer = await self.ask("server/discover", {}, START_S)
        else:
            params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
            answer = await self.ask("initialize", params, START_S)
            self._write({"method": "notifications/initialized"})
        if "result" not in answer:
            raise SilentError(f"no greeting: {answer.get('error')}")
        self.greeting = answer["result"]

    async def ask(self, method: str, params: Json, limit_s: float) -> Json:
        """The answer: an object with ``result`` or ``error``."""
        self._count += 1
        waiter = self._waiting[self._count] = asyncio.get_running_loop().create_future()
        said = {**params, "_meta": _META} if self.is_stateless else params
        self._write({"id": self._count, "method": method, "params": said})
        try:
            return await asyncio.wait_for(waiter, limit_s)
        except TimeoutError:
            raise SilentError(f"{method} was not answered within {limit_s:g} s") from None

    async def list_all(self, method: str, kind: str, limit_s: float) -> Json:
        """Every page of a list, as one answer."""
        entries: list[Json] = []
        cursor: Json = {}
        while True:
            answer = await self.ask(method, cursor, limit_s)
            if "result" not in answer:
                return answer
            entries += answer["result"].get(kind, [])
            if not answer["result"].get("nextCursor"):
                return {"result": {kind: entries}}
            cursor = {"cursor": answer["result"]["nextCursor"]}

    async def read(self) -> None:
        """Take in what the server says, until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict):
                    self._hear(message)
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(SilentError("the server ended"))

    def _hear(self, message: Json) -> None:
        if "method" in message:
            if "id" in message:  # a question of the server, which this client cannot answer
                self._write({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            return
        waiter = self._waiting.pop(message.get("id", 0), None)
        if waiter is not None and not waiter.done():
            waiter.set_result({key: message[key] for key in ("result", "error") if key in message})

    def _write(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@contextlib.asynccontextmanager
async def talking(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, *, is_stateless: bool = False
) -> AsyncIterator[Talk]:
    """A greeted server, in a process group that ends with the block."""
    log = (cwd / "stderr.log").open("ab")
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=env,
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
        limit=LINE_MAX,
        start_new_session=True,
    )
    talk = Talk(process, is_stateless)
    reading = asyncio.create_task(talk.read())
    try:
        await talk.greet()
        yield talk
    finally:
        await _end(process)
        await asyncio.gather(reading, return_exceptions=True)
        log.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Its input ends, so that it can end what it started; then its group is told, then made to."""
    assert process.stdin is not None
    process.stdin.close()
    for insist in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, insist)
    await process.wait()
