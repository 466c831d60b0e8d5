"""Every store on a disk that fails at each step, fills up, loses power after each step, or damages what it holds.

Those in PostgreSQL over a line that is cut at each question; a running gateway whose disk fills up.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from bench import environments
from bench.figures.durability import Never
from bench.goals import SUBJECT
from bench.options import Options
from bench.report import Column, Report

WORKER = Path(__file__).parent.parent / "workers" / "faults.py"
ROOT = Path(__file__).parent.parent.parent

COLUMNS = (
    Column("cases per store", "tried"),
    Column("acknowledged writes lost", "lost"),
    Column("errors without a way out", "unnamed"),
    Column("stores left unusable", "stuck"),
)
GOALS = [
    Never("stores that lost an acknowledged write", "lost"),
    Never("stores with an error that names no way out", "unnamed"),
    Never("stores that stayed unusable", "stuck"),
]


async def measure(options: Options) -> Report:
    only = ["records", "tokens", "tasks"] if options.quick else []
    process = await asyncio.create_subprocess_exec(
        *(str(environments.project_python()), str(WORKER), *only),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        limit=1 << 24,
    )
    assert process.stdout is not None
    rounds, notes, tried = [], [], 0
    async for line in process.stdout:
        found = json.loads(line)
        tried += found["tried"]
        print(f"{found['store']}: {found['tried']} cases", file=sys.stderr)
        notes += [*found["lost"], *found["unnamed"], *found["stuck"]]
        rounds.append(
            {name: float(len(found[name])) for name in ("lost", "unnamed", "stuck")} | {"tried": found["tried"]}
        )
    if await process.wait():
        raise RuntimeError("the trials did not come to their end")
    notes = [f"{tried:,} cases in all, {len(rounds)} stores", *notes[:50]]
    return Report("disks that fail, fill up, lose power and damage files", COLUMNS, {SUBJECT: rounds}, GOALS, notes)
