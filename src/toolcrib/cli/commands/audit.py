"""``toolcrib audit``: the newest entries and those to come, searching, exporting, and whether the chain holds."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from toolcrib.cli.console import Column, Console, escaped, one_line, print_table
from toolcrib.cli.entries import export_to
from toolcrib.cli.failures import FAILURE, OK, NotFound, UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import load_here
from toolcrib.core.audit import CALL, CALL_BEGUN
from toolcrib.crib.layers import audit_place
from toolcrib.server.views.calls import audit_item, audit_verdict, iso, moment_us
from toolcrib.stores.audit.log import AuditLog, AuditQuery, Head, NoAuditLog, Stored, in_order, latest
from toolcrib.stores.audit.note import NotedPlace
from toolcrib.stores.audit.verify import Finding
from toolcrib.stores.paths import Environment

NOT_RECORDED = "not recorded"
BAD = ("red",)
COLUMNS = (
    Column("SEQ", right=True, styles=("dim",)),
    Column("TIME (UTC)"),
    Column("CALLER"),
    Column("WHAT", styles=("bold",)),
    Column("DECISION", coloured={"denied": BAD, "unknown": BAD, "held": BAD, "hidden": BAD}),
    Column("OUTCOME", styles=("red",), coloured={"success": ("green",), NOT_RECORDED: ("yellow",)}),
    Column("MS", right=True),
    Column("ARGUMENTS", flexible=True, styles=("dim",)),
)


def audit_here(options: Options) -> NotedPlace:
    """Where the log is."""
    return audit_place(load_here(options).config, Environment())


@contextmanager
def open_log(options: Options) -> Iterator[AuditLog]:
    """The log, for reading; that there is none is an error that says why."""
    with telling_why(options), audit_here(options).reading() as log:
        yield log


@contextmanager
def telling_why(options: Options) -> Iterator[None]:
    """Say why there is no log, if there is none."""
    try:
        yield
    except NoAuditLog as error:
        enabled = load_here(options).config.audit.enabled
        why = "The first call makes it." if enabled else "It is switched off: [audit] enabled = false."
        raise NotFound(error.message, hint=why) from None


SINCE = arg("--since", metavar="WHEN", help="only what is newer: 30m, 1h, 2d ago, or a date and time")


def since_us(text: str | None) -> int | None:
    """Microseconds since 1970, from ``1h`` ago or an ISO date; without a zone it is local time."""
    if text is None:
        return None
    try:
        return moment_us(text)
    except ValueError:
        raise UsageError(f"--since {text!r} is no time.", hint="Write 30m, 1h, 2d, or 2026-01-31T12:00.") from None


def as_line(entry: Stored) -> str:
    """An entry as one line of JSON, with nothing in it that a terminal might obey."""
    return escaped(msgspec.json.encode(audit_item(entry)).decode())


def print_entries(console: Console, entries: Sequence[Stored]) -> None:
    """The entries as a table."""
    print_table(console, COLUMNS, [_row(entry) for entry in entries])


def one_line_of(console: Console, entry: Stored) -> str:
    """An entry as one line, for what is shown while it comes in."""
    seq, when, caller, what, decision, outcome, took, told = map(one_line, _row(entry))
    style = COLUMNS[5].coloured.get(outcome, COLUMNS[5].styles)
    words = (when, caller, console.paint(what, "bold"), decision, console.paint(outcome, *style), took and f"{took} ms")
    return "  ".join(filter(None, (seq, *words, console.paint(told, "dim"))))


def _row(entry: Stored) -> tuple[str, ...]:
    is_begun = entry.event == CALL_BEGUN
    what = entry.tool if is_begun or entry.event == CALL else f"{entry.event} {entry.tool}".rstrip()
    return (
        str(entry.seq),
        iso(entry.time)[:23].replace("T", " "),
        entry.caller,
        what,
        entry.decision,
        NOT_RECORDED if is_begun else entry.outcome,
        "" if entry.duration_ms is None else f"{entry.duration_ms:.1f}",
        _told(entry),
    )


def _told(entry: Stored) -> str:
    """The values if they were written down, else the shape, else whatever else is known."""
    details = entry.details
    if "values" in details:
        return str(details["values"])
    shape = details.get("arguments", details)
    return ", ".join(f"{key}: {value}" for key, value in shape.items()) if isinstance(shape, dict) else str(shape)


POLL_S = 0.5


@command(
    arg("-n", "--number", type=int, default=20, metavar="COUNT", help="how many [20]"),
    arg("-f", "--follow", action="store_true", help="go on showing what is added, until Ctrl-C"),
    as_json("the entries (with --follow one per line)"),
    examples="""\
