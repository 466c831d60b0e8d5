"""``toolcrib kb ask``: an answer from the documents, with where it comes from."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import add_where, answerer, open_kb, print_location, search_of
from toolcrib.doors.cli.opening import wait_with_status
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.answer import Answered

EXAMPLES = """\
examples:
  toolcrib kb ask How do I add a server?
  toolcrib kb ask "What is the notice period?" --collection contracts --json"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("words", nargs="+", metavar="WORD", help="the question")
    parser.add_argument("-n", "--number", type=int, default=8, metavar="COUNT", help="passages to answer from [8]")
    add_where(parser)
    add_json(parser, "the answer, as kb.answer returns it")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Answer; with the exit code 1 if the documents do not."""
    return run_once(_ask(options, console))


async def _ask(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        search = await search_of(library, options, options.words)
        answered = await wait_with_status(console, answerer(options).answer(library, search), "thinking")
    if options.json:
        console.print_json(answered.to_json())
    else:
        _print(console, answered)
    return FAILURE if answered.mode == "none" else OK


def _print(console: Console, answered: Answered) -> None:
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
