"""``toolcrib config show``: every setting, secrets masked, and with ``--origin`` where it came from."""

from typing import Any

from toolcrib.config.explain import Explained, explain
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import load_here
from toolcrib.doors.cli.table import Column, print_table

COLUMNS = (Column("SETTING", styles=("bold",)), Column("VALUE", flexible=True), Column("FROM", styles=("dim",)))


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--origin", action="store_true", help="show where each setting came from")
    add_json(parser, "the settings")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Show what toolcrib would use here."""
    settings = explain(load_here(options).config)
    if options.json:
        console.print_json([_entry(entry, with_origin=options.origin) for entry in settings])
        return OK
    rows = [(entry.setting, _text(entry.value), _place(entry)) for entry in settings]
    shown = len(COLUMNS) if options.origin else len(COLUMNS) - 1
    print_table(console, COLUMNS[:shown], [row[:shown] for row in rows])
    return OK


def _entry(entry: Explained, *, with_origin: bool) -> dict[str, Any]:
    shown = {"setting": entry.setting, "value": entry.value}
    if not with_origin:
        return shown
    milder = {"overrules": list(entry.overrules)} if entry.overrules else {}
    stricter = {"overruledBy": entry.overruled_by} if entry.overruled_by else {}
    return shown | {"origin": entry.origin} | milder | stricter


def _place(entry: Explained) -> str:
    """Where it came from; of a rule, what it overrules or is overruled by."""
    milder = f"; stricter than {' and '.join(entry.overrules)}" if entry.overrules else ""
    return f"{entry.origin}{milder}" + (f"; does not count beside {entry.overruled_by}" if entry.overruled_by else "")


def _text(value: Any) -> str:
    import msgspec

    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
