"""How long ``toolcrib --help`` takes, against the interpreter doing nothing."""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench import environments
from bench.environments import MissingEnvironmentError
from bench.goals import AtMost, Ratio, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import NobodyLeftError, visit

COLUMNS = (Column("ms", "wall_ms"), Column("CPU ms", "cpu_ms"))
GOALS = [AtMost(Ratio("toolcrib --help vs python -c pass", "wall_ms", ["python -c pass"]), 4)]


@dataclass(frozen=True)
class Invocation:
    name: str
    argv: list[str]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (5 if options.quick else 30)
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        results = await visit(_invocations(), 2 + rounds, lambda invocation: _round(invocation, Path(home)))
    timed = {name: visits[2:] for name, visits in results.items()}  # the first ones fill the caches
    return Report(f"toolcrib --help, {rounds} rounds", COLUMNS, timed, GOALS)


def _invocations() -> list[Invocation]:
    try:
        program = environments.toolcrib_program()
    except MissingEnvironmentError as missing:
        raise NobodyLeftError(str(missing)) from None
    python = str(environments.project_python())
    return [Invocation("python -c pass", [python, "-c", "pass"]), Invocation("toolcrib", [str(program), "--help"])]


async def _round(invocation: Invocation, home: Path) -> Round:
    """Blocks on purpose: nothing else runs meanwhile."""
    nothing = os.open(os.devnull, os.O_RDWR)
    quiet = [(os.POSIX_SPAWN_DUP2, nothing, stream) for stream in (0, 1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(invocation.argv[0], invocation.argv, environments.variables(home), file_actions=quiet)
    _, status, used = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    os.close(nothing)
    if status:
        raise RuntimeError(f"{' '.join(invocation.argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return {"wall_ms": seconds * 1e3, "cpu_ms": (used.ru_utime + used.ru_stime) * 1e3}
