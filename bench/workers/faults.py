"""``faults.py [STORE]``: every store on a disk that fails, fills up or loses power, or over a line that is cut.

One JSON object for each.
"""

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.faults.cuts import CUTS as CUT_LINES
from bench.faults.cuts import TableTrials
from bench.faults.full import try_gateway
from bench.faults.stores import STORES
from bench.faults.tables import TABLES
from bench.faults.trials import CUTS, FAILURES, Tally, Trials
from tests.fleet.counting_wire import a_counting_wire
from tests.fleet.engines import a_postgres

from toolcrib.stores.postgres.database import StoreSettings

MEMORY = Path("/dev/shm")
GATEWAY = "running gateway"


async def main() -> None:
    wanted = sys.argv[1:] or [*STORES, GATEWAY, *TABLES]
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    await try_disks([name for name in wanted if name in STORES])
    if GATEWAY in wanted:
        with tempfile.TemporaryDirectory() as directory:
            tell(GATEWAY, try_gateway(Path(directory)))
    if tables := [name for name in wanted if name in TABLES]:
        await cut_tables(tables)


async def try_disks(names: Sequence[str]) -> None:
    """The stores in files."""
    for name in names:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
            trials = Trials(name, Path(directory))
            for failure, wanted in FAILURES.items():
                # A short write is no failure, so by itself it never tells when a run has passed untouched.
                await trials.fail_each(*((failure, "disk full") if wanted.short else (failure,)))
            await trials.cut_each(list(CUTS), seeds=range(5))
            tally = await trials.damage_each()
        tell(name, tally)


async def cut_tables(names: Sequence[str]) -> None:
    """The stores in PostgreSQL."""
    with a_postgres() as engine, a_counting_wire(engine.port) as wire:
        settings = StoreSettings(engine.fresh_database(), timeout_s=1.0)
        for name in names:
            trials = TableTrials(name, wire, settings)
            for kind in CUT_LINES:
                await trials.cut_each(kind)
            tell(name, trials.tally)


def tell(name: str, tally: Tally) -> None:
    wrong = {"lost": tally.lost, "unnamed": tally.unnamed, "stuck": tally.stuck}
    print(json.dumps({"store": name, "tried": tally.tried, **wrong}), flush=True)


asyncio.run(main())
