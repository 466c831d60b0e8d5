"""``toolcrib servers add``: write a server into the configuration, and ask it for its tools at once."""

from collections.abc import Sequence
from pathlib import Path

from toolcrib.config.edit import add_server
from toolcrib.config.masks import looks_secret
from toolcrib.config.model import ServerConfig
from toolcrib.config.parse import parse
from toolcrib.core.names import check_server_name
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.editing import file_for_new
from toolcrib.doors.cli.failures import OK, UsageError
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.opening import load_here, open_here
from toolcrib.doors.cli.outcomes import ask_and_show
from toolcrib.doors.cli.running import run_once
from toolcrib.project import edit_file
from toolcrib.stores.files import read_text

EXAMPLES = """\
examples:
  toolcrib servers add time -- uvx mcp-server-time
  toolcrib servers add github https://api.githubcopilot.com/mcp/ --header 'Authorization=Bearer ${GITHUB_TOKEN}'
  toolcrib servers add search --env SEARCH_KEY -- npx -y some-search-server

--env NAME without a value takes it from toolcrib's own environment each time; nothing secret is written."""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.takes_rest = True
    parser.usage = "toolcrib servers add NAME [options] (URL | -- command args…)"
    parser.add_argument("name", metavar="NAME", help="snake_case, the prefix of its tools")
    parser.add_argument("url", metavar="URL", nargs="?", help="where to reach it, or `-- command args…` to start it")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable for it (repeatable)"
    )
    parser.add_argument(
        "--header", action="append", default=[], metavar="NAME=VALUE", help="an HTTP header (repeatable)"
    )
    parser.add_argument("--cwd", metavar="DIR", help="the directory it runs in")
    parser.add_argument("--description", default="", metavar="TEXT", help="what it is for")
    parser.add_argument("--global", dest="user", action="store_true", help="write the user's file, not the project's")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Write the server down, then find out whether it works; it stays either way."""
    server = _server(options)
    path = file_for_new(options)
    _refuse_known(server.name, path)
    edit_file(path, lambda text: add_server(text, server, str(path)))
    console.say(f"Server {server.name!r} is written to {path}.")
    _warn_of_secrets(server, console)
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


def _warn_of_secrets(server: ServerConfig, console: Console) -> None:
    for name, value in (*server.env.items(), *server.headers.items()):
        if "${" not in value and looks_secret(name, value):
            console.say(
                f"{name} now stands in that file as it is; write ${{NAME}} to take it from the environment.", "yellow"
            )
