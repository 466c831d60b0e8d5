"""``toolcrib up``: find the configuration, serve it, show what is there and how to connect."""

import asyncio
from typing import Any

from toolcrib.core.access import LOCAL_USER
from toolcrib.core.events import Event
from toolcrib.crib import Crib
from toolcrib.doors.cli.connect import connection_lines
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.entries import print_servers
from toolcrib.doors.cli.first_run import add_first_run, offer_import
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.logs import TOLD_ANYWAY, Log, serving_log
from toolcrib.doors.cli.opening import asking, is_bare, wait_with_status
from toolcrib.doors.cli.running import Stop, run_until_stopped
from toolcrib.doors.cli.serving import Serving, add_no_prefix, add_serving, client_entry, open_serving
from toolcrib.doors.cli.workspace import add_workspace
from toolcrib.doors.views.costs import DAYS, summary, usage_of
from toolcrib.doors.views.servers import native_entry, server_entries

EXAMPLES = """\
examples:
  toolcrib up
  toolcrib up --import     with the servers that other programs have, if nothing is configured yet
  toolcrib up --config ~/.cursor/mcp.json --port 0"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_serving(parser)
    add_no_prefix(parser)
    add_workspace(parser)
    add_first_run(parser)
    add_json(parser, "the table, once,")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Serve, and say what is served as soon as that is known."""

    async def serve(stop: Stop) -> int:
        emit = _BeforeTheTable(serving_log(options, console))
        async with open_serving(options, console, emit) as serving:
            if not console.err.isatty():
                console.say(f"toolcrib: serving MCP at {serving.url}")
            usage = asyncio.ensure_future(asyncio.to_thread(usage_of, serving.project.audit_log, DAYS))
            if await _settled(serving.crib, console, stop):
                routes = serving.crib.catalog.visible_to(LOCAL_USER.grants)
                _show(serving, emit.troubles, options, console, cost=summary(routes, await usage))
                console.out.flush()
            emit.is_over = True
            await stop.wait()
            await serving.drain(stop.sign)
        return 0

    offer_import(options, console)
    return run_until_stopped(serve)


class _BeforeTheTable:
    """Keeps the log from telling what the table will tell, and notes it for the table."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.troubles: dict[str, str] = {}
        self.is_over = False

    def hears(self, level: str) -> bool:
        """Whether anything of that level is written."""
        return self._log.hears(level)

    def __call__(self, event: Event) -> None:
        if self.is_over or (event.level != "info" and event.name not in TOLD_ANYWAY):
            self._log(event)
        elif "server" in event.fields and "error" in event.fields:
            self.troubles[event.fields["server"]] = str(event.fields["error"])


async def _settled(crib: Crib, console: Console, stop: asyncio.Event) -> bool:
    """Wait until every server answered or the grace is over; false if we are to stop before."""
    answers = asyncio.ensure_future(wait_with_status(console, crib.current(), lambda: asking(crib)))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([answers, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if answers.done():
        answers.result()
        return True
    answers.cancel()
    await asyncio.wait([answers])
    return False


def _show(serving: Serving, troubles: dict[str, str], options: Options, console: Console, *, cost: str) -> None:
    entries = [*native_entry(serving.crib), *server_entries(serving.crib)]
    for entry in entries:
        entry["error"] = entry["error"] or (troubles.get(entry["name"]) if entry["state"] == "asking" else None)
    if options.json:
        console.print_json(_document(serving, entries))
        return
    _show_origin(serving, console)
    print_servers(console, entries)
    console.print(f"{cost}: toolcrib tokens")
    for line in connection_lines(serving, console):
        console.print(line)


def _document(serving: Serving, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "url": serving.url,
        "token": serving.token.origin if serving.token else None,
        "files": [str(path) for path in serving.loaded.files],
        "servers": entries,
        "client": client_entry(serving),
    }


def _show_origin(serving: Serving, console: Console) -> None:
    if is_bare(serving.loaded):
        console.print("Nothing is configured here, so this is the built-in tool set.")
    else:
        files = ", ".join(str(path) for path in serving.loaded.files) or "the environment"
        console.print(f"Configuration: {files}")
    console.print()
