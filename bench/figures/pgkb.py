"""A knowledge base in PostgreSQL: how fast it is searched, what its index finds, and what a second worker brings.

Both teams are given the same slices in turns, five at a time: one slice is not three full batches for a worker, so that
the first and the last moments, when nobody can have enough to do, would weigh more than the work between them. All of
it is done twice, into other collections. Both processes add a slice to a third collection before, so that neither team
pays for what they load and learn once.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import environments
from bench.engines import engines
from bench.figures.kbspeed import CHUNKS, QUERIES, SLICES, prepared
from bench.goals import SUBJECT, AtLeast, Goal, Limit, Outcome, Ratio, Results, Round, Verdict
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import tell
from bench.stats import percentile

ONE = "one worker"
JUDGED = 100
AT_ONCE = 5  # slices
PASSES = 2
COLUMNS = (
    Column("documents/s", "documents_s"),
    Column("CPU s of workers", "cpu_s"),
    Column("index built in s", "index_s"),
    Column("p50 ms", "p50_ms"),
    Column("p99 ms", "p99_ms"),
    Column("recall@10", "recall"),
)


@dataclass(frozen=True)
class Recall:
    """What the index must find of what comparing every vector finds."""

    at_least: float

    def judge(self, results: Results) -> Verdict:
        found = min(round_["recall"] for round_ in results[SUBJECT])
        text = f"recall@10 against comparing every vector: {found:.3f} (goal >= {self.at_least:g})"
        return Verdict(text, Outcome.MET if found >= self.at_least else Outcome.MISSED)


GOALS: list[Goal] = [
    Limit("hybrid search, p50", "p50_ms", 25, "ms"),
    Recall(0.95),
    AtLeast(Ratio("documents added in a second, two workers against one", "documents_s", [ONE], True), 1.6),
]


class Process:
    """A process with the library, obeying one order at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, do: str, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **order}).encode() + b"\n")
        async for line in self._process.stdout:
            if line.startswith(b"@@"):
                answer: dict[str, Any] = json.loads(line[2:])
                return answer
        raise RuntimeError(f"the process ended at {do!r}")


@asynccontextmanager
async def process(url: str, corpus: Path) -> AsyncIterator[Process]:
    python, worker = str(environments.project_python()), str(environments.HERE / "workers" / "pg_kb.py")
    pipe = asyncio.subprocess.PIPE
    made = await asyncio.create_subprocess_exec(
        python, worker, url, str(corpus), stdin=pipe, stdout=pipe, limit=1 << 24, env=dict(os.environ)
    )
    assert made.stdin is not None
    try:
        up = Process(made)
        await up.ask("open")
        yield up
    finally:
        made.stdin.close()
        await made.wait()


async def measure(options: Options) -> Report:
    chunks = options.chunks or CHUNKS
    corpus = prepared(chunks, options.data)
    async with engines() as found, AsyncExitStack() as stack:
        pair = [await stack.enter_async_context(process(found.postgres, corpus)) for _ in range(2)]
        teams = {ONE: ("one", pair[:1]), SUBJECT: ("two", pair)}
        results: Results = {name: [] for name in teams}
        await _fill("warm", pair, [0])
        for number, first in enumerate([*range(0, SLICES, AT_ONCE)] * PASSES):
            parts = list(range(first, first + AT_ONCE))
            suffix = "" if number * AT_ONCE < SLICES else "-again"
            for name in [*teams][:: 1 if number % 2 else -1]:
                collection, team = teams[name]
                results[name].append(await _fill(collection + suffix, team, parts))
            tell(f"  round {number + 1}/{SLICES // AT_ONCE * PASSES}")
        for name, (collection, team) in teams.items():
            built = await team[0].ask("index", collection=collection)
            for round_ in results[name]:
                round_["index_s"] = built["s"]
        for round_ in results[SUBJECT]:
            round_.update(await _search(pair[0], "two"))
        recall = (await pair[0].ask("recall", collection="two", count=JUDGED))["recall"]
        for round_ in results[SUBJECT]:
            round_["recall"] = recall
    title = f"a knowledge base of {chunks:,} passages in PostgreSQL, top 10 with text"
    notes = ["both collections are filled in slices that take turns; searched is the one of two workers"]
    return Report(title, COLUMNS, results, GOALS, notes)


async def _fill(collection: str, team: list[Process], parts: list[int]) -> Round:
    """Everything is noted first; the clock counts from there until all of it is stored."""
    count = (await team[0].ask("put", collection=collection, parts=parts))["documents"]
    done = await asyncio.gather(*(each.ask("work", collection=collection) for each in team))
    if sum(each["documents"] for each in done) != count:
        raise RuntimeError(f"{count} documents were to be added, {done}")
    return {"documents_s": count / max(each["s"] for each in done), "cpu_s": sum(each["cpu_s"] for each in done)}


async def _search(up: Process, collection: str) -> Round:
    await up.ask("search", collection=collection, first=0, count=20)
    times = (await up.ask("search", collection=collection, first=0, count=QUERIES))["times_ms"]
    return {"p50_ms": percentile(times, 0.5), "p99_ms": percentile(times, 0.99)}
