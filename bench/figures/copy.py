"""A machine moves to PostgreSQL and is killed five times on the way: both sides are equal at the end."""

import asyncio
import json

from bench import environments
from bench.figures.durability import Never, Subject
from bench.goals import SUBJECT, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import visit

ENTRIES, DOCUMENTS, KILLS = 100_000, 10_000, 5
COLUMNS = (
    Column("audit entries", "entries"),
    Column("documents", "documents"),
    Column("killed", "killed"),
    Column("seconds, restarts included", "seconds"),
    Column("unequal", "unequal"),
)
GOALS = [
    Never("moves that did not end well", "failed"),
    Never("moves after which the two sides were not equal", "unequal"),
]


async def measure(options: Options) -> Report:
    sizes = (ENTRIES // 50, DOCUMENTS // 50) if options.quick else (ENTRIES, DOCUMENTS)
    results = await visit([Subject(SUBJECT)], options.rounds or 1, lambda _: _move(*sizes))
    return Report("db copy, killed on the way", COLUMNS, results, GOALS, ["kill -9 at random moments"])


async def _move(entries: int, documents: int) -> Round:
    worker = str(environments.HERE / "workers" / "copying.py")
    words = [str(environments.project_python()), worker, *map(str, (entries, documents, KILLS))]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    told = (await process.stdout.read()).splitlines()
    if await process.wait():
        raise RuntimeError("the move broke off")
    return {"entries": entries, "documents": documents, **json.loads(told[-1])}
