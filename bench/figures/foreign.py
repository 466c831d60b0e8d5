"""Real servers that no test uses, asked directly and through toolcrib; every difference must have a reason."""

import asyncio
import json
from collections import Counter
from typing import Any

from bench import environments
from bench.goals import SUBJECT, Goal, Limit, Results
from bench.options import Options
from bench.report import Column, Report

AT_LEAST = 30
MOST_NAMED = 40
COLUMNS = (
    Column("servers", "servers"),
    Column("tools", "tools"),
    Column("resources", "resources"),
    Column("templates", "resourceTemplates"),
    Column("prompts", "prompts"),
    Column("answers compared", "answers"),
    Column("differences with a reason", "listed"),
    Column("without", "unlisted"),
)
SERVERS = Limit(f"servers short of {AT_LEAST}", "short", 0, "servers")
UNLISTED = Limit("differences without a reason", "unlisted", 0, "differences")


async def measure(options: Options) -> Report:
    """Runs with the project's own interpreter, which has Node.js; ``--only`` names servers."""
    found = await _visit(list(options.only))
    goals: list[Goal] = [UNLISTED] if options.only else [SERVERS, UNLISTED]
    title = "real servers, directly and through toolcrib: handshake client at first sight, stateless client afterwards"
    return Report(title, COLUMNS, _results(found), goals, _notes(found))


async def _visit(names: list[str]) -> dict[str, dict[str, Any]]:
    argv = [str(environments.project_python()), "-m", "bench.foreign", *names]
    process = await asyncio.create_subprocess_exec(*argv, cwd=environments.ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        said, _ = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode:
        raise RuntimeError(f"asking the servers ended with {process.returncode}")
    found: dict[str, dict[str, Any]] = json.loads(said)
    return found


def _results(found: dict[str, dict[str, Any]]) -> Results:
    asked = [server for server in found.values() if "left_out" not in server]
    kinds = ("tools", "resources", "resourceTemplates", "prompts", "answers")
    totals = {kind: float(sum(server[kind] for server in asked)) for kind in kinds}
    listed = Counter(bool(one["reason"]) for server in asked for one in server["differences"])
    counts = {"servers": len(asked), "listed": listed[True], "unlisted": listed[False]}
    return {SUBJECT: [{**totals, **counts, "short": max(0, AT_LEAST - len(asked))}]}


def _notes(found: dict[str, dict[str, Any]]) -> list[str]:
    left_out = [f"left out: {name}: {server['left_out']}" for name, server in found.items() if "left_out" in server]
    differences = [(name, one) for name, server in found.items() for one in server.get("differences", ())]
    whys = Counter(one["reason"] for _, one in differences if one["reason"])
    listed = [f"{count} x {reason}" for reason, count in whys.most_common()]
    unlisted = [
        f"WITHOUT REASON {name}, {one['way']}, {one['at']}: {one['direct']} | {one['through']}"
        for name, one in differences
        if not one["reason"]
    ]
    return [*listed, *left_out, *unlisted[:MOST_NAMED]]
