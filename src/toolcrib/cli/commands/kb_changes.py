"""``toolcrib kb`` where it changes something: documents in and out, their vectors, and workers that add."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, OK, NotFound
from toolcrib.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.cli.knowledge import make_vectors, open_kb, read_pairs
from toolcrib.cli.logs import one_shot_log
from toolcrib.cli.running import run_once
from toolcrib.core.errors import EmbedderUnavailable, KnowledgeUnavailable, UnreadableSource
from toolcrib.core.knowledge import CollectionChange, DocumentInfo
from toolcrib.knowledge.builder import compact
from toolcrib.knowledge.fill import choose_embedder, find_collection
from toolcrib.knowledge.index import check_collections
from toolcrib.knowledge.ingest import put, work
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.queued import AdditionReport, Progress
from toolcrib.knowledge.survey import Adding, Page, SourceRoot

WATCH_S = 1.0
SHOWN_EVERY_S = 0.1
SKIPPED_SHOWN = 20
ADD_EXAMPLES = """\
examples:
  toolcrib kb add docs/ --collection handbook
  toolcrib kb add paper.pdf --collection papers --licence CC-BY-4.0 --meta year=2026
  toolcrib kb add https://example.org/guide.html --collection web
  toolcrib kb add notes/ --collection notes --watch"""


def add_add_arguments(parser: Parser) -> None:
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


def run_add(options: Options, console: Console) -> int:
    """Add what is new or changed, and take out what is gone."""
    return run_once(_add(options, console))


async def _add(options: Options, console: Console) -> int:
    roots = [SourceRoot(_existing(path)) for path in options.paths if not _is_address(path)]
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

    async def first(self, roots: list[SourceRoot], pages: list[Page]) -> AdditionReport:
        """Everything once; who is interrupted says how to go on."""
        try:
            report = await self._once(roots, pages)
        except asyncio.CancelledError:
            how_far = f" after {self._reached.done} of {self._reached.total} files" if self._reached else ""
            self._console.say(f"Interrupted{how_far}. What was stored stays; the same command goes on from there.")
            raise
        self._tell(report)
        return report

    async def follow(self, roots: list[SourceRoot]) -> int:
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

    async def _look_again(self, roots: list[SourceRoot]) -> None:
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

    async def _once(self, roots: list[SourceRoot], pages: list[Page]) -> AdditionReport:
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

    def _tell(self, report: AdditionReport) -> None:
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


def _entry(report: AdditionReport) -> dict[str, Any]:
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


RM_EXAMPLES = """\
examples:
  toolcrib kb rm handbook
  toolcrib kb rm handbook 3f2a9c1d77e0b1aa docs/old/"""


def add_rm_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("collection", metavar="COLLECTION")
    parser.add_argument("documents", nargs="*", metavar="DOCUMENT", help="ids, files, folders; without any, all of it")
    add_json(parser, "how many documents left")
    add_common(parser)


def run_rm(options: Options, console: Console) -> int:
    """Take them out; files are never touched."""
    return run_once(_remove(options, console))


async def _remove(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        await check_collections(library.store, [options.collection])
        count = await _documents(library, options) if options.documents else await _whole(library, options)
    if options.json:
        console.print_json({"collection": options.collection, "removed": count})
    else:
        console.print(f"{count} documents left {options.collection}. No file was touched.")
    return OK


async def _whole(library: Library, options: Options) -> int:
    count = len(await library.store.documents(options.collection))
    await library.store.remove_collection(options.collection)
    return count


async def _documents(library: Library, options: Options) -> int:
    known = await library.store.documents(options.collection)
    chosen: dict[str, None] = {}
    for name in options.documents:
        found = _meant(known, name)
        if not found:
            raise NotFound(f"There is no document {name!r} in {options.collection!r}.", hint="See `toolcrib kb ls`.")
        chosen |= dict.fromkeys(found)
    await library.store.apply(CollectionChange(options.collection, removals=tuple(chosen)))
    await compact(library.store, options.collection, drop_dead=True)
    return len(chosen)


def _meant(known: Sequence[DocumentInfo], name: str) -> list[str]:
    path = str(Path(name).expanduser().resolve())
    return [
        document.id
        for document in known
        if document.id == name
        or document.source in (name, path)
        or document.source.startswith((f"{path}/", f"{name.rstrip('/')}/"))
    ]


EMBED_EXAMPLES = """\
examples:
  toolcrib kb embed handbook --embedder better
  toolcrib kb embed handbook --embedder better --later     (a running toolcrib makes them)
  toolcrib kb embed handbook                               (goes on with what is missing)"""


def add_embed_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("collection", metavar="COLLECTION")
    parser.add_argument("--embedder", default="", metavar="NAME", help="bundled, none, or one of [kb.embedders]")
    parser.add_argument("--again", action="store_true", help="make all vectors anew, even by the same model")
    parser.add_argument("--later", action="store_true", help="only note it; a running toolcrib makes them")
    add_json(parser, "what the collection has then")
    add_common(parser)


def run_embed(options: Options, console: Console) -> int:
    """The old vectors answer until the new ones are complete; an interrupted run goes on where it was."""
    return run_once(_embed(options, console))


async def _embed(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        await _choose(library, options)
        trouble = "" if options.later else await make_vectors(library, options.collection, console)
        if trouble:
            raise EmbedderUnavailable(
                f"Not all vectors of {options.collection!r} are made: {trouble}",
                hint="What was made stays; run it again to go on.",
            )
        await _tell(library, options, console)
    return OK


async def _choose(library: Library, options: Options) -> None:
    known = await find_collection(library.store, options.collection)
    if options.embedder or options.again:
        name = options.embedder or (known.coming or known.embedding).name or library.embedders.default
        await choose_embedder(library.store, library.embedders, known.id, name, again=options.again)


async def _tell(library: Library, options: Options, console: Console) -> None:
    known = await find_collection(library.store, options.collection)
    held = await library.store.counts(known.id)
    coming = known.coming
    if options.json:
        shown = {"collection": known.id, "embedder_name": known.embedder_name, "embedder": known.embedder}
        more = {"dimensions": known.dimensions, "passages": held.passages, "coming": coming.name if coming else None}
        console.print_json(shown | more)
    elif coming is not None:
        console.print(f"{known.id}: {coming.name} will make its {held.passages} vectors.")
    elif known.embedder:
        made = f"{known.embedder_name} ({known.embedder}, {known.dimensions} numbers each)"
        console.print(f"{known.id}: {held.passages} passages with vectors by {made}.")
    else:
        console.print(f"{known.id}: {held.passages} passages without vectors; words alone find them.")


LOOK_S = 1.0
WORK_EXAMPLES = """\
examples:
  toolcrib kb add manuals/ --collection manuals --later    (on one machine: only note what is to be added)
  toolcrib kb work --below /srv/manuals                    (on each machine that can read it there)
  toolcrib kb work --wait                                  (go on with whatever comes, until Ctrl-C)"""


def add_work_arguments(parser: Parser) -> None:
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


def run_work(options: Options, console: Console) -> int:
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
                _tell_work(report, self._options, self._console)
            self._left[report.collection] = report.left

    def _show(self, progress: Progress) -> None:
        self._console.status(_status(progress))


def _did(report: AdditionReport) -> int:
    return report.added + report.changed + report.unchanged + len(report.skipped)


def _status(progress: Progress) -> str:
    return f"{progress.done} files, {progress.passages} passages, {progress.rate:.1f} files/s"


def _tell_work(report: AdditionReport, options: Options, console: Console) -> None:
    if options.json:
        console.print_json(_work_entry(report))
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


def _work_entry(report: AdditionReport) -> dict[str, Any]:
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
