"""``toolcrib kb work``: take part in additions to a shared knowledge base."""

import asyncio
from pathlib import Path
from typing import Any

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, NotFound
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
  toolcrib kb work --below /srv/manuals                    (on each machine that can read it there)
  toolcrib kb work --wait                                  (go on with whatever comes, until Ctrl-C)"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--collection", metavar="NAME", help="work for this one only")
    parser.add_argument(
        "--below",
        action="append",
        metavar="DIR",
        help="read no files but those below it, hidden ones left out; may be repeated [the current folder]",
    )
    parser.add_argument("--wait", action="store_true", help="when nothing is left, wait for more, until Ctrl-C")
    add_json(parser, "what became of it, a line for each addition")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Turn sources that wait into documents; those that cannot be read here are left to others."""
    return run_once(_work(options, console))


def _folders(options: Options) -> list[Path]:
    folders = [Path(given).expanduser() for given in options.below or ["."]]
    for folder in folders:
        if not folder.is_dir():
            raise NotFound(f"There is no folder {str(folder)!r}.", hint="Check --below.")
    return folders


async def _work(options: Options, console: Console) -> int:
    shift = _Shift(_folders(options), options, console)
    async with open_kb(options) as library:
        assert library.ingest is not None
        library.ingest.emit = one_shot_log(options, console)
        try:
            await shift.work(library)
            while options.wait:
                await asyncio.sleep(LOOK_S)
                await shift.work(library)
        except asyncio.CancelledError:
            console.end_status()
            console.say("Stopped; what was stored stays, and the rest is left to others.")
            return OK
    if not shift.count and not options.json:
        console.print("Nothing waits to be added.")
    return OK


class _Shift:
    """One ``kb work`` under way."""

    def __init__(self, below: list[Path], options: Options, console: Console) -> None:
        self._below, self._options, self._console = below, options, console
        self._left: dict[str, int] = {}
        self.count = 0

    async def work(self, library: Library) -> None:
        """All that can be done now; what is left to others is told once."""
        assert library.ingest is not None
        async for report in work(library.ingest, self._below, self._options.collection, self._show):
            self._console.end_status()
            self.count += 1
            if _did(report) or self._left.get(report.collection) != report.left:
                _tell(report, self._options, self._console)
            self._left[report.collection] = report.left

    def _show(self, progress: Progress) -> None:
        self._console.status(_status(progress))


def _did(report: Report) -> int:
    return report.added + report.changed + report.unchanged + len(report.skipped)


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
        if report.left:
            where = "They cannot be read here, or not below the folders that --below names."
            console.say(f"{report.left} sources are left to others. {where}", "yellow")
    console.out.flush()


def _entry(report: Report) -> dict[str, Any]:
    return {
        "collection": report.collection,
        "added": report.added,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "left": report.left,
        "passages": report.passages,
        "seconds": round(report.seconds, 3),
        "vectors_missing": report.trouble or None,
        "skipped": [{"source": skipped.source, "reason": skipped.reason} for skipped in report.skipped],
    }
