"""``toolcrib kb``: finding passages, asking, looking at documents and their soundness, carrying them elsewhere."""

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.entries import export_to
from toolcrib.cli.failures import FAILURE, OK, FailedCall, NotFound, UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.knowledge import WHERE, open_kb, open_tools, print_location, where_to_search
from toolcrib.cli.opening import wait_with_status
from toolcrib.cli.running import run_once
from toolcrib.knowledge.definitions import NOTHING
from toolcrib.schema.text import printable

SHOWN_MAX = 400
EMPTY: Mapping[str, Any] = {"results": [], "query_info": {"total_results": 0}}
UNANSWERED: Mapping[str, Any] = {"answer": NOTHING, "mode": "none", "citations": [], "support": []}
DOCUMENTS_AT_ONCE = 10_000
EXPORTED_AT_ONCE = 2_000_000
"""Characters."""


@command(
    arg("words", nargs="+", metavar="WORD", help="what to look for"),
    arg("-n", "--number", type=int, default=5, metavar="COUNT", help="how many passages [5]"),
    *WHERE,
    as_json("what was found, as kb_hybrid_search returns it"),
    examples="""\
examples:
  toolcrib kb search how are tools isolated
  toolcrib kb search "rate limit" --collection handbook --type pdf -n 3 --json""",
)
async def run_search(options: Options, console: Console) -> None:
    """Search all collections, or those that are named."""
    query = " ".join(options.words)
    async with open_tools(options, console) as kb:
        where = await where_to_search(kb, options)
        found = await kb("hybrid_search", query=query, **where) if where["collection_ids"] else EMPTY
    if options.json:
        console.print_json(found)
        return
    for warning in found.get("warnings", ()):
        console.say(warning, "yellow")
    for number, result in enumerate(found["results"], 1):
        _print(console, number, result)
    if not found["results"]:
        console.say("Nothing fits.")


def _print(console: Console, number: int, found: Mapping[str, Any]) -> None:
    title = console.paint(printable(found["title"]), "bold")
    console.print(f"{number}. {title}  {found['score']:.2f}  {found['chunk_id']}")
    console.print(f"   {print_location(console, found)}")
    for line in _excerpt(console, found["content"], found["highlights"]).splitlines():
        console.print(f"   {line}")
    console.print()


