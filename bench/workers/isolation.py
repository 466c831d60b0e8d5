"""``isolation.py ROUNDS``: times the start and end of ``/bin/true`` at each level, in toolcrib's own environment.

Prints one JSON object: for each level that is proven here, and for a confined program with a network, milliseconds
to the running program and to its reported end.
Every round visits every level once, each time beginning with another one; the first rounds warm up and do not count.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import IsolationWanted
from toolcrib.isolate.plan import Host, confine
from toolcrib.isolate.selftest import measure
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec

WARM_UP = 3
WITH_NETWORK = "confined, with a network"
PROGRAM = next(path for path in ("/bin/true", "/usr/bin/true") if Path(path).exists())


async def visit(spawner: Spawner, host: Host, wish: IsolationWanted) -> dict[str, float]:
    began = time.perf_counter()
    spec = ProcessSpec((PROGRAM,), {"PATH": os.defpath})
    process = await spawner.start(confine(spec, wish, host))
    running = time.perf_counter()
    await process.exited
    ended = time.perf_counter()
    await process.gone
    process.close_pipes()
    return {"running_ms": (running - began) * 1e3, "ended_ms": (ended - began) * 1e3}


async def main(rounds: int) -> None:
    spawner, host = Spawner(), Host.here(os.environ)
    proof = await measure(spawner, host)
    wishes = {level.value: IsolationWanted(level) for level in IsolationLevel if proof.holds(level)}
    if proof.holds(IsolationLevel.CONFINED):
        wishes[WITH_NETWORK] = IsolationWanted(IsolationLevel.CONFINED, network=True)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in wishes}
    names = list(wishes)
    for number in range(WARM_UP + rounds):
        at = number % len(names)
        for name in (*names[at:], *names[:at]):
            measured = await visit(spawner, host, wishes[name])
            if number >= WARM_UP:
                results[name].append(measured)
    await spawner.close()
    print(json.dumps(results))


asyncio.run(main(int(sys.argv[1])))
