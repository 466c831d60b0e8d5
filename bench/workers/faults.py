"""``faults.py [STORE]``: every store on a disk that fails, fills up or loses power; one JSON object for each."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from bench.faults.stores import STORES
from bench.faults.trials import CUTS, FAILURES, Trials

MEMORY = Path("/dev/shm")


async def main() -> None:
    for name in sys.argv[1:] or STORES:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
            trials = Trials(name, Path(directory))
            for failure, wanted in FAILURES.items():
                # A short write is no failure, so by itself it never tells when a run has passed untouched.
                await trials.fail_each(*((failure, "disk full") if wanted.short else (failure,)))
            await trials.cut_each(list(CUTS), seeds=range(5))
            tally = await trials.damage_each()
        wrong = {"lost": tally.lost, "unnamed": tally.unnamed, "stuck": tally.stuck}
        print(json.dumps({"store": name, "tried": tally.tried, **wrong}), flush=True)


asyncio.run(main())
