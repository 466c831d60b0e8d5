"""What came of asking servers for their tools, as a table and an exit code."""

from toolcrib.crib import Crib
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.entries import print_servers
from toolcrib.doors.cli.failures import OK, exit_code
from toolcrib.doors.cli.opening import discover
from toolcrib.doors.views.servers import server_entries


async def ask_and_show(crib: Crib, console: Console, names: list[str], *, as_json: bool = False) -> int:
    """Ask these servers, show how each did; a failure shows in the exit code."""
    await discover(crib, console, names)
    entries = [entry for entry in server_entries(crib) if entry["name"] in names]
    if as_json:
        console.print_json(entries)
    else:
        print_servers(console, entries)
    failed = [name for name in names if crib.shelves[name].record.status == "failed"]
    return exit_code("TOOL_UNAVAILABLE", crib.shelves[failed[0]].source.status().details) if failed else OK
