"""``toolcrib db upgrade``: bring the shared database up to date."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.shared_store import open_database, shown
from toolcrib.stores.postgres.migrate import upgrade


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "what was done")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Take the steps that are missing, all or none."""
    return run_once(_upgrade(options, console))


async def _upgrade(options: Options, console: Console) -> int:
    async with open_database(options) as database:
        taken, place = await upgrade(database), shown(database)
    if options.json:
        console.print_json([{"version": step.version, "name": step.name} for step in taken])
    elif taken:
        names = ", ".join(f"{step.version:03} {step.name}" for step in taken)
        console.print(f"{place} is up to date. Steps taken: {names}.")
    else:
        console.print(f"{place} was up to date already.")
    return OK
