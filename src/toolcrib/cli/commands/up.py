"""``toolcrib up`` and ``serve``: find the configuration, serve it, show what is there and how to connect."""

import asyncio
from typing import Any

from toolcrib.cli.console import Console
from toolcrib.cli.entries import print_servers
from toolcrib.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.cli.logs import TOLD_ANYWAY, Log, serving_log
from toolcrib.cli.opening import add_first_run, add_workspace, asking, is_bare, offer_import, wait_with_status
from toolcrib.cli.reaching import connection_lines
from toolcrib.cli.running import Stop, run_until_stopped
from toolcrib.cli.serving import add_no_prefix, add_replica, add_serving, client_entry, open_serving
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.events import Event
from toolcrib.core.kinds import ServerState
from toolcrib.crib.crib import Crib
from toolcrib.server.serve import Serving
from toolcrib.server.views.costs import DAYS, summary, usage_of
from toolcrib.server.views.servers import ServerView, native_view, server_views

UP_EXAMPLES = """\
examples:
  toolcrib up
  toolcrib up --import     with the servers that other programs have, if nothing is configured yet
  toolcrib up --config ~/.cursor/mcp.json --port 0"""


def add_up_arguments(parser: Parser) -> None:
    """What it takes."""
    add_serving(parser)
    add_no_prefix(parser)
    add_workspace(parser)
    add_first_run(parser)
    add_json(parser, "the table, once,")
    add_common(parser)


def run_up(options: Options, console: Console) -> int:
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
    views = [*native_view(serving.crib), *server_views(serving.crib)]
    for view in views:
        view.error = view.error or (troubles.get(view.name) if view.state is ServerState.ASKING else None)
    if options.json:
        console.print_json(_document(serving, views))
        return
    _show_origin(serving, console)
    print_servers(console, views)
    console.print(f"{cost}: toolcrib cost")
    for line in connection_lines(serving, console):
        console.print(line)


def _document(serving: Serving, views: list[ServerView]) -> dict[str, Any]:
    return {
        "url": serving.url,
        "token": serving.token.origin if serving.token else None,
        "files": [str(path) for path in serving.loaded.files],
        "servers": views,
        "client": client_entry(serving),
    }


def _show_origin(serving: Serving, console: Console) -> None:
    if is_bare(serving.loaded):
        console.print("Nothing is configured here, so this is the built-in tool set.")
    else:
        files = ", ".join(str(path) for path in serving.loaded.files) or "the environment"
        console.print(f"Configuration: {files}")
    console.print()


SERVE_EXAMPLES = """\
examples:
  toolcrib serve
  toolcrib serve --config .mcp.json --port 0
  TOOLCRIB_TOKEN=$(openssl rand -hex 32) toolcrib serve --host 0.0.0.0"""


def add_serve_arguments(parser: Parser) -> None:
    """What it takes."""
    add_serving(parser)
    add_replica(parser)
    add_no_prefix(parser)
    add_workspace(parser)
    add_common(parser)


def run_serve(options: Options, console: Console) -> int:
    """Serve until a signal says stop."""

    async def serve(stop: Stop) -> int:
        async with open_serving(options, console, serving_log(options, console)) as serving:
            console.say(f"toolcrib: serving MCP at {serving.url}")
            if serving.token is not None:
                console.say(f"toolcrib: clients need the bearer token of {serving.token.origin}")
            await stop.wait()
            await serving.drain(stop.sign)
        return 0

    return run_until_stopped(serve)
