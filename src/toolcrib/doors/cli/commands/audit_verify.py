"""``toolcrib audit verify``: whether the log is as it was written."""

from toolcrib.doors.cli.audit_view import audit_here, print_entries, telling_why
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK, UsageError
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.views.audit import verdict
from toolcrib.stores.audit_verify import Finding, Head

UNFINISHED_SHOWN = 20
EXAMPLES = """\
examples:
  toolcrib audit verify
  toolcrib audit verify --head 1042:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

Whoever can write the log can also rebuild the whole chain. toolcrib notes its head in another directory, which shows
that unless the note was changed as well; a head that you noted on another machine shows even that."""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--head", metavar="SEQ:HASH", help="a head noted earlier: it must still be part of the chain")
    parser.add_argument(
        "--accept-loss", action="store_true", help="forget the noted head: the log was moved or removed on purpose"
    )
    add_json(parser, "what was found")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Walk the chain; any change is a failure."""
    noted = _noted(options.head)
    place = audit_here(options)
    if options.accept_loss:
        place.note.forget()
        console.say(f"The head noted for {place} is forgotten; it is noted anew with the next entry.")
    with telling_why(options):
        finding = place.verify(noted)
    if options.json:
        console.print_json(verdict(finding))
    else:
        _show(finding, noted, console)
    return OK if finding.fault is None else FAILURE


def _noted(text: str | None) -> Head | None:
    try:
        return None if text is None else Head.parse(text)
    except ValueError:
        raise UsageError("--head is not SEQ:HASH.", hint="Copy what `toolcrib audit verify` printed.") from None


def _show(finding: Finding, noted: Head | None, console: Console) -> None:
    fault = finding.fault
    if fault is None:
        held = ", and the noted head is part of it" if noted else ""
        console.print(console.paint(f"{finding.entries} records, the chain is whole{held}.", "green"))
        console.print(f"Head: {finding.head}")
    else:
        console.print(console.paint(f"The log was changed: {fault.words}.", "red", "bold"))
        console.print(f"{finding.entries} records before it are as they were written, up to {finding.head}.")
    if finding.unfinished:
        console.print()
        console.print("Outcome not recorded (still running, or the process ended first):")
        print_entries(console, finding.unfinished[-UNFINISHED_SHOWN:])
