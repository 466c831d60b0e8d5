"""The official SDK's interaction tests, directly and through toolcrib: which behaviour is lost on the way?"""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from bench import environments
from bench.goals import SUBJECT, Limit, Results
from bench.interaction.verdicts import Cell, Comparison, Leg, compare, read_cells, read_expectations, stale, totals
from bench.options import Options
from bench.report import Column, Report

LIMIT_S = 5400.0
POLL_S = 0.05
HERE = environments.HERE / "interaction"
FOLDERS = ("tests/interaction/lowlevel", "tests/interaction/mcpserver")  # the others test one transport by itself
LEGS = (
    Leg("in-memory", "stdio", "stdio"),
    Leg("streamable-http", "http", "http"),
    Leg("in-memory", "stdio", "http"),
    Leg("streamable-http", "http", "stdio"),
    Leg("streamable-http-stateless", "http-stateless", "http"),
    Leg("sse", "sse", "sse"),
)
QUICK = 2
COLUMNS = (
    Column("pass directly", "direct"),
    Column("pass through", "through"),
    Column("lost, %", "lost_pct"),
    Column("not listed", "unlisted"),
)
GOALS = [
    Limit("of what passes directly is lost", "lost_pct", 5, "%"),
    Limit("lost without a listed reason", "unlisted", 0, "cells"),
]


async def measure(options: Options) -> Report:
    legs = [leg for leg in LEGS if not options.only or leg.name.replace(" ", "") in options.only]
    legs = legs[:QUICK] if options.quick else legs
    with tempfile.TemporaryDirectory(prefix="bench-interaction-") as folder:
        comparisons = await _compare_all(legs, options, Path(folder))
    lost = [one for comparison in comparisons for one in comparison.lost]
    unneeded = stale(read_expectations(), lost) if len(legs) == len(LEGS) else []
    notes = [*map(str, lost), *(f"not needed any more in expected.toml: {pattern}" for pattern in unneeded)]
    title = "interaction tests of the official SDK: directly, and server > toolcrib > client"
    return Report(title, COLUMNS, _results(comparisons), GOALS, [*notes, _versions()])


def _results(comparisons: Sequence[Comparison]) -> Results:
    rows: Results = {one.leg.name: [dict(totals([one]))] for one in comparisons}
    return {**rows, SUBJECT: [dict(totals(comparisons))]}


def _versions() -> str:
    return f"versions: {', '.join(environments.pinned('interaction.txt'))}"


async def _compare_all(legs: Sequence[Leg], options: Options, home: Path) -> list[Comparison]:
    suite = Suite(Path(str(options.data)).resolve(), environments.ready("interaction"), home)
    expected = read_expectations()
    async with suite.nursery():
        direct = await suite.cells("direct", {leg.transport: None for leg in legs})
        places = asyncio.Semaphore(os.cpu_count() or 1)

        async def one(leg: Leg) -> Comparison:
            async with places:
                through = await suite.cells(leg.name, {leg.transport: [leg.back, leg.front]})
            return compare(leg, direct[leg.transport], through.get(leg.transport, []), expected)

        return list(await asyncio.gather(*map(one, legs)))


class Suite:
    """The tests in ``data``, run by the interpreter of ``environment``."""

    def __init__(self, data: Path, environment: Path, home: Path) -> None:
        self._data, self._python, self._home = data, environment / "bin" / "python", home
        self._socket = home / "nursery.sock"

    @contextlib.asynccontextmanager
    async def nursery(self) -> AsyncIterator[None]:
        argv = [str(environments.project_python()), str(HERE / "nursery.py"), str(self._socket)]
        process = await asyncio.create_subprocess_exec(*argv)
        try:
            while not self._socket.exists():
                if process.returncode is not None:
                    raise RuntimeError("toolcrib could not be loaded")
                await asyncio.sleep(POLL_S)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()

    async def cells(self, name: str, legs: dict[str, list[str] | None]) -> dict[str, list[Cell]]:
        """One run over ``legs``; what pytest says is kept beside the other logs."""
        outcomes = self._home / f"{name}.jsonl"
        log = environments.CACHE / "logs" / f"interaction {name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        argv = ["-m", "pytest", "-p", "through", "-p", "no:cacheprovider", "--inline-snapshot=disable", *FOLDERS]
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                str(self._python), *argv, cwd=self._data, env=self._variables(legs, outcomes), stdout=out, stderr=out
            )
            try:
                await asyncio.wait_for(process.wait(), LIMIT_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        if not outcomes.exists():
            raise RuntimeError(f"no test was run; see {log}")
        return read_cells(outcomes.read_text().splitlines())

    def _variables(self, legs: dict[str, list[str] | None], outcomes: Path) -> dict[str, str]:
        knock = [str(self._python), "-S", "-E", str(HERE / "knock.py"), str(self._socket)]
        return {
            **environments.variables(self._home),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(HERE),
            "BENCH_LEGS": json.dumps(legs),
            "BENCH_OUTCOMES": str(outcomes),
            "BENCH_TOOLCRIB": json.dumps(knock),
        }
