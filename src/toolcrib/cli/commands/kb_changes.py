"""``toolcrib kb`` where it changes something: documents in and out, their vectors, and workers that add."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, OK, FailedCall, NotFound
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.knowledge import KnowledgeCalls, open_kb, open_tools, read_pairs
from toolcrib.cli.logs import one_shot_log
from toolcrib.cli.opening import load_here
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import ToolcribError, UnreadableSource
from toolcrib.crib.layers import write_down
from toolcrib.knowledge.queued import AdditionReport, Progress
from toolcrib.knowledge.survey import YOUNG_NS, FileCandidate, find_files, is_address, look
from toolcrib.stores.paths import Environment

if TYPE_CHECKING:
    from toolcrib.knowledge.library import Library

WATCH_S = 1.0
SKIPPED_SHOWN = 20


@command(
    arg("paths", nargs="+", metavar="PATH", help="files, folders and addresses of pages"),
    arg("--collection", default="default", metavar="NAME", help="where they go; made if new [default]"),
    arg("--title", default="", help="what to call them, instead of what they say themselves"),
    arg("--licence", "--license", help="under which licence they are"),
    arg("--source-url", metavar="URL", help="the address to cite them by, instead of where they were read"),
    arg("--version", help="which version they are"),
    arg("--meta", action="append", metavar="KEY=VALUE", help="something to filter by; may be repeated"),
    arg("--embedder", default="", metavar="NAME", help="who makes the collection's vectors"),
    arg("--watch", action="store_true", help="go on following changes, until Ctrl-C"),
    arg("--later", action="store_true", help="only note it; `kb work` adds it, where it can be read"),
    as_json("what became of it"),
    examples="""\
examples:
  toolcrib kb add docs/ --collection handbook
  toolcrib kb add paper.pdf --collection papers --licence CC-BY-4.0 --meta year=2026
  toolcrib kb add https://example.org/guide.html --collection web
  toolcrib kb add notes/ --collection notes --watch""",
)
async def run_add(options: Options, console: Console) -> int:
    """Add what is new or changed, and take out what is gone."""
    sources = [path if is_address(path) else str(_existing(path)) for path in options.paths]
    said = {
        "collection_id": options.collection,
        "title": options.title or None,
        "license": options.licence,
        "source_url": options.source_url,
        "version": options.version,
        "metadata": read_pairs(options.meta) or None,
        "embedder": options.embedder or None,
    }
    paths = [source for source in sources if not is_address(source)]
    async with open_tools(options, console, paths) as kb:
        if options.later:
            return _note(await kb("add", sources=sources, later=True, **said), options, console)
        addition = _Addition(kb, said, options, console)
        report = await addition.first(sources)
        if options.watch:
            return await addition.follow([Path(path) for path in paths])
    is_in_vain = report["skipped"] and not (report["added"] or report["changed"] or report["unchanged"])
    return FAILURE if is_in_vain else OK


def _note(noted: dict[str, Any], options: Options, console: Console) -> int:
    if options.json:
        console.print_json(noted)
    else:
        console.print(f"{options.collection}: {noted['waiting']} sources wait; `toolcrib kb work` adds them.")
    return OK


class _Addition:
    """One ``kb add`` under way."""

    def __init__(self, kb: KnowledgeCalls, said: dict[str, Any], options: Options, console: Console) -> None:
        self._kb, self._said, self._options, self._console = kb, said, options, console
        self._told: set[str] = set()

    async def first(self, sources: Sequence[str]) -> dict[str, Any]:
        """Everything once; who is interrupted says how to go on."""
        try:
            report = await self._once(sources)
        except asyncio.CancelledError:
            reached = self._kb.bar.reached
            how_far = f" after {reached['progress']} of {reached['total']} files" if reached else ""
            self._console.say(f"Interrupted{how_far}. What was stored stays; the same command goes on from there.")
            raise
        self._tell(report)
        return report

    async def follow(self, paths: Sequence[Path]) -> int:
        """Changes as they come, until Ctrl-C; trouble is told and waited out."""
        self._console.say("Watching for changes; Ctrl-C ends it.", "dim")
        seen: object = None
        try:
            while True:
                await asyncio.sleep(WATCH_S)
                there = self._those_there(paths)
                now = await asyncio.to_thread(_signs, there)
                if now != seen and there:
                    seen = now if await self._take_in(there) else None
        except asyncio.CancelledError:
            self._console.say("Stopped watching; what was stored stays.")
            return OK

    def _those_there(self, paths: Sequence[Path]) -> list[Path]:
        for path in paths:
            gone = f"{path} is not there any more; its documents stay until `toolcrib kb rm` takes them out."
            if path.exists():
                self._told.discard(gone)
            else:
                self._tell_once(gone)
        return [path for path in paths if path.exists()]

    async def _take_in(self, paths: Sequence[Path]) -> bool:
        try:
            report = await self._once([str(path) for path in paths])
        except FailedCall as error:
            self._tell_once(f"{error.message} Trying again.")
            return False
        if report["added"] or report["changed"] or report["removed"]:
            self._tell(report)
        return True

    async def _once(self, sources: Sequence[str]) -> dict[str, Any]:
        report: dict[str, Any] = await self._kb("add", sources=sources, **self._said)
        return report

    def _tell_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self._console.say(message, "yellow")

    def _tell(self, report: dict[str, Any]) -> None:
        if self._options.json:
            self._console.print_json(report)
            self._console.out.flush()
            return
        skipped = [f"{each['source']}: {each['reason']}" for each in report["skipped"]]
        new = [each for each in skipped if each not in self._told]
        self._told.update(new)
        for each in new[:SKIPPED_SHOWN]:
            self._console.say(f"skipped {each}.", "yellow")
        if len(new) > SKIPPED_SHOWN:
            self._console.say(f"… and {len(new) - SKIPPED_SHOWN} more; --json names them all.", "yellow")
        collection = self._options.collection
        self._console.print(
            f"{collection}: {report['added']} added, {report['changed']} changed, {report['removed']} removed,"
            f" {report['unchanged']} unchanged, {len(skipped)} skipped; {report['passages']} passages"
            f" in {report['seconds']:.1f} s."
        )
        self._console.out.flush()
        if report["vectors_missing"]:
            self._tell_once(f"Found by words alone until their vectors are made: {report['vectors_missing']}")
            self._tell_once(f"`toolcrib kb embed {collection}` makes them, or a running toolcrib does.")


def _resolved(name: str) -> str:
    """The path of a file that is there; whatever else was typed stays as it is."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


