"""Three servers, one of them killed every second, under fifty callers: no read fails, no write is made twice."""

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import environments, procs
from bench.contenders import CONTENDERS, Contender, Place
from bench.figures.durability import Never
from bench.goals import SUBJECT, Results, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import started, tell
from bench.running import Running
from bench.scenario import BACKENDS, Scenario, Shape
from bench.wire.base import Wire, WireError

SHAPE = Shape(servers=3, tools=2)
CALLERS = 50
READS_OF_TEN = 8
KILL_EVERY_S = 1.0
THINK_S = 0.05  # between two calls of one caller: what is measured is what fails, not how fast it goes
UNKNOWN = "outcome is unknown"
WORDS_SHOWN = 5

COLUMNS = (
    Column("kills", "kills"),
    Column("reads", "reads"),
    Column("failed", "reads_failed"),
    Column("writes", "writes"),
    Column("acknowledged", "acknowledged"),
    Column("outcome unknown", "unknown"),
    Column("refused", "refused"),
    Column("run twice", "twice"),
    Column("acknowledged, not run", "lost"),
    Column("slowest read ms", "slowest_ms"),
)
GOALS = [
    Never("runs in which a read failed", "reads_failed"),
    Never("runs in which a write was made twice", "twice"),
    Never("runs in which an acknowledged write was not made", "lost"),
]


@dataclass
class Tally:
    """What the callers saw."""

    reads: int = 0
    writes: int = 0
    slowest_s: float = 0.0
    acknowledged: set[str] = field(default_factory=set)
    read_errors: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    refusals: Counter[str] = field(default_factory=Counter)


async def measure(options: Options) -> Report:
    minutes = options.minutes or (0.25 if options.quick else 10)
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        async with Scenario(SHAPE) as scenario:
            home = scenario.home()
            _configure(home, Path(place))
            async with started(Running(_contender(), scenario, home, "http"), 60) as running:
                found, tally = await _run(running, Path(place), minutes * 60)
    results: Results = {SUBJECT: [found]}
    errors = [f"  {count} x {words}" for words, count in (tally.read_errors + tally.refusals).most_common(WORDS_SHOWN)]
    notes = ["s0 and s1 say by `level`, s2 by a pattern of `security.levels`, that `lookup` only reads", *errors]
    return Report(
        f"{CALLERS} callers for {minutes:g} min, one server killed every second", COLUMNS, results, GOALS, notes
    )


def _contender() -> Contender:
    ours = next(contender for contender in CONTENDERS if contender.name == SUBJECT)
    return replace(ours, http=_serve)


def _serve(place: Place) -> list[str]:
    config = str(place.home / "toolcrib.toml")
    program = str(environments.toolcrib_program())
    return [program, "serve", "--config", config, "--host", "127.0.0.1", "--port", str(place.port)]


def _configure(home: Path, journals: Path) -> None:
    lines = ["[security.levels]", '"s2__look*" = "read_only"', ""]
    for name in SHAPE.names:
        argv = [str(BACKENDS / "writes_stdio.py"), str(journals / name)]
        lines += [f"[servers.{name}]", f'command = "{sys.executable}"', f"args = {argv!r}", ""]
        if name != "s2":
            lines += [f"[servers.{name}.tools.lookup]", 'level = "read_only"', ""]
    (home / "toolcrib.toml").write_text("\n".join(lines))


async def _run(running: Running, journals: Path, seconds: float) -> tuple[Round, Tally]:
    tally, ends_at = Tally(), time.monotonic() + seconds
    await _all_up(running)
    killing = asyncio.ensure_future(_kill_again_and_again(running, ends_at))
    numbers = iter(range(10**12))
    await asyncio.gather(*(_call_again_and_again(running.reach, numbers, tally, ends_at) for _ in range(CALLERS)))
    kills = await killing
    made = Counter(line for name in SHAPE.names for line in (journals / name).read_text().splitlines())
    return {
        "kills": kills,
        "reads": tally.reads,
        "reads_failed": tally.read_errors.total(),
        "writes": tally.writes,
        "acknowledged": len(tally.acknowledged),
        "unknown": tally.unknown,
        "refused": tally.refusals.total(),
        "twice": sum(count > 1 for count in made.values()),
        "lost": len(tally.acknowledged - made.keys()),
        "slowest_ms": tally.slowest_s * 1000,
    }, tally


async def _all_up(running: Running) -> None:
    """Before the first kill each server has answered a call."""
    await running.reach.list_tools()
    for name in SHAPE.names:
        await running.reach.call(f"{name}__lookup", "are you there?")


async def _kill_again_and_again(running: Running, ends_at: float) -> int:
    kills = 0
    while time.monotonic() < ends_at:
        await asyncio.sleep(KILL_EVERY_S)
        assert running.process is not None
        _, behind = procs.split(running.process.pid)
        if behind:
            os.kill(random.choice(behind), signal.SIGKILL)
            kills += 1
            if kills % 60 == 0:
                tell(f"  {kills} kills")
    return kills


async def _call_again_and_again(wire: Wire, numbers: Iterator[int], tally: Tally, ends_at: float) -> None:
    while time.monotonic() < ends_at:
        number = next(numbers)
        server = SHAPE.names[number % SHAPE.servers]
        if random.randrange(10) < READS_OF_TEN:
            await _read(wire, server, f"r{number}", tally)
        else:
            await _write(wire, server, f"w{number}", tally)
        await asyncio.sleep(THINK_S)


async def _read(wire: Wire, server: str, text: str, tally: Tally) -> None:
    began = time.monotonic()
    tally.reads += 1
    try:
        if await wire.call(f"{server}__lookup", text) != text:
            tally.read_errors["another answer"] += 1
    except WireError as error:
        tally.read_errors[_words(error)] += 1
    tally.slowest_s = max(tally.slowest_s, time.monotonic() - began)


async def _write(wire: Wire, server: str, text: str, tally: Tally) -> None:
    tally.writes += 1
    try:
        await wire.call(f"{server}__write", text)
    except WireError as error:
        if UNKNOWN in str(error):
            tally.unknown += 1
        else:
            tally.refusals[_words(error)] += 1
    else:
        tally.acknowledged.add(text)


def _words(error: WireError) -> str:
    """What went wrong, without what differs from call to call."""
    return " ".join(str(error).split())[:200]
