"""Which features of the protocol pass a gateway, for every pair of eras: the table of ``docs/passthrough.md``."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import environments, procs
from bench.environments import HERE
from bench.goals import SUBJECT, Limit, Results
from bench.options import Options
from bench.passthrough.page import NO, NOT_THERE, PAIRS, YES, Cell, Matrix, Pair, render, why_not_there
from bench.report import Column, Report

PAGE = environments.ROOT / "docs" / "passthrough.md"
LOGS = environments.CACHE / "logs"
READY_S, LIMIT_S = 30.0, 900.0
COLUMNS = tuple(Column(f"{client} > {server}", f"{client} {server}") for client, server in PAIRS)
GOALS = [Limit("features that toolcrib does not pass, in all four pairs", "lost", 0, "cells")]

Argv = list[str]


@dataclass(frozen=True)
class Behind:
    """The server of one run: as a command, and as an address."""

    command: Argv
    url: str


@dataclass(frozen=True)
class Front:
    """How one program stands in front of a server; ``http`` serves a port, ``stdio`` is started by the client."""

    name: str
    versions: str
    http: Callable[[Behind, Path, int], Argv] | None = None
    stdio: Callable[[Behind], Argv] | None = None


def _toolcrib(behind: Behind, home: Path, port: int) -> Argv:
    config = home / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"tea": {"url": behind.url}}}))
    serve = ["serve", "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--no-prefix"]
    return [str(environments.toolcrib_program()), *serve]


def _fastmcp(behind: Behind, home: Path, port: int) -> Argv:
    del home
    python = environments.ready("fastmcp") / "bin" / "python"
    return [str(python), str(HERE / "launchers" / "fastmcp_front.py"), behind.url, str(port)]


def _mcp_proxy(behind: Behind, home: Path, port: int) -> Argv:
    del home
    program = environments.ready("mcp_proxy") / "bin" / "mcp-proxy"
    return [str(program), "--log-level", "ERROR", "--port", str(port), "--", *behind.command]


def _supergateway(behind: Behind, home: Path, port: int) -> Argv:
    del home
    stdio = ["--stdio", " ".join(behind.command), "--outputTransport", "streamableHttp", "--stateful"]
    return [_node("supergateway"), *stdio, "--port", str(port), "--logLevel", "none"]


def _mcp_remote(behind: Behind) -> Argv:
    return [_node("mcp-remote"), behind.url, "--allow-http", "--transport", "http-only", "--protocol", "auto"]


def _node(name: str) -> str:
    return str(environments.ready_node() / "node_modules" / ".bin" / name)


FRONTS = (
    Front(SUBJECT, "", http=_toolcrib),
    Front("FastMCP proxy", "fastmcp.txt", http=_fastmcp),
    Front("mcp-proxy", "mcp_proxy.txt", http=_mcp_proxy),
    Front("mcp-remote", "package.json", stdio=_mcp_remote),
    Front("supergateway", "package.json", http=_supergateway),
)


async def measure(options: Options) -> Report:
    fronts = [front for front in FRONTS if not options.only or front.name in options.only]
    cells: dict[tuple[str, Pair, str], Cell] = {}
    with tempfile.TemporaryDirectory(prefix="bench-passthrough-") as folder:
        for found in await asyncio.gather(*(_ask_all(front, Path(folder)) for front in fronts)):
            cells |= found
    features = tuple(dict.fromkeys(feature for _, _, feature in cells))
    matrix = Matrix(features, tuple(front.name for front in fronts), cells, _versions(fronts))
    if len(fronts) == len(FRONTS):
        PAGE.write_text(render(matrix))
    return Report("features that pass, by the eras of client > server", COLUMNS, _results(matrix), GOALS, _lost(matrix))


def _results(matrix: Matrix) -> Results:
    rows: Results = {}
    for name in matrix.contenders:
        counts = {f"{pair[0]} {pair[1]}": float(matrix.count(name, pair)[0]) for pair in PAIRS}
        lost = sum(total - passed for passed, total in (matrix.count(name, pair) for pair in PAIRS))
        rows[name] = [counts | {"lost": float(lost)}]
    return rows


def _lost(matrix: Matrix) -> list[str]:
    return [
        f"{name}, {client} client, {server} server, {feature}: {cell.reason}"
        for (name, (client, server), feature), cell in matrix.cells.items()
        if name == SUBJECT and cell.said == NO
    ]


def _versions(fronts: Sequence[Front]) -> str:
    files = dict.fromkeys(["sdk.txt", *(front.versions for front in fronts if front.versions)])
    named = dict.fromkeys(version for file in files for version in environments.pinned(file))
    return ", ".join(version for version in named if not version.startswith("mcp-hub"))


async def _ask_all(front: Front, folder: Path) -> dict[tuple[str, Pair, str], Cell]:
    cells: dict[tuple[str, Pair, str], Cell] = {}
    for pair in PAIRS:
        found = await _ask(front, pair, Path(tempfile.mkdtemp(dir=folder)))
        cells |= {(front.name, pair, feature): cell for feature, cell in found.items()}
    return cells


async def _ask(front: Front, pair: Pair, home: Path) -> dict[str, Cell]:
    """One program between one client and one server."""
    print(f"{front.name}: {pair[0]} client, {pair[1]} server", flush=True)
    async with _behind(pair[1], home) as behind, _reached(front, behind, home) as target:
        problems = await _probe(pair, target, home)
    return {feature: _cell(feature, pair, problem) for feature, problem in problems.items()}


def _cell(feature: str, pair: Pair, problem: str) -> Cell:
    if reason := why_not_there(feature, pair):
        return Cell(NOT_THERE, reason)
    return Cell(NO, problem.replace("|", "/")) if problem else Cell(YES)


@contextlib.asynccontextmanager
async def _behind(era: str, home: Path) -> AsyncIterator[Behind]:
    python = str(environments.ready("sdk") / "bin" / "python")
    program, port = [python, str(HERE / "passthrough" / "server.py"), era], procs.free_port()
    async with _running([*program, str(port)], port, home, "server"):
        yield Behind([*program, "stdio", "--alone"], f"http://127.0.0.1:{port}/mcp")


@contextlib.asynccontextmanager
async def _reached(front: Front, behind: Behind, home: Path) -> AsyncIterator[str]:
    if front.stdio is not None:
        yield json.dumps(front.stdio(behind))
        return
    assert front.http is not None, "one of the two"
    port = procs.free_port()
    async with _running(front.http(behind, home, port), port, home, front.name):
        yield f"http://127.0.0.1:{port}/mcp"


@contextlib.asynccontextmanager
async def _running(argv: Argv, port: int, home: Path, name: str) -> AsyncIterator[None]:
    LOGS.mkdir(parents=True, exist_ok=True)
    started = procs.start(argv, environments.variables(home), home, LOGS / f"passthrough {name}.log")
    try:
        with contextlib.suppress(TimeoutError):  # then every probe says that it finds nobody
            await procs.wait_port(port, READY_S)
        yield
    finally:
        await procs.stop(started)


async def _probe(pair: Pair, target: str, home: Path) -> dict[str, str]:
    """What is wrong with each feature, empty if nothing is."""
    python = str(environments.ready("sdk") / "bin" / "python")
    argv = [python, str(HERE / "passthrough" / "probes.py"), pair[0], target, pair[1]]
    with (LOGS / "passthrough probes.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *argv, env=environments.variables(home), cwd=home, stdout=asyncio.subprocess.PIPE, stderr=log
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    found = [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]
    return {each["feature"]: each["problem"] for each in found}