def _existing(path: str) -> Path:
    found = Path(path).expanduser()
    if not found.exists():
        raise NotFound(f"There is no file or folder {path!r}.", hint="Check the path.")
    return found.absolute()


def _signs(paths: Sequence[Path]) -> dict[str, tuple[int, int, bool]]:
    """The cheap signs of every file; one that changed just now may change again without another look, so that counts
    as a sign, too."""
    found: dict[str, tuple[int, int, bool]] = {}
    for each in (file for path in paths for file in find_files(path)):
        if isinstance(each, FileCandidate):
            with suppress(UnreadableSource):
                stamp = look(each)
                found[each.source] = (stamp.size, stamp.mtime_ns, time.time_ns() - stamp.mtime_ns < YOUNG_NS)
    return found


@command(
    arg("collection", metavar="COLLECTION"),
    arg("documents", nargs="*", metavar="DOCUMENT", help="ids, files, folders; without any, all of it"),
    as_json("how many documents left"),
    examples="""\
examples:
  toolcrib kb rm handbook
  toolcrib kb rm handbook 3f2a9c1d77e0b1aa docs/old/""",
)
async def run_rm(options: Options, console: Console) -> None:
    """Take them out; files are never touched."""
    names = [_resolved(name) for name in options.documents]
    async with open_tools(options, console) as kb:
        chosen = {"documents": names} if names else {"whole_collection": True}
        removed = await kb("remove", collection_id=options.collection, **chosen)
    if options.json:
        console.print_json(removed)
    else:
        console.print(f"{removed['removed']} documents left {options.collection}. No file was touched.")


@command(
    arg("collections", nargs="*", metavar="COLLECTION", help="all of them if none is named"),
    as_json("what the collections have then"),
    examples="""\
examples:
  toolcrib kb reindex
  toolcrib kb reindex handbook""",
)
async def run_reindex(options: Options, console: Console) -> None:
    """From the texts that are kept; vectors that are missing are made."""
    async with open_tools(options, console) as kb:
        done = await kb("reindex", collection_ids=options.collections or None)
    if options.json:
        console.print_json(done)
    else:
        for held in done["collections"]:
            console.print(f"{held['collection_id']}: {held['passages']} passages indexed anew.")


