"""``toolcrib kb add``: files and folders become documents of a collection."""

import asyncio
from pathlib import Path
from typing import Any

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK, NotFound
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import make_vectors, open_kb, read_pairs
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.fetch import Page
from toolcrib.knowledge.ingest import Progress, Report
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.survey import Adding, Root

WATCH_S = 2.0
SKIPPED_SHOWN = 20
EXAMPLES = """\
examples:
  toolcrib kb add docs/ --collection handbook
  toolcrib kb add paper.pdf --collection papers --licence CC-BY-4.0 --meta year=2026
  toolcrib kb add https://example.org/guide.html --collection web
  toolcrib kb add notes/ --collection notes --watch"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders and addresses of pages")
    parser.add_argument("--collection", default="default", metavar="NAME", help="where they go; made if new [default]")
    parser.add_argument("--title", default="", help="what to call them, instead of what they say themselves")
    parser.add_argument("--licence", "--license", help="under which licence they are")
    parser.add_argument("--version", help="which version they are")
    parser.add_argument("--meta", action="append", metavar="KEY=VALUE", help="something to filter by; may be repeated")
    parser.add_argument("--embedder", default="", metavar="NAME", help="who makes the collection's vectors")
    parser.add_argument("--watch", action="store_true", help="go on following changes, until Ctrl-C")
    add_json(parser, "what became of it")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Add what is new or changed, and take out what is gone."""
    return run_once(_add(options, console))


async def _add(options: Options, console: Console) -> int:
    roots = [Root(_existing(path)) for path in options.paths if not _is_address(path)]
    pages = [Page(path) for path in options.paths if _is_address(path)]
    said = read_pairs(options.meta)
    wanted = Adding(options.collection, options.title, options.licence, options.version, said, options.embedder)
    async with open_kb(options) as library:
        report = await _once(library, (roots, pages), wanted, console)
        _tell(report, options, console)
        while options.watch:
            await asyncio.sleep(WATCH_S)
            report = await _once(library, (roots, []), wanted, console)
            if report.added or report.changed or report.removed:
                _tell(report, options, console)
    is_in_vain = report.skipped and not (report.added or report.changed or report.unchanged)
    return FAILURE if is_in_vain else OK


def _is_address(path: str) -> bool:
    return path.startswith(("http://", "https://"))


def _existing(path: str) -> Path:
    found = Path(path).expanduser()
    if not found.exists():
        raise NotFound(f"There is no file or folder {path!r}.", hint="Check the path.")
    return found


async def _once(library: Library, given: tuple[list[Root], list[Page]], wanted: Adding, console: Console) -> Report:
    assert library.ingest is not None
    try:
        report = await library.ingest.add(given[0], wanted, lambda made: console.status(_progress(made)), given[1])
        report.trouble = report.trouble or await make_vectors(library, wanted.collection, console)
        return report
    finally:
        console.end_status()


def _progress(progress: Progress) -> str:
    width = 20
    bar = ("█" * round(width * progress.done / max(progress.total, 1))).ljust(width, "·")
    return (
        f"{bar} {progress.done}/{progress.total} files, {progress.passages} passages,"
        f" {progress.rate:.1f} files/s, {progress.left_s:.0f} s left"
    )


def _tell(report: Report, options: Options, console: Console) -> None:
    if options.json:
        console.print_json(_entry(report))
        return
    for skipped in report.skipped[:SKIPPED_SHOWN]:
        console.say(f"skipped {skipped.source}: {skipped.reason}.", "yellow")
    if len(report.skipped) > SKIPPED_SHOWN:
        console.say(f"… and {len(report.skipped) - SKIPPED_SHOWN} more; --json names them all.", "yellow")
    console.print(
        f"{report.collection}: {report.added} added, {report.changed} changed, {report.removed} removed,"
        f" {report.unchanged} unchanged, {len(report.skipped)} skipped; {report.passages} passages"
        f" in {report.seconds:.1f} s."
    )
    if report.trouble:
        console.say(f"Found by words alone until their vectors are made: {report.trouble}", "yellow")
        console.say(f"`toolcrib kb embed {report.collection}` makes them, or a running toolcrib does.", "yellow")


def _entry(report: Report) -> dict[str, Any]:
    return {
        "collection": report.collection,
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "unchanged": report.unchanged,
        "passages": report.passages,
        "seconds": round(report.seconds, 3),
        "vectors_missing": report.trouble or None,
        "skipped": [{"source": skipped.source, "reason": skipped.reason} for skipped in report.skipped],
    }
