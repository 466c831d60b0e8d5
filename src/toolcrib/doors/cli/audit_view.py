"""The audit log for people and programs: which log, which entries, and how one entry is shown."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from toolcrib.core.audit import CALL, CALL_BEGUN
from toolcrib.doors.cli.console import Console, escaped
from toolcrib.doors.cli.failures import NotFound, UsageError
from toolcrib.doors.cli.invoke import Options, Parser
from toolcrib.doors.cli.opening import load_here
from toolcrib.doors.cli.table import Column, one_line, print_table
from toolcrib.doors.views.audit import as_document, iso, moment_us
from toolcrib.onlookers import audit_place
from toolcrib.stores.audit_log import AuditLog, NoAuditLog
from toolcrib.stores.audit_note import NotedPlace
from toolcrib.stores.audit_reading import Stored
from toolcrib.surroundings import Surroundings

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
    return audit_place(load_here(options).config, Surroundings())


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


def add_since(parser: Parser) -> None:
    """The option for how far back."""
    parser.add_argument("--since", metavar="WHEN", help="only what is newer: 30m, 1h, 2d ago, or a date and time")


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
    return escaped(msgspec.json.encode(as_document(entry)).decode())


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
