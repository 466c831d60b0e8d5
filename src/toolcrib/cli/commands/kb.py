"""``toolcrib kb``: finding passages, asking, and looking at documents, collections and their soundness."""

import re
from typing import Any

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import FAILURE, OK, NotFound, UsageError
from toolcrib.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.cli.knowledge import add_where, answerer, document_entry, open_kb, print_location, search_of, tools_of
from toolcrib.cli.opening import wait_with_status
from toolcrib.cli.running import run_once
from toolcrib.core.errors import DamagedIndex
from toolcrib.core.knowledge import DocumentInfo, document_id
from toolcrib.knowledge.answer import GroundedAnswer
from toolcrib.knowledge.index import check_collections
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.retrieve import FoundPassage, SearchResults, performance, result
from toolcrib.schema.text import printable
from toolcrib.search.tokens import highlights

SHOWN_MAX = 400
SEARCH_EXAMPLES = """\
examples:
  toolcrib kb search how are tools isolated
  toolcrib kb search "rate limit" --collection handbook --type pdf -n 3 --json"""


def add_search_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("words", nargs="+", metavar="WORD", help="what to look for")
    parser.add_argument("-n", "--number", type=int, default=5, metavar="COUNT", help="how many passages [5]")
    add_where(parser)
    add_json(parser, "what was found, as kb.hybrid_search returns it")
    add_common(parser)


def run_search(options: Options, console: Console) -> int:
    """Search all collections, or those that are named."""
    return run_once(_search(options, console))


