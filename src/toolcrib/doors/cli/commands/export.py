"""``toolcrib export``: the configured servers as other programs write them."""

from pathlib import Path

from toolcrib.config.foreign.export import FORMATS, export, is_masked, lost_settings
from toolcrib.config.model import ServerConfig
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, UsageError, unknown_server
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.opening import load_here
from toolcrib.stores.files import replace_text

EXAMPLES = """\
examples:
  toolcrib export
  toolcrib export --format codex --only github
  toolcrib export --with-secrets -o servers.json"""

_PRIVATE = 0o600


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="whose words [mcpServers]")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this server (repeatable)")
    parser.add_argument("--with-secrets", action="store_true", help="write secrets out instead of masking them")
    parser.add_argument("-o", "--output", metavar="FILE", help="write this new file, readable by you alone")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Print or write the servers."""
    servers = _servers(options)
    text = export(servers, options.format, with_secrets=options.with_secrets)
    if options.output:
        _write(Path(options.output).expanduser(), text, console)
    else:
        console.print_foreign(text.rstrip("\n"))
    _tell(servers, options, console)
    return OK


def _servers(options: Options) -> list[ServerConfig]:
    known = load_here(options).config.servers
    for name in options.only:
        if name not in known:
            raise unknown_server(name, list(known))
    return [server for name, server in known.items() if not options.only or name in options.only]


def _write(path: Path, text: str, console: Console) -> None:
    if path.exists():
        raise UsageError(f"There is already a file {str(path)!r}.", hint="Name one that is not there yet.")
    replace_text(path, text, _PRIVATE)
    console.say(f"Written to {path}.")


def _tell(servers: list[ServerConfig], options: Options, console: Console) -> None:
    masked = [server.name for server in servers if is_masked(server)]
    if masked and not options.with_secrets:
        console.say(f"Values of {', '.join(masked)} are masked; --with-secrets writes them out.", "yellow")
    for server in servers:
        if lost := lost_settings(server):
            console.say(f"{server.name}: other programs have no word for {', '.join(lost)}.", "dim")
