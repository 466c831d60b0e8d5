"""``toolcrib servers``: how each one is doing; added, removed, switched, asked again; what it logs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.entries import STATE_STYLES, ask_and_show, asking_code, say_errors
from toolcrib.cli.failures import OK, UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import discover, ledger_here, load_here, open_here
from toolcrib.cli.running import run_once
from toolcrib.config.edit import add_server, remove_server, set_enabled
from toolcrib.config.model import ServerConfig
from toolcrib.config.parse import parse
from toolcrib.core.kinds import DiscoveryStatus, Share
from toolcrib.core.names import check_server_name
from toolcrib.project.project import edit_file, file_of, project_file
from toolcrib.project.secrets import put_away
from toolcrib.schema.text import printable
from toolcrib.server.views.servers import ServerLog, log_lines, server_views
from toolcrib.stores.files import read_text
from toolcrib.stores.paths import Environment, user_config_path

SERVER = arg("name", metavar="NAME", help="the server, as `toolcrib servers ls` shows it")
COLUMNS = (
    Column("SERVER", styles=("bold",)),
    Column("STATE", coloured=STATE_STYLES),
    Column("TOOLS", right=True),
    Column("SHARE"),
    Column("LAST ASKED"),
    Column("RUNS", flexible=True),
)


@command(arg("--probe", action="store_true", help="ask every server first"), as_json("the servers"))
async def run_ls(options: Options, console: Console) -> None:
    """List the servers."""
    async with open_here(options, console) as crib:
        if options.probe:
            await discover(crib, console, sorted(crib.shelves))
        views = server_views(crib)
    if options.json:
        console.print_json(views)
    elif views:
        rows = [(v.name, v.state, str(v.tools), v.share, v.last_discovered or "never", v.runs or "") for v in views]
        print_table(console, COLUMNS, rows)
        for view in views:
            if view.share is not Share.ALL:
                console.say(f"{view.name}: a lane for each {view.share}; {view.share_reason}.")
        say_errors(console, views)
    else:
        console.say("No server is configured. Add one: toolcrib servers add NAME -- command args…")


@command(
    arg("name", metavar="NAME", help="snake_case, the prefix of its tools"),
    arg("url", metavar="URL", nargs="?", help="where to reach it, or `-- command args…` to start it"),
    arg("--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable for it (repeatable)"),
    arg("--header", action="append", default=[], metavar="NAME=VALUE", help="an HTTP header (repeatable)"),
    arg("--cwd", metavar="DIR", help="the directory it runs in"),
    arg("--description", default="", metavar="TEXT", help="what it is for"),
    arg("--global", dest="user", action="store_true", help="write the user's file, not the project's"),
    takes_rest=True,
    usage="toolcrib servers add NAME [options] (URL | -- command args…)",
    examples="""\
examples:
  toolcrib servers add time -- uvx mcp-server-time
  toolcrib servers add github https://api.githubcopilot.com/mcp/ --header 'Authorization=Bearer ${GITHUB_TOKEN}'
  toolcrib servers add search --env SEARCH_KEY -- npx -y some-search-server

