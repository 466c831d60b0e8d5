"""``validation.py CASE...``: how long a running Crib's event loop stands still while costly values are checked.

Prints one JSON object: for each case and direction, the longest stretch between two turns of the loop in milliseconds,
by the clock and by the processor time of the process (which others on the machine cannot lengthen), and how the
call ended (1: refused). "ordinary" is a call of a plain tool.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from costly import CASES

from toolcrib import open_crib
from toolcrib.stores.paths import Environment

SERVER = Path(__file__).parent.parent / "backends" / "costly_stdio.py"
TICK_S = 0.001


class Heartbeat:
    """The longest stretches between two turns of the loop."""

    def __init__(self) -> None:
        self.gap = self.busy = 0.0

    async def beat(self) -> None:
        while True:
            began, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK_S)
            self.gap = max(self.gap, time.perf_counter() - began - TICK_S)
            self.busy = max(self.busy, time.process_time() - worked)


async def measure(crib: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    heart = Heartbeat()
    beating = asyncio.create_task(heart.beat())
    await asyncio.sleep(TICK_S)
    began = time.perf_counter()
    result = await crib.call(f"costly__{name}", arguments)
    took = time.perf_counter() - began
    await asyncio.sleep(TICK_S)
    beating.cancel()
    is_refused = float(result.error is not None)
    return {"gap_ms": heart.gap * 1e3, "busy_ms": heart.busy * 1e3, "took_ms": took * 1e3, "refused": is_refused}


async def main(names: list[str]) -> None:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as home:
        around = Environment(env={**os.environ, "HOME": home, "XDG_STATE_HOME": home}, cwd=Path(home))
        servers = {"mcpServers": {"costly": {"command": sys.executable, "args": [str(SERVER)]}}}
        async with open_crib(servers, surroundings=around) as crib:
            await crib.call("costly__plain", {})
            found["ordinary"] = await measure(crib, "plain", {})
            for name in names or CASES:
                await crib.call(f"costly__{name}_in", {})  # its schema is compiled, once
                found[f"{name} in"] = await measure(crib, f"{name}_in", {"value": CASES[name].value()})
                found[f"{name} out"] = await measure(crib, f"{name}_out", {})
    print(json.dumps(found))


asyncio.run(main(sys.argv[1:]))
