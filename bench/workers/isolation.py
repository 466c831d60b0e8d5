"""``isolation.py ROUNDS``: times the start and end of ``/bin/true`` at each level, in toolcrib's own environment.

Prints one JSON object: for each level that is proven here, milliseconds to the running program and to its reported end.
Every round visits every level once, each time beginning with another one; the first rounds warm up and do not count.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from toolcrib.isolate.grants import Wish
from toolcrib.isolate.levels import IsolationLevel
from toolcrib.isolate.plan import Host, confine
from toolcrib.isolate.selftest import measure
from toolcrib.transports.spawn import Spawner
from toolcrib.transports.spec import ProcessSpec

WARM_UP = 3
PROGRAM = next(path for path in ("/bin/true", "/usr/bin/true") if Path(path).exists())


async def visit(spawner: Spawner, host: Host, level: IsolationLevel) -> dict[str, float]:
    began = time.perf_counter()
    spec = ProcessSpec((PROGRAM,), {"PATH": os.defpath})
    process = await spawner.start(confine(spec, Wish(level), host))
    running = time.perf_counter()
    await process.exited
    ended = time.perf_counter()
    await process.gone
    process.close_pipes()
    return {"running_ms": (running - began) * 1e3, "ended_ms": (ended - began) * 1e3}


async def main(rounds: int) -> None:
    spawner, host = Spawner(), Host.here(os.environ)
    proof = await measure(spawner, host)
    levels = [level for level in IsolationLevel if proof.holds(level)]
    results: dict[str, list[dict[str, float]]] = {level.value: [] for level in levels}
    for number in range(WARM_UP + rounds):
        at = number % len(levels)
        for level in (*levels[at:], *levels[:at]):
            measured = await visit(spawner, host, level)
            if number >= WARM_UP:
                results[level.value].append(measured)
    await spawner.close()
    print(json.dumps(results))


asyncio.run(main(int(sys.argv[1])))
