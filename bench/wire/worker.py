"""A client library measured in its own process: it takes orders by JSON lines and times itself."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench import procs
from bench.wire.base import WireError

MARK = b"@@"  # begins a line of ours; a library may print others


class WorkerWire:
    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> None:
        self.argv, self.env, self.cwd, self.log = argv, env, cwd, log
        self.pid: int | None = None

    async def open(self) -> None:
        pipe = asyncio.subprocess.PIPE
        with self.log.open("ab") as stderr:
            self.process = await asyncio.create_subprocess_exec(
                *self.argv,
                env=self.env,
                cwd=self.cwd,
                stdin=pipe,
                stdout=pipe,
                stderr=stderr,
                start_new_session=True,
                limit=1 << 26,
            )
        self.pid = self.process.pid
        await self.order(do="open")

    async def order(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(orjson.dumps(order) + b"\n")
        while line := await self._line():
            if line.startswith(MARK):
                reply: dict[str, Any] = orjson.loads(line[len(MARK) :])
                if "error" in reply:
                    raise WireError(reply["error"])
                return reply
        raise WireError("the worker ended")

    async def _line(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.readline()

    async def list_tools(self) -> list[str]:
        names: list[str] = (await self.order(do="list"))["names"]
        return names

    async def call(self, tool: str, message: str) -> str:
        text: str = (await self.order(do="call", tool=tool, message=message))["text"]
        return text

    async def close(self) -> None:
        if self.pid is None or self.process.stdin is None:
            return
        members = procs.family(self.pid)
        self.process.stdin.close()
        await procs.end(members, lambda: self.process.returncode is not None)