async def _search(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        search = await search_of(library, options, options.words)
        findings = await library.search(search)
    for warning in findings.warnings if not options.json else ():
        console.say(warning, "yellow")
    if options.json:
        console.print_json(_document(search.query, findings))
    elif findings.passages:
        for number, found in enumerate(findings.passages, 1):
            _print(console, number, found, search.query)
    else:
        console.say("Nothing fits.")
    return OK


def _document(query: str, findings: SearchResults) -> dict[str, object]:
    return {
        "results": [result(found, highlights(query, found.text)) for found in findings.passages],
        "query_info": {"processed_query": findings.processed_query, "total_results": findings.total},
        "performance_metrics": performance(findings),
        **({"warnings": list(findings.warnings)} if findings.warnings else {}),
    }


def _print(console: Console, number: int, found: FoundPassage, query: str) -> None:
    place = found.passage.place
    title = console.paint(printable(found.document.title), "bold")
    console.print(f"{number}. {title}  {found.score:.2f}  {found.passage.id}")
    console.print(f"   {print_location(console, found.document, place.page, place.headings)}")
    for line in _excerpt(console, found.text, query).splitlines():
        console.print(f"   {line}")
    console.print()


def _excerpt(console: Console, text: str, query: str) -> str:
    """The part with the first words of the query in it, which are shown bright."""
    spans = highlights(query, text)
    first = max(spans[0][0] - SHOWN_MAX // 4, 0) if spans and len(text) > SHOWN_MAX else 0
    last, shown, at = min(first + SHOWN_MAX, len(text)), "", first
    for start, end in spans:
        if end <= last:
            shown += printable(text[at:start]) + console.paint(printable(text[start:end]), "cyan")
            at = end
    return ("…" if first else "") + shown + printable(text[at:last]) + ("…" if last < len(text) else "")


ASK_EXAMPLES = """\
examples:
  toolcrib kb ask How do I add a server?
  toolcrib kb ask "What is the notice period?" --collection contracts --json"""


def add_ask_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("words", nargs="+", metavar="WORD", help="the question")
    parser.add_argument("-n", "--number", type=int, default=8, metavar="COUNT", help="passages to answer from [8]")
    add_where(parser)
    add_json(parser, "the answer, as kb.answer returns it")
    add_common(parser)


def run_ask(options: Options, console: Console) -> int:
    """Answer; with the exit code 1 if the documents do not."""
    return run_once(_ask(options, console))


async def _ask(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        search = await search_of(library, options, options.words)
        answered = await wait_with_status(console, answerer(options).answer(library, search), "thinking")
    if options.json:
        console.print_json(answered.to_json())
    else:
        _print_answer(console, answered)
    return FAILURE if answered.mode == "none" else OK


def _print_answer(console: Console, answered: GroundedAnswer) -> None:
    console.print_foreign(answered.text)
    if answered.numbers:
        console.print()
    for number, found in zip(answered.numbers, answered.passages, strict=True):
        place = found.passage.place
        console.print(f"[{number}] {print_location(console, found.document, place.page, place.headings)}")
    doubtful = [each.sentence for each in answered.support if not each.is_supported]
    for sentence in doubtful:
        console.say(f"not supported by what it cites: {sentence}", "yellow")
    if answered.mode == "extractive":
        console.say("Quoted from the documents; set [kb] model for answers in other words.", "dim")


EVERYTHING = 200_000_000
SHOW_EXAMPLES = """\
examples:
  toolcrib kb show 3f2a9c1d77e0b1aa --lines 10-40
  toolcrib kb show toolcrib/README.md
  toolcrib kb show 3f2a9c1d77e0b1aa-4-9be01c22        (a passage with its neighbours)"""


def add_show_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("document", metavar="DOCUMENT", help="a document's id or source, or the id of a passage")
    for unit in ("lines", "pages", "characters"):
        parser.add_argument(f"--{unit}", metavar="A-B", help=f"only these {unit}")
    parser.add_argument("--heading", metavar="TITLE", help="only the part under this heading")
    add_json(parser, "the document and what is known of it")
    add_common(parser)


def run_show(options: Options, console: Console) -> int:
    """Print the text."""
    return run_once(_show(options, console))


async def _show(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        wanted = await _wanted(library, options.document)
        part = {"range": _range(options), "heading": options.heading, "max_characters": EVERYTHING}
        shown = await tools_of(library).get_document(wanted | part)
    if options.json:
        console.print_json(shown)
    else:
        console.print_foreign(shown["content"])
    return OK


async def _wanted(library: Library, name: str) -> dict[str, Any]:
    """By id, by passage, or by the source in whichever collection."""
    if re.fullmatch(r"[0-9a-f]{16}-\d+-\w+", name):
        return {"chunk_id": name}
    candidates = [name, *(document_id(each.id, name) for each in await library.store.collections())]
    for candidate in candidates:
        if await library.store.document(candidate) is not None:
            return {"document_id": candidate}
    raise NotFound(f"There is no document {name!r}.", hint="`toolcrib kb ls COLLECTION` names them.")


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


def add_ls_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("collection", nargs="?", metavar="COLLECTION", help="list its documents")
    add_json(parser, "the list")
    add_common(parser)


def run_ls(options: Options, console: Console) -> int:
    """List what there is."""
    return run_once(_list(options, console))


async def _list(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        if options.collection is None:
            await _collections(library, options, console)
            return OK
        await check_collections(library.store, [options.collection])
        documents = await library.store.documents(options.collection)
    if options.json:
        console.print_json([document_entry(document) for document in documents])
    elif documents:
        print_table(console, DOCUMENTS, [_row(document) for document in documents])
    else:
        console.say("It is empty.")
    return OK


def _row(document: DocumentInfo) -> tuple[str, ...]:
    return document.id, document.type, document.date[:10], document.title, document.source


async def _collections(library: Library, options: Options, console: Console) -> None:
    listed = (await tools_of(library).list_collections({}))["collections"]
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


def add_stats_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "the statistics, as kb.stats returns them")
    add_common(parser)


def run_stats(options: Options, console: Console) -> int:
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


def add_verify_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--repair", action="store_true", help="make a damaged index anew from the texts that are kept")
    add_json(parser, "what was found")
    add_common(parser)


def run_verify(options: Options, console: Console) -> int:
    """Check the file, every passage, and every part of the index."""
    return run_once(_verify(options, console))


async def _verify(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        problems = await library.store.verify()
        damaged = await _damaged(library)
        if damaged and options.repair:
            await library.reindex(list(damaged))
            console.say(f"Made anew: the index of {', '.join(damaged)}.")
            damaged = await _damaged(library)
    problems += [f"{collection}: {reason}" for collection, reason in damaged.items()]
    if options.json:
        console.print_json({"ok": not problems, "problems": problems})
    else:
        for problem in problems:
            console.say(problem, "red")
        console.print("Something is wrong; see above." if problems else "Everything is there and fits together.")
    return FAILURE if problems else OK


async def _damaged(library: Library) -> dict[str, str]:
    """Collections with a part of the index that cannot be read, and why."""
    from toolcrib.search.hybrid import Segment

    found: dict[str, str] = {}
    for record in await library.store.segments():
        encoded = await library.store.segment_bytes(record.id)
        try:
            size = record.size if encoded is None else len(Segment.from_bytes(encoded))
        except DamagedIndex as error:
            found[record.collection] = str(error)
            continue
        if size != record.size:
            found[record.collection] = f"A part of its index has {size} passages instead of {record.size}."
    return found
