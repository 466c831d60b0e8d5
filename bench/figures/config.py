"""What it costs to look at a project: its configuration over REST, and every page, with nothing started for it."""

import http.client
import json
import secrets
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import environments, procs
from bench.goals import SUBJECT, Limit, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import NobodyLeftError, visit
from bench.running import LOGS
from bench.stats import percentile

SERVERS, TOOLS = 50, 40
START_LIMIT_S = 30.0
WARM_UP = 5
ANSWER_LIMIT_S = 10.0
STREAM = "text/event-stream"

COLUMNS = (
    Column("p50 ms", "p50_ms"),
    Column("p99 ms", "p99_ms"),
    Column("unchanged p50 ms", "same_ms"),
    Column("kB", "kb"),
    Column("processes started", "started"),
    Column("slowest page p50 ms", "page_ms"),
    Column("largest page kB", "page_kb"),
)
GOALS = [
    Limit("project configuration, p50", "p50_ms", 5, "ms"),
    Limit("processes started by looking", "started", 0, "processes"),
    Limit("slowest page, p50", "page_ms", 100, "ms"),
    Limit("largest page, as transferred", "page_kb", 100, "kB"),
]
NOTES = ["milliseconds as a client on this machine waits for the whole answer, so the server needed less"]


@dataclass(frozen=True)
class Served:
    """A toolcrib that serves the made-up project."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    project: str
    pages: tuple[str, ...]
    name: str = SUBJECT

    @property
    def processes(self) -> int:
        return len(procs.family(self.process.pid))


async def measure(options: Options) -> Report:
    rounds = options.rounds or (1 if options.quick else 3)
    count = 50 if options.quick else 300
    slowest: dict[str, float] = {}
    async with _served() as served:
        results = await visit([served], rounds, lambda one: _round(one, count, slowest))
        told = [f"{page}: {ms:.3g} ms" for page, ms in sorted(slowest.items(), key=lambda pair: -pair[1])[:5]]
    title = f"{SERVERS} servers and {SERVERS * TOOLS} tools on record, {count} answers a round, {rounds} rounds"
    first = f"the very first answer, from files nobody had read yet: {results[SUBJECT][0]['first_ms']:.3g} ms"
    return Report(title, COLUMNS, results, GOALS, [*NOTES, first, f"pages ({len(served.pages)}): {', '.join(told)}"])


@asynccontextmanager
async def _served() -> AsyncIterator[Served]:
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        home = Path(place)
        made = _make_up(home)
        port, token = procs.free_port(), secrets.token_hex(32)
        LOGS.mkdir(parents=True, exist_ok=True)
        argv = [str(environments.toolcrib_program()), "serve", "--port", str(port)]
        env = environments.variables(home) | {"TOOLCRIB_TOKEN": token}
        process = procs.start(argv, env, home / "project", LOGS / "config.log")
        try:
            await procs.wait_port(port, START_LIMIT_S)
            yield Served(process, port, token, made["id"], tuple(made["pages"]))
        finally:
            await procs.stop(process)


def _make_up(home: Path) -> Mapping[str, Any]:
    worker = environments.HERE / "workers" / "configured.py"
    argv = [str(environments.project_python()), str(worker), str(home), str(SERVERS), str(TOOLS)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise NobodyLeftError(done.stderr.strip().splitlines()[-1])
    made: Mapping[str, Any] = json.loads(done.stdout)
    return made


async def _round(served: Served, count: int, slowest: dict[str, float]) -> Round:
    """Blocks on purpose: one client, one connection, one request after the other."""
    before = served.processes
    with _connection(served) as client:
        address = f"/api/v1/projects/{served.project}/configuration"
        first = client.get(address)
        tools = json.loads(first.body)["configuration"]["availableTools"]
        if len(tools) < SERVERS * TOOLS:
            raise RuntimeError(f"{len(tools)} tools instead of at least {SERVERS * TOOLS}")
        times = [client.get(address).ms for _ in range(WARM_UP + count)][WARM_UP:]
        same = [client.get(address, {"if-none-match": first.etag}).ms for _ in range(count)]
        pages = _visit_pages(client, served.pages, max(5, count // 30), slowest)
    return {
        "p50_ms": percentile(times, 0.5),
        "p99_ms": percentile(times, 0.99),
        "first_ms": first.ms,
        "same_ms": percentile(same, 0.5),
        "kb": len(first.body) / 1e3,
        "started": served.processes - before,
        **pages,
    }


def _visit_pages(client: "_Client", pages: tuple[str, ...], count: int, slowest: dict[str, float]) -> Round:
    """Every page a few times; streams have no end to wait for."""
    largest = 0
    for page in pages:
        answers = [client.get(page, {"accept": "text/html"}) for _ in range(count)]
        if answers[0].status >= 500:
            raise RuntimeError(f"{page} answered {answers[0].status}")
        middle = percentile([answer.ms for answer in answers], 0.5)
        slowest[page] = max(slowest.get(page, 0.0), middle)
        largest = max(largest, len(answers[0].body))
    return {"page_ms": max(slowest.values(), default=0.0), "page_kb": largest / 1e3}


@dataclass(frozen=True)
class _Got:
    status: int
    body: bytes
    etag: str
    ms: float


@contextmanager
def _connection(served: Served) -> Iterator["_Client"]:
    client = _Client(served)
    try:
        yield client
    finally:
        client.close()


class _Client:
    """One connection that is kept."""

    def __init__(self, served: Served) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", served.port, timeout=ANSWER_LIMIT_S)
        self._headers = {"authorization": f"Bearer {served.token}", "accept-encoding": "gzip"}

    def get(self, path: str, more: Mapping[str, str] | None = None) -> _Got:
        began = time.perf_counter()
        self._http.request("GET", path, headers={**self._headers, **(more or {})})
        answer = self._http.getresponse()
        if (answer.getheader("content-type") or "").startswith(STREAM):
            body = b""
            self._http.close()  # opened again by the next request
        else:
            body = answer.read()
        ms = (time.perf_counter() - began) * 1e3
        return _Got(answer.status, body, answer.getheader("etag") or "", ms)

    def close(self) -> None:
        self._http.close()
