"""``toolcrib connect`` and ``disconnect``: toolcrib in a client's own file, or how all clients stand."""

import difflib
import re
import sys
import time
from pathlib import Path
from typing import Any

from toolcrib.cli.commands.files import ask_line, is_person_here, tell_of_company
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import OK, NotFound, UsageError
from toolcrib.cli.invoke import Options, Parser, arg, as_json, command
from toolcrib.config.environment import chosen_config
from toolcrib.config.foreign.connectors import CONNECTORS, Launch
from toolcrib.config.secrets import shown_args, shown_entry, shown_url
from toolcrib.core.errors import ConfigError, did_you_mean
from toolcrib.core.places import CONFIG_NAME
from toolcrib.crib.loading import load
from toolcrib.project.connecting import (
    ClientChange,
    ClientFile,
    ClientState,
    OtherEntries,
    client_here,
    connect,
    disconnect,
    other_entries,
    preview_connect,
    preview_disconnect,
    standings,
)
from toolcrib.project.importing import (
    folded_client,
    forget_origin,
    import_target,
    take_over,
)
from toolcrib.schema.text import printable
from toolcrib.stores.paths import Environment, user_config_path

IN_ITS_FILE = (
    arg("--project", action="store_true", help="the client's file in this project, not the user's"),
    arg("--dry-run", action="store_true", help="show what would change, and change nothing"),
)
MCP_PATH = "/mcp"
_STYLES = {"+": ("green",), "-": ("red",), "@": ("cyan",)}
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not bound
COLUMNS = (
    Column("CLIENT", styles=("bold",)),
    Column("", coloured={"connected": ("green",), "not connected": ("dim",), "not here": ("dim",)}),
    Column("FILE"),
)


def _add_keep_or_replace(parser: Parser) -> None:
    """What becomes of the client's other servers; without either, a person at a terminal is asked."""
    wish = parser.add_mutually_exclusive_group()
    wish.add_argument("--replace", action="store_true", help="import its other servers, and take them out of its file")
    wish.add_argument("--keep", action="store_true", help="leave its other servers as they are, and do not ask")


@command(
    arg("--http", nargs="?", const="", metavar="URL", help="have it reach a running toolcrib instead of starting one"),
    arg("--with-token", action="store_true", help="with --http: send the token in TOOLCRIB_TOKEN, by reference"),
    _add_keep_or_replace,
    as_json("how the clients stand"),
    arg("client", metavar="CLIENT", nargs="?", help=f"one of {', '.join(CONNECTORS)}"),
    *IN_ITS_FILE,
    examples="""\
examples:
  toolcrib connect                         which clients are here, and which are connected
  toolcrib connect claude-code             Claude Code starts toolcrib itself
  toolcrib connect cursor --http           Cursor reaches a running `toolcrib serve`
  toolcrib connect claude-desktop --replace   its servers move into toolcrib, one entry stays

`toolcrib disconnect CLIENT` puts the file back as it was, byte for byte.""",
)
def run_connect(options: Options, console: Console) -> int:
    """Connect one client, or list all."""
    around = Environment()
    if options.client is None:
        return _list(options, console, around)
    if options.with_token and options.http is None:
        raise UsageError("--with-token goes with --http.")
    client = _find_client(options, around)
    target = _target(options, around, client)
    if options.http is None:
        launch = _stdio_launch(target, around, in_project=options.project)
    else:
        launch = _http_launch(options, around)
    without = _replaced(client, target, options, console)
    change = (preview_connect if options.dry_run else connect)(client, launch, around, without)
    if without and not options.dry_run:
        forget_origin(target, client.path, around)
    _tell(change, client, options, console)
    return OK


def _target(options: Options, around: Environment, client: ClientFile) -> Path:
    """toolcrib's own file the client will get its tools from: the project's if there is one, otherwise the user's."""
    chosen = options.config or chosen_config(around.env)
    if chosen:
        return (around.cwd / Path(chosen).expanduser()).absolute()
    found = import_target(around)
    return found if found.is_file() or client.in_project else user_config_path(around.env)


