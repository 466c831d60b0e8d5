"""``toolcrib up`` and ``serve``: find the configuration, serve it, show what is there and how to connect."""

import asyncio
import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.cli.background import BACKGROUND, run_background
from toolcrib.cli.commands.files import add_first_run, offer_import
from toolcrib.cli.console import Console
from toolcrib.cli.entries import print_servers
from toolcrib.cli.flags import HTTP, NAMES_AND_FILES
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.logs import TOLD_ANYWAY, Log, serving_log
from toolcrib.cli.opening import asking, wait_with_status
from toolcrib.cli.running import Stop, run_until_stopped
from toolcrib.cli.serving import open_serving
from toolcrib.config.model import is_bare
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.events import Event
from toolcrib.core.kinds import ServerState
from toolcrib.crib.crib import Crib
from toolcrib.server.serve import Serving
from toolcrib.server.views.costs import DAYS, summary, usage_of
from toolcrib.server.views.servers import ServerView, native_view, server_views


@command(
    *HTTP,
    *NAMES_AND_FILES,
    add_first_run,
    as_json("the table, once,"),
    examples="""\
examples:
  toolcrib up
  toolcrib up --import     with the servers that other programs have, if nothing is configured yet
  toolcrib up --config ~/.cursor/mcp.json --port 0""",
)
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
        view.cause = troubles.get(view.name, view.cause) if view.state.is_underway else view.cause
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
    if is_bare(serving.loaded.config):
        console.print("Nothing is configured here, so this is the built-in tool set.")
    else:
        files = ", ".join(str(path) for path in serving.loaded.files) or "the environment"
        console.print(f"Configuration: {files}")
    console.print()


def connection_lines(serving: Serving, console: Console) -> Iterator[str]:
    """What ``up`` prints below its table."""
    yield ""
    yield f"Serving MCP at {console.paint(serving.url, 'bold', 'cyan')}  (Ctrl-C stops)"
    for name in serving.project.windows.names:
        yield f"  profile {name}: {serving.url}/{name}"
    for view in server_views(serving.crib):
        if view.state is ServerState.SIGN_IN and serving.crib.sign_ins is not None:
            link = serving.crib.sign_ins.link_to(view.name)
            yield f"Sign in at {view.name}: {console.paint(link, 'cyan')}  (or: toolcrib login {view.name})"
    yield f"Open the page: {console.paint(serving.sign_in, 'cyan')}  (this link works once)"
    yield ""
    yield "Connect a client:"
    for label, line in _ways(serving).items():
        yield f"  {console.paint(f'{label:<12}', 'dim')} {line}"
    if serving.token is not None:
        yield from _token_lines(serving)
    if is_bare(serving.loaded.config):
        yield ""
        yield "Add a first server:  toolcrib servers add time -- uvx mcp-server-time"


def _ways(serving: Serving) -> dict[str, str]:
    """How each kind of client is told of this; never with the token itself."""
    header = ' --header "Authorization: Bearer $TOOLCRIB_TOKEN"' if serving.token else ""
    vs_code: dict[str, object] = {"name": "toolcrib", "type": "http", "url": serving.url}
    if serving.token:
        vs_code["headers"] = {"Authorization": "Bearer ${env:TOOLCRIB_TOKEN}"}
    project = serving.loaded.project
    stdio = {"command": "toolcrib", "args": ["stdio", "--config", str(project)] if project else ["stdio"]}
    return {
        "Claude Code": f"claude mcp add --transport http toolcrib {serving.url}{header}",
        "VS Code": f"code --add-mcp {shlex.quote(json.dumps(vs_code))}",
        "others": json.dumps(client_entry(serving)),
        "in one step": "toolcrib connect claude-code  (or cursor, vscode, codex, gemini …)",
        "over stdio": json.dumps({"mcpServers": {"toolcrib": stdio}}),
    }


def _token_lines(serving: Serving) -> Iterator[str]:
    """Where the token is; never the token itself."""
    origin = serving.token.origin if serving.token else ""
    yield ""
    if origin.startswith("/"):
        yield f"Clients need the token:  export TOOLCRIB_TOKEN=$(cat {shlex.quote(origin)})"
    else:
        yield f"Clients need the token that was given by {origin}."


def client_entry(serving: Serving) -> Mapping[str, object]:
    """What a client's ``mcpServers`` file needs to reach this."""
    entry: dict[str, object] = {"type": "http", "url": serving.url}
    if serving.token is not None:
        entry["headers"] = {"Authorization": "Bearer ${TOOLCRIB_TOKEN}"}
    return {"mcpServers": {"toolcrib": entry}}


@command(
    *HTTP,
    arg("--replica", metavar="NAME", help="what this one is called among replicas [by its machine and process]"),
    *NAMES_AND_FILES,
    *BACKGROUND,
    examples="""\
examples:
  toolcrib serve
  toolcrib serve --config .mcp.json --port 0
  TOOLCRIB_TOKEN=$(openssl rand -hex 32) toolcrib serve --host 0.0.0.0""",
)
def run_serve(options: Options, console: Console) -> int:
    """Serve until a signal says stop."""
    if options.background is not None:
        return run_background(options, console)

    async def serve(stop: Stop) -> int:
        async with open_serving(options, console, serving_log(options, console)) as serving:
            console.say(f"toolcrib: serving MCP at {serving.url}")
            if serving.token is not None:
                console.say(f"toolcrib: clients need the bearer token of {serving.token.origin}")
            await stop.wait()
            await serving.drain(stop.sign)
        return 0

    return run_until_stopped(serve)
