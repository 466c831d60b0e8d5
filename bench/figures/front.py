"""The HTTP server in bad company: thousands of requests at once on one connection, a thousand that say nothing."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import environments
from bench.contenders import BEFORE
from bench.goals import SUBJECT, AtMost, Goal, Limit, Ratio, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import visit

PIPELINED = 20_000
SILENT = 1_000
FRESH = 20
PATIENCE_S = 1.0
"""How long a fresh client waits among the silent ones before it counts as not served."""

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 256\r\n\r\n" + b"x" * 256
WATCH = b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n"

COLUMNS = (
    Column("loop held ms, 20,000 pipelined", "gap_ms"),
    Column("CPU µs/request, pipelined", "pipelined_us"),
    Column("CPU µs/request, one by one", "request_us"),
    Column("of 20 not served among 1,000 silent", "unserved"),
    Column("served after ms", "served_ms"),
)
VS_BEFORE = Ratio("CPU per request vs the build before", "request_us", ["before"])


@dataclass(frozen=True)
class Build:
    name: str
    python: Path


class Connection:
    """A socket, and just enough HTTP to read answers with a length."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: bytes) -> bytes:
        self.writer.write(request)
        return await self.answer()

    async def answer(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        return await self.reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))


async def measure(options: Options) -> Report:
    rounds = options.rounds or (2 if options.quick else 7)
    builds = [Build(SUBJECT, environments.project_python())]
    if before := os.environ.get(BEFORE):
        builds.append(Build("before", Path(before).parent / "python"))
    results = await visit(builds, rounds, _round)
    goals: list[Goal] = [
        Limit("loop held by 20,000 pipelined requests", "gap_ms", 50, "ms"),
        Limit("fresh clients not served among 1,000 silent ones", "unserved", 0, "of 20"),
        *([AtMost(VS_BEFORE, 1.05)] if before else []),
    ]
    notes = ["the loop is watched in CPU time of its thread, so that other work on the machine does not count"]
    return Report(f"the HTTP server in bad company, {rounds} rounds", COLUMNS, results, goals, notes)


async def _round(build: Build) -> Round:
    async with _served(build) as port, AsyncExitStack() as stack:
        watcher = await stack.enter_async_context(_connected(port))
        request_us = await _one_by_one(port, watcher)
        return {"request_us": request_us, **await _pipelined(port, watcher), **await _among_silent(port)}


@asynccontextmanager
async def _served(build: Build) -> AsyncIterator[int]:
    argv = [str(build.python), str(environments.HERE / "workers" / "front.py")]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


async def _watched(watcher: Connection) -> dict[str, float]:
    found: dict[str, float] = json.loads(await watcher.ask(WATCH))
    return found


async def _one_by_one(port: int, watcher: Connection, count: int = 10_000) -> float:
    async with _connected(port) as client:
        for _ in range(200):
            await client.ask(POST)
        await _watched(watcher)
        for _ in range(count):
            await client.ask(POST)
    return (await _watched(watcher))["cpu_ms"] * 1e3 / count


async def _pipelined(port: int, watcher: Connection) -> Round:
    await _watched(watcher)
    async with _connected(port) as client:
        client.writer.write(GET * PIPELINED)
        for _ in range(PIPELINED):
            await client.answer()
    found = await _watched(watcher)
    return {"gap_ms": found["gap_ms"], "pipelined_us": found["cpu_ms"] * 1e3 / PIPELINED}


async def _among_silent(port: int) -> Round:
    unserved, waited = 0, []
    async with AsyncExitStack() as stack:
        for _ in range(SILENT):
            await stack.enter_async_context(_connected(port))
        for _ in range(FRESH):
            began = time.perf_counter()
            try:
                async with asyncio.timeout(PATIENCE_S), _connected(port) as fresh:
                    unserved += await fresh.ask(POST) != b"x" * 256
            except (TimeoutError, OSError, asyncio.IncompleteReadError):
                unserved += 1
            waited.append(time.perf_counter() - began)
    return {"unserved": unserved, "served_ms": max(waited) * 1e3}
