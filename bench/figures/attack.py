"""Everything that attackers tried so far, against one running toolcrib, all at once; every case is counted."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bench import environments
from bench.attack import over_http, over_mcp
from bench.attack.cases import Family, Tally, run_family
from bench.attack.target import HOSTILE, Target, a_target, survivors
from bench.attack.wire import call_tool
from bench.goals import SUBJECT, Limit, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import tell, visit

AT_LEAST = 25_000
AT_ONCE = 4
"""Cases of one family at the same time; all families run together."""
SILENT = 1000
GONE_S = 10.0
KILL_EVERY_S = 0.5
MOST_NAMED = 30
FAMILIES: dict[str, tuple[Family, int]] = {
    "broken requests": (over_http.broken_requests, 6000),
    "wrong tokens": (over_http.wrong_tokens, 4000),
    "foreign pages": (over_http.foreign_pages, 2000),
    "broken messages": (over_mcp.broken_messages, 5000),
    "odd arguments": (over_mcp.odd_arguments, 2500),
    "beyond grants": (over_mcp.beyond_grants, 2500),
    "paths that lead out": (over_mcp.paths_that_lead_out, 1600),
    "addresses within": (over_mcp.addresses_within, 400),
    "evil servers": (over_mcp.evil_servers, 150),
    "evil libraries": (over_mcp.evil_libraries, 300),
    "costly checks": (over_mcp.costly_checks, 36),
    "leaky words": (over_mcp.leaky_words, 600),
}
AT_REST = 3000
COLUMNS = (
    Column("cases", "tried"),
    Column("crashes", "crash"),
    Column("hangs", "hang"),
    Column("leaks", "leak"),
    Column("passed", "passed"),
    Column("longest gap, ms", "gap_ms"),
    Column("processes left", "left"),
)
GOALS = [
    Limit(f"cases short of {AT_LEAST:,}", "short", 0, "cases"),
    Limit("crashes", "crash", 0, "cases"),
    Limit("hangs", "hang", 0, "cases"),
    Limit("leaks", "leak", 0, "cases"),
    Limit("attacks that got past", "passed", 0, "cases"),
    Limit("longest gap of the event loop", "gap_ms", 250, "ms"),
    Limit("processes left behind", "left", 0, "processes"),
]


@dataclass(frozen=True)
class Subject:
    name: str


async def measure(options: Options) -> Report:
    notes: list[str] = []
    share = 0.02 if options.quick else 1.0
    goals = GOALS[1:] if options.quick else GOALS
    results = await visit([Subject(SUBJECT)], 1, lambda _: _round(options.seed, share, notes))
    return Report(f"attacks on a running toolcrib, seed {options.seed}", COLUMNS, results, goals, notes)


async def _round(seed: int, share: float, notes: list[str]) -> Round:
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="toolcrib-attack-") as folder:
        home = Path(folder)
        async with a_target(home, evil_modes()) as target:
            await warm(target)
            target.forget_gaps()
            async with silent_connections(target, max(1, int(SILENT * share)), tally), kills(home):
                await attack(target, seed, share, tally)
            gap_ms, alive = target.longest_gap_ms, _is_there(target.pid)
            await warm(target)
        left = await _left(home)
    tally.tried["files at rest"], faults = at_rest(max(1, int(AT_REST * share)), seed)
    tally.findings += [("files at rest", "crash", fault) for fault in faults]
    tally.findings += [] if alive else [("all", "crash", "toolcrib itself ended")]
    tried = sum(tally.tried.values())
    notes[:] = [", ".join(f"{family} {count:,}" for family, count in tally.tried.items())]
    notes += [f"{family}, {kind}: {words}"[:400] for family, kind, words in tally.findings[:MOST_NAMED]]
    kinds = {kind: tally.count(kind) for kind in ("crash", "hang", "leak", "passed")}
    return {**kinds, "tried": tried, "short": max(0, AT_LEAST - tried), "gap_ms": gap_ms, "left": len(left)}


async def attack(target: Target, seed: int, share: float, tally: Tally) -> None:
    """All families together, each with its own sequence of chances."""
    async with asyncio.TaskGroup() as group:
        for name, (family, count) in FAMILIES.items():
            chosen = random.Random(f"{seed} {name}")
            cases = family(target, chosen, max(1, int(count * share)))
            group.create_task(_told(name, run_family(name, cases, target, tally, AT_ONCE)))


async def _told(name: str, work: "asyncio.Future[None]") -> None:
    await work
    tell(f"  done: {name}")


def evil_modes() -> list[str]:
    """Every way the tests' servers misbehave."""
    listing = "import servers, json; print(json.dumps(sorted(servers.MODES.keys() - {'proper'})))"
    done = subprocess.run([sys.executable, "-c", listing], cwd=HOSTILE, capture_output=True, text=True, check=True)
    return [str(mode) for mode in json.loads(done.stdout)]


async def warm(target: Target) -> None:
    """A call that must work, before and after the attacks."""
    for _ in range(20):
        reply = await call_tool(target.port, target.tokens["owner"], "good_0__echo", {"text": "still here"})
        if b"still here" in reply.body and reply.status == 200:
            return
        await asyncio.sleep(0.5)
    raise RuntimeError(f"the healthy server does not answer: {reply.raw[:500]!r}")


@contextlib.asynccontextmanager
async def silent_connections(target: Target, count: int, tally: Tally) -> AsyncIterator[None]:
    """As many connections as wished that send nothing, or half a request, while everybody else works."""
    held: list[asyncio.StreamWriter] = []
    for number in range(count):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", target.port)
        except OSError:
            continue
        if number % 2:
            writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
        held.append(writer)
        tally.tried["silent connections"] += 1
    try:
        yield
    finally:
        for writer in held:
            writer.close()


@contextlib.asynccontextmanager
async def kills(home: Path) -> AsyncIterator[None]:
    """Healthy servers are killed all the while."""

    async def kill() -> None:
        for number in range(10_000):
            await asyncio.sleep(KILL_EVERY_S)
            pids = (home / "pids" / f"good_{1 + number % 2}").read_text().split()
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(int(pids[-1]), signal.SIGKILL)

    task = asyncio.create_task(kill())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def at_rest(count: int, seed: int) -> tuple[int, list[str]]:
    """Broken files, read by toolcrib's own readers."""
    script = Path(over_http.__file__).with_name("files_at_rest.py")
    argv = [str(environments.project_python()), str(script), str(count), str(seed)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return found["tried"], found["faults"]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _left(home: Path) -> list[int]:
    for _ in range(int(GONE_S / 0.1)):
        if not survivors(home):
            return []
        await asyncio.sleep(0.1)
    return survivors(home)
