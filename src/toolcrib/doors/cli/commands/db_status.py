"""``toolcrib db status``: which shared database is used, and whether it is up to date."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.shared_store import open_database, shown
from toolcrib.stores.postgres.migrate import SchemaStatus, status


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "what was found")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Look, and change nothing."""
    return run_once(_status(options, console))


async def _status(options: Options, console: Console) -> int:
    async with open_database(options) as database:
        found, place = await status(database), shown(database)
    if options.json:
        console.print_json({"url": place, "name": database.name} | _entry(found))
    else:
        console.print(f"{place} (PostgreSQL {found.server}), name {database.name!r}")
        console.print(_words(found))
    return OK if found.is_current else FAILURE


def _entry(found: SchemaStatus) -> dict[str, object]:
    return {
        "server": found.server,
        "isCurrent": found.is_current,
        "applied": [{"version": step.version, "name": step.name, "at": step.at} for step in found.applied],
        "missing": [{"version": step.version, "name": step.name} for step in found.missing],
        "unknown": [{"version": step.version, "name": step.name} for step in found.unknown],
    }


def _words(found: SchemaStatus) -> str:
    if found.unknown:
        return "It was changed by another version of toolcrib: run the newest that any replica runs."
    if found.missing:
        names = ", ".join(f"{step.version:03} {step.name}" for step in found.missing)
        return f"Steps that are missing: {names}. Run `toolcrib db upgrade`."
    return f"Up to date: {len(found.applied)} steps."
