"""``toolcrib kb work``: take part in additions to a shared knowledge base."""

import asyncio
from typing import Any

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import open_kb
from toolcrib.doors.cli.logs import one_shot_log
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.report import Progress, Report
from toolcrib.knowledge.teamwork import work

LOOK_S = 1.0
EXAMPLES = """\
examples:
  toolcrib kb add manuals/ --collection manuals --later    (on one machine: only note what is to be added)
  toolcrib kb work                                         (on each machine that can read manuals/)
  toolcrib kb work --wait                                  (go on with whatever comes, until Ctrl-C)"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--collection", metavar="NAME", help="work for this one only")
    parser.add_argument("--wait", action="store_true", help="when nothing is left, wait for more, until Ctrl-C")
    add_json(parser, "what became of it, a line for each addition")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Turn sources that wait into documents; those that are not on this machine are left to others."""
    return run_once(_work(options, console))


async def _work(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        assert library.ingest is not None
        library.ingest.emit = one_shot_log(options, console)
        try:
            count = await _once(library, options, console)
            while options.wait:
                await asyncio.sleep(LOOK_S)
                count += await _once(library, options, console)
        except asyncio.CancelledError:
            console.end_status()
            console.say("Stopped; what was stored stays, and the rest is left to others.")
            return OK
    if not count and not options.json:
        console.print("Nothing waits to be added.")
    return OK


async def _once(library: Library, options: Options, console: Console) -> int:
    assert library.ingest is not None
    count = 0
    async for report in work(library.ingest, options.collection, lambda made: console.status(_status(made))):
        console.end_status()
        _tell(report, options, console)
        count += 1
    return count


def _status(progress: Progress) -> str:
    return f"{progress.done} files, {progress.passages} passages, {progress.rate:.1f} files/s"


def _tell(report: Report, options: Options, console: Console) -> None:
    if options.json:
        console.print_json(_entry(report))
    else:
        for skipped in report.skipped:
            console.say(f"skipped {skipped.source}: {skipped.reason}.", "yellow")
        console.print(
            f"{report.collection}: {report.added} added, {report.changed} changed, {len(report.skipped)} skipped here;"
            f" {report.passages} passages in {report.seconds:.1f} s."
        )
    console.out.flush()


def _entry(report: Report) -> dict[str, Any]:
    return {
        "collection": report.collection,
        "added": report.added,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "passages": report.passages,
        "seconds": round(report.seconds, 3),
        "vectors_missing": report.trouble or None,
        "skipped": [{"source": skipped.source, "reason": skipped.reason} for skipped in report.skipped],
    }
