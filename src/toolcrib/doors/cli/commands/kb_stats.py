"""``toolcrib kb stats``: how much there is, and whether all is well."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import open_kb, tools_of
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.table import Column, print_table

COLUMNS = (
    Column("COLLECTION", styles=("bold",)),
    Column("DOCUMENTS", right=True),
    Column("PASSAGES", right=True),
    Column("CHARACTERS", right=True),
    Column("INDEX", right=True),
    Column("TYPES", flexible=True),
)


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "the statistics, as kb.stats returns them")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Count, and judge."""
    return run_once(_stats(options, console))


async def _stats(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        stats = await tools_of(library).stats({})
    if options.json:
        console.print_json(stats)
    else:
        rows = [
            (
                entry["collection_id"],
                str(entry["documents"]),
                str(entry["passages"]),
                str(entry["characters"]),
                f"{entry['index_bytes'] / 1e6:.1f} MB",
                ", ".join(f"{count} {kind}" for kind, count in entry["document_types"].items()),
            )
            for entry in stats["collections"]
        ]
        print_table(console, COLUMNS, rows)
        console.say(f"The knowledge base is {stats['status']}.", "green" if stats["status"] == "healthy" else "yellow")
        for reason in stats["reasons"]:
            console.say(f"  {reason}", "yellow")
    return FAILURE if stats["status"] == "unhealthy" else OK
