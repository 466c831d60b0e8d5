"""Runs one figure and reports it."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable

import uvloop

from bench import report
from bench.figures import (
    attack,
    calls,
    config,
    copy,
    durability,
    fault,
    faults,
    foreign,
    front,
    help_page,
    interaction,
    isolation,
    kb,
    kbcrash,
    kbspeed,
    kills,
    listing,
    memory,
    mutants,
    passthrough,
    pgkb,
    register,
    resources,
    shared,
    signin,
    start,
    subscriptions,
    suites,
    tokens,
    toolsearch,
    validation,
)
from bench.options import Options
from bench.rounds import NobodyLeftError

FIGURES: dict[str, Callable[[Options], Awaitable[report.Report]]] = {
    "calls": calls.measure,
    "list": listing.measure,
    "start": start.measure,
    "memory": memory.measure,
    "resources": resources.measure,
    "subscriptions": subscriptions.measure,
    "fault": fault.measure,
    "faults": faults.measure,
    "front": front.measure,
    "help": help_page.measure,
    "register": register.measure,
    "durability": durability.measure,
    "kbcrash": kbcrash.measure,
    "kills": kills.measure,
    "shared": shared.measure,
    "signin": signin.measure,
    "copy": copy.measure,
    "suites": suites.measure,
    "isolation": isolation.measure,
    "config": config.measure,
    "kb": kb.measure,
    "kbspeed": kbspeed.measure,
    "pgkb": pgkb.measure,
    "toolsearch": toolsearch.measure,
    "tokens": tokens.measure,
    "mutants": mutants.measure,
    "attack": attack.measure,
    "validation": validation.measure,
    "interaction": interaction.measure,
    "passthrough": passthrough.measure,
    "foreign": foreign.measure,
}


def run(options: Options) -> int:
    """0 when every goal is met, 1 when one is missed, 2 when one could not be judged."""
    try:
        measured = uvloop.run(_measure(options))
    except NobodyLeftError as nobody:
        print(nobody, file=sys.stderr)
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped", file=sys.stderr)
        return 2
    if options.json is not None:
        report.save(measured, options, options.json)
    return report.show(measured)


async def _measure(options: Options) -> report.Report:
    """Every polite way to stop it unwinds it, so that no contender is left behind."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await FIGURES[options.figure](options)