--env NAME without a value takes it each time from toolcrib's own environment, or from `toolcrib secrets`. Values that
look secret are kept there, and the file refers to them.""",
)
def run_add(options: Options, console: Console) -> int:
    """Write the server down, then find out whether it works; it stays either way."""
    around = Environment()
    path = user_config_path(around.env) if options.user else project_file(options.config, around)
    _refuse_known(options.name, path)
    server, secrets = put_away(_server(options), around)
    edit_file(path, lambda text: add_server(text, server, str(path)))
    console.say(f"Server {server.name!r} is written to {path}.")
    if secrets:
        console.say(f"No secret stands in it: toolcrib keeps {', '.join(secrets)} (`toolcrib secrets ls`).")
    return run_once(_try_out(options, console)) if server.name in load_here(options).config.servers else OK


async def _try_out(options: Options, console: Console) -> int:
    async with open_here(options, console) as crib:
        return await ask_and_show(crib, console, [options.name])


def _server(options: Options) -> ServerConfig:
    check_server_name(options.name)
    if bool(options.url) == bool(options.rest):
        hint = "Write `servers add NAME -- command args…` or `servers add NAME https://…`."
        raise UsageError("A server needs either a command after `--` or a URL.", hint=hint)
    env, headers = _pairs(options.env, references=True), _pairs(options.header)
    if options.url:
        return ServerConfig(options.name, url=_url(options.url), headers=headers, description=options.description)
    command, *args = options.rest
    return ServerConfig(
        options.name, command=command, args=tuple(args), env=env, cwd=options.cwd, description=options.description
    )


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://", "${")):
        raise UsageError(f"{text!r} is not a URL.", hint="To start a program, put it after `--`.")
    return text


def _pairs(words: Sequence[str], *, references: bool = False) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not (equals or references):
            raise UsageError(f"{word!r} is not NAME=VALUE.")
        pairs[name.strip()] = value.strip() if equals else f"${{{name}}}"
    return pairs


def _refuse_known(name: str, path: Path) -> None:
    text = read_text(path)
    if text and text.strip() and name in parse(text, str(path)).servers:
        raise UsageError(
            f"There is already a server {name!r} in {path}.", hint=f"Run `toolcrib servers rm {name}` first."
        )


@command(SERVER)
def run_rm(options: Options, console: Console) -> None:
    """Remove the server from the file it is written in."""
    path = file_of(options.name, load_here(options))
    edit_file(path, lambda text: remove_server(text, options.name, str(path)))
    console.say(f"Server {options.name!r} is removed from {path}.")
    left = load_here(options).config.servers.get(options.name)
    if left is not None:
        console.say(f"There is still one of that name in {left.origin}; it counts from now on.")
    else:
        asyncio.run(_forget(options))


async def _forget(options: Options) -> None:
    async with ledger_here(options) as ledger:
        if ledger is not None and options.name in await ledger.read():
            await ledger.update(options.name, lambda _: None)


@command(SERVER)
def run_enable(options: Options, console: Console) -> None:
    """Write it into the file the server is written in."""
    _switch(options, console, enabled=True)


@command(SERVER)
def run_disable(options: Options, console: Console) -> None:
    """Write it into the file the server is written in."""
    _switch(options, console, enabled=False)


def _switch(options: Options, console: Console, *, enabled: bool) -> None:
    path = file_of(options.name, load_here(options))
    edit_file(path, lambda text: set_enabled(text, options.name, enabled, str(path)))
    console.say(f"Server {options.name!r} is {'enabled' if enabled else 'disabled'} in {path}.")


@command(
    arg("names", metavar="NAME", nargs="*", default=[], help="the servers to ask; all when none is named"),
    as_json("the outcome"),
)
async def run_refresh(options: Options, console: Console) -> int:
    """Ask, and show the outcome."""
    async with open_here(options, console) as crib:
        names = options.names or sorted(crib.shelves)
        if not names and not options.json:
            console.say("No server is enabled. Add one: toolcrib servers add NAME -- command args…")
            return OK
        return await ask_and_show(crib, console, names, as_json=options.json)


@command(
    SERVER,
    arg("-n", "--lines", type=int, default=100, metavar="COUNT", help="how many lines at most [100]"),
    as_json("the lines"),
)
async def run_logs(options: Options, console: Console) -> int:
    """Start the server, let it list its tools, and show its own words."""
    async with open_here(options, console) as crib:
        record = (await discover(crib, console, [options.name]))[options.name]
        lines = log_lines(crib, options.name, options.lines)
    if options.json:
        console.print_json(ServerLog(options.name, lines))
    for line in [] if options.json else lines:
        console.print(printable(line))
    if not lines:
        console.say(f"Server {options.name!r} wrote nothing to stderr.", "dim")
    if record.status is DiscoveryStatus.FAILED:
        console.say(f"toolcrib: {record.error}")
    return asking_code(record)