def _replaced(client: ClientFile, target: Path, options: Options, console: Console) -> list[str] | None:
    """What leaves the client's file, once it is safe in toolcrib's; ``None`` for nothing."""
    around = Environment()
    others = _others(client, target, options, around)
    leaving = list(others.ready) if options.replace else _asked(client, others, options, console)
    if options.replace and others.stays:
        console.say(f"These cannot be taken over and stay: {', '.join(others.stays)}.", "yellow")
    new = others.new_in(leaving or ())
    if new and not options.dry_run:
        done = take_over(others.found, new, target, around)
        console.say(f"Taken over into {target}: {', '.join(one.name for one in done if one.state == 'new')}.")
        tell_of_company(done, console)
    return leaving


def _others(client: ClientFile, target: Path, options: Options, around: Environment) -> OtherEntries:
    """What else is in the client's file; where that cannot be told, only ``--replace`` cannot go on."""
    try:
        return OtherEntries() if options.keep else other_entries(client, target, around)
    except ConfigError:
        if options.replace:
            raise
        return OtherEntries()


def _asked(client: ClientFile, others: OtherEntries, options: Options, console: Console) -> list[str] | None:
    """What a person wants to have in one place only; where nobody can be asked, everything stays, and that is said."""
    if not others.twice:
        return None
    label, names = client.connector.label, ", ".join(others.twice)
    console.say(f"{label} has servers of its own that toolcrib serves, too: {names}. Agents see their tools twice.")
    leaving = [name for name in others.twice if name in others.ready]
    if leaving and not options.dry_run and is_person_here(console):
        question = f"Take {', '.join(leaving)} out of {client.path}? `toolcrib disconnect` puts it back. [Y/n]"
        return leaving if ask_line(console, question) in ("", "y", "yes") else None
    way = f"`toolcrib connect {client.connector.client} --replace` moves them into toolcrib"
    console.say(f"They stay; {way if leaving else 'their settings differ from those in toolcrib'}.", "yellow")
    return None


def _tell(change: ClientChange, client: ClientFile, options: Options, console: Console) -> None:
    label = client.connector.label
    if change.kind == "already":
        console.say(f"{label} is connected already ({client.path}).")
    elif options.dry_run:
        _print_change(change, console)
        console.say("Nothing is written yet.")
    else:
        kept = f" What it was before is kept in {change.backup}." if change.backup else ""
        console.say(f"{label} is connected: toolcrib stands in {client.path}.{kept}")
        console.say(f"Restart {label} to see the tools; `toolcrib disconnect {client.connector.client}` undoes it.")


def _list(options: Options, console: Console, around: Environment) -> int:
    found = standings(around)
    if options.json:
        console.print_json([_document(standing) for standing in found])
    else:
        rows = [(standing.client.connector.client, _word(standing), str(standing.client.path)) for standing in found]
        print_table(console, COLUMNS, rows)
        for standing in found:
            if standing.problem:
                console.say(standing.problem, "yellow")
    return OK


def _word(standing: ClientState) -> str:
    if standing.problem:
        return "unreadable"
    if standing.entry is not None:
        return "connected"
    return "not connected" if standing.is_here else "not here"


def _document(standing: ClientState) -> dict[str, Any]:
    return {
        "client": standing.client.connector.client,
        "label": standing.client.connector.label,
        "path": str(standing.client.path),
        "project": standing.client.in_project,
        "here": standing.is_here,
        "connected": standing.entry is not None,
        "problem": standing.problem or None,
    }