@command(
    arg("collection", metavar="COLLECTION"),
    arg("--embedder", default="", metavar="NAME", help="bundled, none, or one of [kb.embedders]"),
    arg("--again", action="store_true", help="make all vectors anew, even by the same model"),
    arg("--later", action="store_true", help="only note it; a running toolcrib makes them"),
    as_json("what the collection has then"),
    examples="""\
examples:
  toolcrib kb embed handbook --embedder better
  toolcrib kb embed handbook --embedder better --later     (a running toolcrib makes them)
  toolcrib kb embed handbook                               (goes on with what is missing)""",
)
async def run_embed(options: Options, console: Console) -> None:
    """The old vectors answer until the new ones are complete; an interrupted run goes on where it was."""
    wanted = {"embedder": options.embedder or None, "again": options.again or None, "later": options.later or None}
    async with open_tools(options, console) as kb:
        done = await kb("reindex", collection_ids=[options.collection], vectors_only=True, **wanted)
    (held,) = done["collections"]
    if options.json:
        console.print_json(held)
    else:
        console.print(f"{options.collection}: {_vectors(held)}")


def _vectors(held: dict[str, Any]) -> str:
    if held["re_embedding"] is not None:
        return f"{held['re_embedding']['embedder_name']} will make its {held['passages']} vectors."
    if held["embedder"]:
        made = f"{held['embedder_name']} ({held['embedder']}, {held['dimensions']} numbers each)"
        return f"{held['passages']} passages with vectors by {made}."
    return f"{held['passages']} passages without vectors; words alone find them."


LOOK_S = 1.0


def _folders(options: Options) -> list[Path]:
    folders = [Path(given).expanduser() for given in options.below or ["."]]
    for folder in folders:
        if not folder.is_dir():
            raise NotFound(f"There is no folder {str(folder)!r}.", hint="Check --below.")
    return folders


@command(
    arg("--collection", metavar="NAME", help="work for this one only"),
    arg(
        "--below",
        action="append",
        metavar="DIR",
        help="read no files but those below it, hidden ones left out; may be repeated [the current folder]",
    ),
    arg("--wait", action="store_true", help="when nothing is left, wait for more, until Ctrl-C"),
    as_json("what became of it, a line for each addition"),
    examples="""\
examples:
  toolcrib kb add manuals/ --collection manuals --later    (on one machine: only note what is to be added)
  toolcrib kb work --below /srv/manuals                    (on each machine that can read it there)
  toolcrib kb work --wait                                  (go on with whatever comes, until Ctrl-C)""",
)
async def run_work(options: Options, console: Console) -> None:
    """Turn sources that wait into documents; those that cannot be read here are left to others."""
    shift = _Shift(_folders(options), options, console)
    async with open_kb(options, one_shot_log(options, console)) as library:
        try:
            await shift.work(library)
            while options.wait:
                await asyncio.sleep(LOOK_S)
                await shift.work(library)
        except asyncio.CancelledError:
            console.end_status()
            console.say("Stopped; what was stored stays, and the rest is left to others.")
            return
    if not shift.count and not options.json:
        console.print("Nothing waits to be added.")


class _Shift:
    """One ``kb work`` under way."""

    def __init__(self, below: list[Path], options: Options, console: Console) -> None:
        self._below, self._options, self._console = below, options, console
        self._left: dict[str, int] = {}
        self.count = 0

    async def work(self, library: "Library") -> None:
        """All that can be done now, each addition written down; what is left to others is told once."""
        async for report in library.work(self._below, self._options.collection, self._show):
            self._console.end_status()
            self.count += 1
            if _did(report):
                await self._write_down(report)
            if _did(report) or self._left.get(report.collection) != report.left:
                _tell_work(report, self._options, self._console)
            self._left[report.collection] = report.left

    async def _write_down(self, report: AdditionReport) -> None:
        """It went through no layer, so this is its only trace in the audit log."""
        details: dict[str, Any] = {"collection": report.collection, "added": report.added, "changed": report.changed}
        details |= {"skipped": len(report.skipped)}
        entry = AuditEntry("kb", caller=LOCAL_USER.id, caller_kind="local", decision="worked", details=details)
        try:
            await write_down(load_here(self._options).config, Environment(), entry)
        except ToolcribError as error:
            self._console.say(f"This was not written to the audit log: {error}", "yellow")

    def _show(self, progress: Progress) -> None:
        self._console.status(_status(progress))


def _did(report: AdditionReport) -> int:
    return report.added + report.changed + report.unchanged + len(report.skipped)


def _status(progress: Progress) -> str:
    return f"{progress.done} files, {progress.passages} passages, {progress.rate:.1f} files/s"


def _tell_work(report: AdditionReport, options: Options, console: Console) -> None:
    if options.json:
        console.print_json(report.to_json())
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
