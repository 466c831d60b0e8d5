"""``toolcrib db verify``: whether what the shared database holds is as it should be."""

from collections.abc import Sequence

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.shared_store import open_database, shown
from toolcrib.stores.postgres.verify import StoreFinding, verify_store


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "what was found")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Look at everything, and change nothing."""
    return run_once(_verify(options, console))


async def _verify(options: Options, console: Console) -> int:
    async with open_database(options) as database:
        findings, place = await verify_store(database), shown(database)
    if options.json:
        parts = {finding.part: list(finding.problems) for finding in findings}
        console.print_json({"url": place, "name": database.name, "isSound": _is_sound(findings), "problems": parts})
    else:
        _print(findings, console)
    return OK if _is_sound(findings) else FAILURE


def _is_sound(findings: Sequence[StoreFinding]) -> bool:
    return not any(finding.problems for finding in findings)


def _print(findings: Sequence[StoreFinding], console: Console) -> None:
    for finding in findings:
        console.print(f"{finding.part}: {'as it should be' if not finding.problems else 'not as it should be'}")
        for problem in finding.problems:
            console.print_foreign(f"  {problem}")