@command(
    arg("client", metavar="CLIENT", help=f"one of {', '.join(CONNECTORS)}"),
    *IN_ITS_FILE,
    examples="""\
examples:
  toolcrib disconnect cursor
  toolcrib disconnect vscode --project --dry-run

If nobody else changed the file, it is put back byte for byte; otherwise only the entry of toolcrib is taken out.""",
)
def run_disconnect(options: Options, console: Console) -> None:
    """Put the file back, or take out the one entry."""
    around = Environment()
    client = _find_client(options, around)
    change = (preview_disconnect if options.dry_run else disconnect)(client, around)
    label, path = client.connector.label, client.path
    if change.kind == "absent":
        console.say(f"{label} is not connected ({path}).")
    elif options.dry_run:
        _print_change(change, console)
        console.say("Nothing is written yet.")
    elif change.kind == "restored" and change.after is None:
        console.say(f"{label} is disconnected: {path} was made by toolcrib and is removed.")
    elif change.kind == "restored":
        console.say(f"{label} is disconnected: {path} is as it was before.")
    else:
        console.say(f"{label} is disconnected. {path} was changed since, so only the entry of toolcrib was taken out.")
        if change.backup:
            console.say(f"The servers it had before are in {change.backup}.", "yellow")


def _find_client(options: Options, around: Environment) -> ClientFile:
    """The client the command line names."""
    name = folded_client(options.client)
    if name not in CONNECTORS:
        hint = did_you_mean(name, [*CONNECTORS]) or f"There are: {', '.join(CONNECTORS)}."
        raise NotFound(f"toolcrib does not know how to write into the file of {options.client!r}.", hint=hint)
    return client_here(name, around, in_project=options.project)


def _running_command() -> tuple[str, ...]:
    """The command that runs this very toolcrib, by its whole path."""
    program = Path(sys.argv[0])
    if program.name.removesuffix(".exe") == "toolcrib" and program.is_file():
        return (str(program.absolute()),)
    return (sys.executable, "-m", "toolcrib")


def _stdio_launch(target: Path, around: Environment, *, in_project: bool) -> Launch:
    """The client starts toolcrib; from anywhere, so it must be told which configuration is meant."""
    is_found = target == user_config_path(around.env) or (in_project and target == around.cwd / CONFIG_NAME)
    config = () if is_found else ("--config", str(target))
    return Launch(command=(*_running_command(), "stdio", *config))


def _http_launch(options: Options, around: Environment) -> Launch:
    """The client reaches a toolcrib that somebody keeps running."""
    from toolcrib.server.identity.owner_token import asks_for_token  # a fifth of the start, for this way only

    config = load(options.config, around).config
    host = "127.0.0.1" if config.host in _WILDCARDS else f"[{config.host}]" if ":" in config.host else config.host
    url = options.http or f"http://{host}:{config.port}{MCP_PATH}"
    return Launch(url=url, with_token=options.with_token or asks_for_token(config, around.env, time.time))


def _print_change(change: ClientChange, console: Console) -> None:
    """The difference line by line; values that may be secret are masked, also in the lines around it."""
    before, after = (_lines(content) for content in (change.before, change.after))
    mask = Mask()
    for line in difflib.unified_diff(before, after, str(change.path), str(change.path), lineterm="", n=2):
        shown = line if line.startswith(_HEADINGS) else mask.applied(line)
        console.print(console.paint(printable(shown), *_STYLES.get(line[:1], ())))


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode(errors="replace").splitlines()


class Mask:
    """Lines of JSON or TOML without the values that may be secret; remembers the word before a word."""

    def __init__(self) -> None:
        self._name = self._before = ""

    def applied(self, line: str) -> str:
        """One line, masked."""
        key = _TOML_KEY.match(line)
        self._name = key[1] if key else ""
        return _TEXT.sub(self._shown, line)

    def _shown(self, match: re.Match[str]) -> str:
        value = match["text"][1:-1]
        if match["after"]:
            self._name = value
            return match.group()
        return f'"{self._value(value)}"'

    def _value(self, value: str) -> str:
        if self._name in _PLAIN:
            return value
        if "url" in self._name.lower():
            return shown_url(value)
        if self._name in ("", "args"):
            before, self._before = self._before, value
            return shown_args((before, value))[1]
        return shown_entry(self._name, value)


_HEADINGS = ("---", "+++", "@@")
_PLAIN = frozenset({"command", "type", "cwd", "bearer_token_env_var"})
_TOML_KEY = re.compile(r"[ +-]\s*([\w-]+)\s*=")
_TEXT = re.compile(r"""(?P<text>"(?:[^"\\]|\\.)*"|'[^']*')(?P<after>\s*[:=])?""")
