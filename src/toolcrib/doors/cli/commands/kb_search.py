"""``toolcrib kb search``: the best passages for a query."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import add_where, open_kb, print_location, search_of
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.retrieve import Findings, FoundPassage
from toolcrib.knowledge.shapes import performance, result
from toolcrib.schema.text import printable
from toolcrib.search.highlight import highlights

SHOWN_MAX = 400
EXAMPLES = """\
examples:
  toolcrib kb search how are tools isolated
  toolcrib kb search "rate limit" --collection handbook --type pdf -n 3 --json"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("words", nargs="+", metavar="WORD", help="what to look for")
    parser.add_argument("-n", "--number", type=int, default=5, metavar="COUNT", help="how many passages [5]")
    add_where(parser)
    add_json(parser, "what was found, as kb.hybrid_search returns it")
    add_common(parser)


def run(options: Options, console: Console) -> int:
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


def _document(query: str, findings: Findings) -> dict[str, object]:
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
