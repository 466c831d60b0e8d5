"""``toolcrib kb add``: files and folders become documents of a collection."""

import asyncio
import time
from pathlib import Path
from typing import Any

from toolcrib.core.errors import KnowledgeUnavailable, UnreadableSource
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK, NotFound
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import make_vectors, open_kb, read_pairs
from toolcrib.doors.cli.logs import one_shot_log
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.fetch import Page
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.report import Progress, Report
from toolcrib.knowledge.survey import Adding, Root
from toolcrib.knowledge.teamwork import put

WATCH_S = 1.0
SHOWN_EVERY_S = 0.1
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
    parser.add_argument("--later", action="store_true", help="only note it; `kb work` adds it, where it can be read")
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
        assert library.ingest is not None
        library.ingest.emit = one_shot_log(options, console)
        if options.later:
            return _note(await put(library.ingest, roots, wanted, pages), options, console)
        addition = _Addition(library, wanted, options, console)
        report = await addition.first(roots, pages)
        if options.watch:
            return await addition.follow(roots)
    is_in_vain = report.skipped and not (report.added or report.changed or report.unchanged)
    return FAILURE if is_in_vain else OK


def _note(count: int, options: Options, console: Console) -> int:
    if options.json:
        console.print_json({"collection": options.collection, "waiting": count})
    else:
        console.print(f"{options.collection}: {count} sources wait; `toolcrib kb work` adds them.")
    return OK


class _Addition:
    """One ``kb add`` under way."""

    def __init__(self, library: Library, wanted: Adding, options: Options, console: Console) -> None:
        self._library, self._wanted, self._options, self._console = library, wanted, options, console
        self._reached: Progress | None = None
        self._shown_at = 0.0
        self._told: set[str] = set()

    async def first(self, roots: list[Root], pages: list[Page]) -> Report:
        """Everything once; who is interrupted says how to go on."""
        try:
            report = await self._once(roots, pages)
        except asyncio.CancelledError:
            how_far = f" after {self._reached.done} of {self._reached.total} files" if self._reached else ""
            self._console.say(f"Interrupted{how_far}. What was stored stays; the same command goes on from there.")
            raise
        self._tell(report)
        return report

    async def follow(self, roots: list[Root]) -> int:
        """Changes as they come, until Ctrl-C; trouble is told and waited out."""
        self._console.say("Watching for changes; Ctrl-C ends it.", "dim")
        try:
            while True:
                await asyncio.sleep(WATCH_S)
                try:
                    await self._look_again(roots)
                except (UnreadableSource, KnowledgeUnavailable) as error:
                    self._tell_once(f"{error.message} Trying again.")
        except asyncio.CancelledError:
            self._console.say("Stopped watching; what was stored stays.")
            return OK

    async def _look_again(self, roots: list[Root]) -> None:
        there = [root for root in roots if root.path.exists()]
        for root in roots:
            gone = f"{root.path} is not there any more; its documents stay until `toolcrib kb rm` takes them out."
            if root not in there:
                self._tell_once(gone)
            else:
                self._told.discard(gone)
        report = await self._once(there, [])
        if report.added or report.changed or report.removed:
            self._tell(report)

    async def _once(self, roots: list[Root], pages: list[Page]) -> Report:
        assert self._library.ingest is not None
        try:
            report = await self._library.ingest.add(roots, self._wanted, self._show, pages)
            if not report.trouble:
                report.trouble = await make_vectors(self._library, self._wanted.collection, self._console)
            return report
        finally:
            self._console.end_status()

    def _show(self, progress: Progress) -> None:
        self._reached = progress
        now = time.monotonic()
        if not self._options.json and (now - self._shown_at >= SHOWN_EVERY_S or progress.done == progress.total):
            self._shown_at = now
            self._console.status(_bar(progress))

    def _tell_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self._console.say(message, "yellow")

    def _tell(self, report: Report) -> None:
        if self._options.json:
            self._console.print_json(_entry(report))
            self._console.out.flush()
            return
        new = [each for each in report.skipped if f"{each.source}: {each.reason}" not in self._told]
        self._told.update(f"{each.source}: {each.reason}" for each in new)
        for skipped in new[:SKIPPED_SHOWN]:
            self._console.say(f"skipped {skipped.source}: {skipped.reason}.", "yellow")
        if len(new) > SKIPPED_SHOWN:
            self._console.say(f"… and {len(new) - SKIPPED_SHOWN} more; --json names them all.", "yellow")
        self._console.print(
            f"{report.collection}: {report.added} added, {report.changed} changed, {report.removed} removed,"
            f" {report.unchanged} unchanged, {len(report.skipped)} skipped; {report.passages} passages"
            f" in {report.seconds:.1f} s."
        )
        self._console.out.flush()
        if report.trouble:
            self._tell_once(f"Found by words alone until their vectors are made: {report.trouble}")
            self._tell_once(f"`toolcrib kb embed {report.collection}` makes them, or a running toolcrib does.")


def _is_address(path: str) -> bool:
    return path.startswith(("http://", "https://"))


def _existing(path: str) -> Path:
    found = Path(path).expanduser()
    if not found.exists():
        raise NotFound(f"There is no file or folder {path!r}.", hint="Check the path.")
    return found


def _bar(progress: Progress) -> str:
    width = 20
    bar = ("█" * round(width * progress.done / max(progress.total, 1))).ljust(width, "·")
    left = f"{progress.left_s:.0f} s" if progress.left_s < 100 else f"{progress.left_s / 60:.0f} min"
    return (
        f"{bar} {progress.done}/{progress.total} files, {progress.passages} passages,"
        f" {progress.rate:.1f} files/s, {left} left"
    )


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