examples:
  toolcrib audit tail
  toolcrib audit tail -n 5 --follow""",
)
def run_tail(options: Options, console: Console) -> None:
    """Show the end of the log."""
    with open_log(options) as log:
        entries = latest(log, AuditQuery(), max(options.number, 1))
        if options.json and not options.follow:
            console.print_json([audit_item(entry) for entry in entries])
        elif options.json:
            for entry in entries:
                console.print(as_line(entry))
        else:
            print_entries(console, entries)
        if options.follow:
            _follow(log, max((entry.seq for entry in entries), default=0), options, console)


def _follow(log: AuditLog, after: int, options: Options, console: Console) -> None:
    """Calls are shown when they have ended, one line each."""
    while True:
        console.out.flush()
        time.sleep(POLL_S)
        for entry in latest(log, AuditQuery(after=after)):
            after = max(after, entry.seq)
            if entry.event != CALL_BEGUN:
                console.print(as_line(entry) if options.json else one_line_of(console, entry))


@command(
    arg("--tool", metavar="PATTERN", help="the tool's name; * stands for anything"),
    arg("--caller", metavar="PATTERN", help="who called"),
    arg("--outcome", metavar="PATTERN", help="success, or the code of an error"),
    arg("--denied", action="store_true", help="only what was refused to its caller"),
    SINCE,
    arg("-n", "--number", type=int, default=100, metavar="COUNT", help="the newest so many [100]"),
    as_json("the entries"),
    examples="""\
examples:
  toolcrib audit search --tool 'github__*' --since 1h
  toolcrib audit search --denied
  toolcrib audit search --outcome TOOL_TIMEOUT --json""",
)
def run_search(options: Options, console: Console) -> None:
    """Show what fits, the newest last."""
    query = AuditQuery(options.tool, options.caller, options.outcome, since_us(options.since), options.denied)
    with open_log(options) as log:
        entries = latest(log, query, max(options.number, 1))
    if options.json:
        console.print_json([audit_item(entry) for entry in entries])
    elif entries:
        print_entries(console, entries)
    else:
        console.say("Nothing in the log fits.")


UNFINISHED_SHOWN = 20


@command(
    arg("--head", metavar="SEQ:HASH", help="a head noted earlier: it must still be part of the chain"),
    arg("--accept-loss", action="store_true", help="forget the noted head: the log was moved or removed on purpose"),
    as_json("what was found"),
    examples="""\
examples:
  toolcrib audit verify
  toolcrib audit verify --head 1042:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

Whoever can write the log can also rebuild the whole chain. toolcrib notes its head in another directory, which shows
that unless the note was changed as well; a head that you noted on another machine shows even that.""",
)
def run_verify(options: Options, console: Console) -> int:
    """Walk the chain; any change is a failure."""
    noted = _noted(options.head)
    place = audit_here(options)
    if options.accept_loss:
        place.note.forget()
        console.say(f"The head noted for {place} is forgotten; it is noted anew with the next entry.")
    with telling_why(options):
        finding = place.verify(noted)
    if options.json:
        console.print_json(audit_verdict(finding))
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


@command(
    SINCE,
    arg("-o", "--output", metavar="FILE", help="write to this file, which only you may read"),
    examples="""\
examples:
  toolcrib audit export --since 2026-01-01 -o january.jsonl
  toolcrib audit export | jq -r 'select(.outcome == "TOOL_TIMEOUT") | .tool'""",
)
def run_export(options: Options, console: Console) -> None:
    """Write every entry, the oldest first."""
    count = 0
    with open_log(options) as log, export_to(options.output) as write:
        for count, entry in enumerate(in_order(log, since_us(options.since)), 1):  # noqa: B007 - told below
            write(f"{as_line(entry)}\n".encode())
    if options.output:
        console.say(f"{count} entries written to {options.output}.")