def _excerpt(console: Console, text: str, spans: Sequence[Sequence[int]]) -> str:
    """The part with the first words of the query in it, which are shown bright."""
    first = max(spans[0][0] - SHOWN_MAX // 4, 0) if spans and len(text) > SHOWN_MAX else 0
    last, shown, at = min(first + SHOWN_MAX, len(text)), "", first
    for start, end in spans:
        if end <= last:
            shown += printable(text[at:start]) + console.paint(printable(text[start:end]), "cyan")
            at = end
    return ("…" if first else "") + shown + printable(text[at:last]) + ("…" if last < len(text) else "")


@command(
    arg("words", nargs="+", metavar="WORD", help="the question"),
    arg("-n", "--number", type=int, default=8, metavar="COUNT", help="passages to answer from [8]"),
    *WHERE,
    as_json("the answer, as kb_answer returns it"),
    examples="""\
examples:
  toolcrib kb ask How do I add a server?
  toolcrib kb ask "What is the notice period?" --collection contracts --json""",
)
async def run_ask(options: Options, console: Console) -> int:
    """Answer; with the exit code 1 if the documents do not."""
    async with open_tools(options, console) as kb:
        where = await where_to_search(kb, options)
        answered = UNANSWERED
        if where["collection_ids"]:
            asking = kb("answer", question=" ".join(options.words), **where)
            answered = await wait_with_status(console, asking, "thinking")
    if options.json:
        console.print_json(answered)
    else:
        _print_answer(console, answered)
    return FAILURE if answered["mode"] == "none" else OK


def _print_answer(console: Console, answered: Mapping[str, Any]) -> None:
    console.print_foreign(answered["answer"])
    if answered["citations"]:
        console.print()
    for cited in answered["citations"]:
        console.print(f"{cited['marker']} {print_location(console, cited)}")
    for each in answered["support"]:
        if not each["supported"]:
            console.say(f"not supported by what it cites: {each['sentence']}", "yellow")
    if answered["mode"] == "extractive":
        console.say("Quoted from the documents; set [kb] model for answers in other words.", "dim")


PIECE = 200_000
"""Characters that are read at once."""


@command(
    arg("document", metavar="DOCUMENT", help="a document's id or source, or the id of a passage"),
    *(arg(f"--{unit}", metavar="A-B", help=f"only these {unit}") for unit in ("lines", "pages", "characters")),
    arg("--heading", metavar="TITLE", help="only the part under this heading"),
    as_json("the document and what is known of it"),
    examples="""\
examples:
  toolcrib kb show 3f2a9c1d77e0b1aa --lines 10-40
  toolcrib kb show toolcrib/README.md
  toolcrib kb show 3f2a9c1d77e0b1aa-4-9be01c22        (a passage with its neighbours)""",
)
async def run_show(options: Options, console: Console) -> None:
    """Print the text."""
    is_passage = re.fullmatch(r"[0-9a-f]{16}-\d+-\w+", options.document) is not None
    wanted = {"chunk_id" if is_passage else "document_id": options.document, "max_characters": PIECE}
    async with open_tools(options, console) as kb:
        shown = await kb("get_document", **wanted, range=_range(options), heading=options.heading)
        while (at := shown["next"]) is not None:
            rest = {"unit": "characters", "start": at, "end": shown["wanted_end"]}
            more = await kb("get_document", document_id=shown["document_id"], max_characters=PIECE, range=rest)
            place = shown["place"] | {"end": more["place"]["end"]}
            shown |= {"content": shown["content"] + more["content"], "place": place, "next": more["next"]}
    if options.json:
        console.print_json(shown)
    else:
        console.print_foreign(shown["content"])


def _range(options: Options) -> dict[str, Any] | None:
    for unit in ("lines", "pages", "characters"):
        if written := getattr(options, unit):
            match = re.fullmatch(r"(\d+)(?:-(\d+)?)?", written)
            if match is None:
                raise UsageError(f"--{unit} {written!r} is no range.", hint="Write it like 10-40, or 10- to the end.")
            is_one = "-" not in written and unit != "characters"
            end = match[1] if is_one else match[2]
            return {"unit": unit, "start": int(match[1]), **({"end": int(end)} if end else {})}
    return None


COLLECTIONS = (
    Column("COLLECTION", styles=("bold",)),
    Column("DOCUMENTS", right=True),
    Column("PASSAGES", right=True),
    Column("DESCRIPTION", flexible=True),
)
DOCUMENTS = (
    Column("DOCUMENT", styles=("dim",)),
    Column("TYPE"),
    Column("DATE"),
    Column("TITLE", styles=("bold",)),
    Column("SOURCE", flexible=True),
)


@command(arg("collection", nargs="?", metavar="COLLECTION", help="list its documents"), as_json("the list"))
async def run_ls(options: Options, console: Console) -> None:
    """List what there is."""
    async with open_tools(options, console) as kb:
        if options.collection is None:
            _print_collections((await kb("list_collections"))["collections"], options, console)
            return
        documents, after = [], ""
        while after is not None:
            some = await kb("list_documents", collection_id=options.collection, after=after, limit=DOCUMENTS_AT_ONCE)
            documents += some["documents"]
            after = some["next"]
    if options.json:
        console.print_json(documents)
    elif documents:
        print_table(console, DOCUMENTS, [_row(document) for document in documents])
    else:
        console.say("It is empty.")


def _row(document: Mapping[str, Any]) -> tuple[str, ...]:
    date = (document["date"] or "")[:10]
    return document["document_id"], document["type"], date, document["title"], document["source"]


def _print_collections(listed: Sequence[Mapping[str, Any]], options: Options, console: Console) -> None:
    if options.json:
        console.print_json(listed)
        return
    if listed:
        rows = [(e["collection_id"], str(e["documents"]), str(e["passages"]), e["description"]) for e in listed]
        print_table(console, COLLECTIONS, rows)
    console.say("Add your own: toolcrib kb add PATH --collection NAME", "dim")


COLUMNS = (
    Column("COLLECTION", styles=("bold",)),
    Column("DOCUMENTS", right=True),
    Column("PASSAGES", right=True),
    Column("CHARACTERS", right=True),
    Column("INDEX", right=True),
    Column("TYPES", flexible=True),
)


@command(as_json("the statistics, as kb_stats returns them"))
async def run_stats(options: Options, console: Console) -> int:
    """Count, and judge."""
    async with open_tools(options, console) as kb:
        stats = await kb("stats")
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


@command(
    arg("--repair", action="store_true", help="make a damaged index anew from the texts that are kept"),
    as_json("what was found"),
)
async def run_verify(options: Options, console: Console) -> int:
    """Check the file, every passage, and every part of the index."""
    async with open_kb(options) as library:
        problems = await library.store.verify()
        damaged = await library.damaged()
    if damaged and options.repair:
        await _repair(damaged, options, console)
        async with open_kb(options) as library:
            damaged = await library.damaged()
    problems += [f"{collection}: {reason}" for collection, reason in damaged.items()]
    if options.json:
        console.print_json({"ok": not problems, "problems": problems})
    else:
        for problem in problems:
            console.say(problem, "red")
        console.print("Something is wrong; see above." if problems else "Everything is there and fits together.")
    return FAILURE if problems else OK


async def _repair(damaged: Iterable[str], options: Options, console: Console) -> None:
    """By the tool, like any other change; where vectors cannot be made now, words do."""
    async with open_tools(options, console) as kb:
        for collection in damaged:
            try:
                await kb("reindex", collection_ids=[collection])
                console.say(f"Made anew: the index of {collection}.")
            except FailedCall as error:
                console.say(error.message, "yellow")


@command(
    arg("collections", nargs="*", metavar="COLLECTION", help="all of them if none is named"),
    arg("-o", "--output", metavar="FILE", help="write to this file, which only you may read"),
    examples="""\
examples:
  toolcrib kb export handbook -o handbook.jsonl
  toolcrib kb export | gzip > all.jsonl.gz""",
)
async def run_export(options: Options, console: Console) -> None:
    """Write every document with its text; the index is made anew by `kb import`."""
    count, after = 0, ""
    async with open_tools(options, console) as kb:
        with export_to(options.output) as write:
            while after is not None:
                wanted = {"collection_ids": options.collections or None, "after": after or None}
                some = await kb("export", max_characters=EXPORTED_AT_ONCE, **wanted)
                for line in some["lines"]:
                    write(line.encode() + b"\n")
                count, after = count + some["documents"], some["next"]
    if options.output:
        console.say(f"{count} documents written to {options.output}.")


@command(
    arg("file", metavar="FILE", help="what `toolcrib kb export` wrote, or - for stdin"),
    as_json("what came in, as kb_import returns it"),
    examples="""\
examples:
  toolcrib kb import handbook.jsonl
  gunzip < all.jsonl.gz | toolcrib kb import -""",
)
def run_import(options: Options, console: Console) -> int:
    """Take the documents in and index them."""
    with _file(options.file) as file:
        return run_once(_import(options, console, file))


@contextmanager
def _file(given: str) -> Iterator[str]:
    """The path of what is to be read; what comes from stdin is put aside, for the tool reads files."""
    if given != "-":
        if not Path(given).is_file():
            raise NotFound(f"There is no file {given!r}.", hint="Check the path.")
        yield str(Path(given).absolute())
        return
    with NamedTemporaryFile(prefix="toolcrib-", suffix=".jsonl") as held:
        shutil.copyfileobj(sys.stdin.buffer, held)
        held.flush()
        yield held.name


async def _import(options: Options, console: Console, file: str) -> int:
    async with open_tools(options, console, [file]) as kb:
        taken = await kb("import", source=file)
    if taken["vectors_missing"]:
        console.say(f"Found by words alone until their vectors are made: {taken['vectors_missing']}", "yellow")
    if options.json:
        console.print_json(taken)
    else:
        console.print(f"{taken['documents']} documents came in.")
    return OK
