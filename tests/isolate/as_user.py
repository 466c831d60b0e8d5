"""A program: measures every level as whoever runs it, and prints what was found as JSON."""

import asyncio
import json
import os

from toolcrib.isolate.plan import Host
from toolcrib.isolate.selftest import measure_all
from toolcrib.transports.process.environment import forbid_inspection
from toolcrib.transports.process.spawn import Spawner


async def main():
    forbid_inspection()  # as a running toolcrib does
    spawner = Spawner()
    try:
        proof = await measure_all(spawner, Host.here(os.environ))
    finally:
        await spawner.close()
    levels = {level: proof.why_not(level) for level in proof.trials}
    verdicts = {level: trial.verdicts for level, trial in proof.trials.items()}
    print(json.dumps({"user": os.getuid(), "why_not": levels, "verdicts": verdicts}))


if __name__ == "__main__":
    asyncio.run(main())
