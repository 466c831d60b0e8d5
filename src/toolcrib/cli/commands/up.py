"""``toolcrib up`` and ``serve``: find the configuration, serve it, show what is there and how to connect."""

import asyncio
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcrib.cli.background import BACKGROUND, run_background
from toolcrib.cli.board import watch
from toolcrib.cli.commands.files import add_first_run, offer_import
from toolcrib.cli.console import Console
from toolcrib.cli.entries import print_servers
from toolcrib.cli.flags import HTTP, NAMES_AND_FILES
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.logs import TOLD_ANYWAY, KeptLog, serving_log
from toolcrib.cli.opening import asking, wait_with_status
from toolcrib.cli.running import Stop, run_until_stopped
from toolcrib.cli.serving import open_serving, wind_up
from toolcrib.config.model import is_bare
from toolcrib.core import events
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.events import Event
from toolcrib.core.kinds import ServerState
from toolcrib.crib.crib import Crib
from toolcrib.server.serve import Serving
from toolcrib.server.views.costs import DAYS, summary, usage_of
from toolcrib.server.views.servers import ServerView, inner_views, server_views
from toolcrib.stores.audit.log import ToolUsage


@command(
    *HTTP,
    *NAMES_AND_FILES,
    add_first_run,
    arg("-v", "--verbose", action="store_true", help="on a terminal, show the log, not only what breaks"),
    as_json("the table, once,"),
    examples="""\
examples:
  toolcrib up
  toolcrib up --import     with the servers that other programs have, if nothing is configured yet
  toolcrib up --config ~/.cursor/mcp.json --port 0""",
)
def run_up(options: Options, console: Console) -> int:
    """Serve, and show what is served while it comes up."""
    is_watched = console.is_live and not options.json
    level = "warning" if is_watched and not options.verbose else "info"

    async def serve(stop: Stop) -> int:
        log = UpLog(serving_log(options, console, level), is_quiet=level == "warning")
        async with open_serving(options, console, log, stop) as serving:
            if not console.err.isatty():
                console.say(f"toolcrib: serving MCP at {serving.url}")
            show = _show_live if is_watched else _show_once
            await show(serving, log, options, console, stop)
            console.out.flush()
            log.is_over = True
            await stop.wait()
            await wind_up(serving, stop)
        return 0

    offer_import(options, console)
    return run_until_stopped(serve)


class UpLog:
    """Keeps the log from telling what the table tells; on a terminal, that a server that is known to be away is away
    still."""

    def __init__(self, log: KeptLog, *, is_quiet: bool) -> None:
        self._log, self._is_quiet = log, is_quiet
        self.troubles: dict[str, str] = {}
        """What the servers that are not there said last."""
        self.is_over = False
        """Whether the table is finished."""

    def hears(self, level: str) -> bool:
        """Whether anything of that level is written."""
        return self._log.hears(level)

    def __call__(self, event: Event) -> None:
        """Write the event to where it belongs."""
        if self._is_told(event):
            self._log(event)
        else:
            self._log.keep(event)
        server = event.fields.get("server", "")
        if server and "error" in event.fields:
            self.troubles[server] = str(event.fields["error"])
        elif event.name == events.DISCOVERY_SERVER_SUCCESS:
            self.troubles.pop(server, None)

    def _is_told(self, event: Event) -> bool:
        if not self.is_over:
            return event.name not in TOLD_ANYWAY and (event.level != "info" or not self._is_quiet)
        is_known = event.name in TOLD_ANYWAY and event.fields.get("server") in self.troubles
        return not (self._is_quiet and is_known)


async def _show_live(serving: Serving, log: UpLog, options: Options, console: Console, stop: Stop) -> None:
    """Where it is served and how to connect at once, then the table while it fills; at the end as it came to be."""
    del options
    _show_origin(serving, console)
    for line in connection_lines(serving, console):
        console.print(line)
    console.print()
    if await watch(serving.crib, console, stop):
        usage = asyncio.ensure_future(asyncio.to_thread(usage_of, serving.project.audit_log, DAYS))
        views, cost = _views(serving, log), _cost(serving, await usage)
        await asyncio.to_thread(_print_table, console, views, cost)


def _print_table(console: Console, views: Sequence[ServerView], cost: str) -> None:
    print_servers(console, views)
    console.print(cost)
    console.out.flush()


async def _show_once(serving: Serving, log: UpLog, options: Options, console: Console, stop: Stop) -> None:
    """The table and how to connect, when all servers answered or the grace is over."""
    usage = asyncio.ensure_future(asyncio.to_thread(usage_of, serving.project.audit_log, DAYS))
    if not await _settled(serving.crib, console, stop):
        usage.cancel()
        return
    if options.json:
        console.print_json(_document(serving, _views(serving, log)))
        return
    _show_origin(serving, console)
    _print_table(console, _views(serving, log), _cost(serving, await usage))
    for line in connection_lines(serving, console):
        console.print(line)


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


def _views(serving: Serving, log: UpLog) -> list[ServerView]:
    views = [*inner_views(serving.crib), *server_views(serving.crib)]
    for view in views:
        view.cause = log.troubles.get(view.name, view.cause) if view.state.is_underway else view.cause
    return views


def _cost(serving: Serving, usage: ToolUsage | None) -> str:
    """What clients are shown of it, and what that costs."""
    routes, every = serving.crib.catalog.visible_to(LOCAL_USER.grants), len(serving.crib.catalog.routes)
    kept_back = f" ({every - len(routes)} are kept back)" if every > len(routes) else ""
    return f"{summary(routes, usage)}{kept_back}: toolcrib cost"


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
        async with open_serving(options, console, serving_log(options, console), stop) as serving:
            console.say(f"toolcrib: serving MCP at {serving.url}")
            if serving.token is not None:
                console.say(f"toolcrib: clients need the bearer token of {serving.token.origin}")
            await stop.wait()
            await wind_up(serving, stop)
        return 0

    return run_until_stopped(serve)
