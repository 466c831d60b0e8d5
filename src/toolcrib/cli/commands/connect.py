"""``toolcrib connect`` and ``disconnect``: toolcrib in a client's own file, or how all clients stand."""

from pathlib import Path
from typing import Any

from toolcrib.cli.clients import add_client, find_client, print_change, stdio_launch
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import OK, UsageError
from toolcrib.cli.invoke import Options, Parser, add_json
from toolcrib.config.environment import chosen_config
from toolcrib.config.foreign.connectors import Launch
from toolcrib.config.references import Environment
from toolcrib.project.connecting import (
    ClientChange,
    ClientFile,
    ClientState,
    connect,
    disconnect,
    preview_connect,
    preview_disconnect,
    replaceable,
    standings,
)
from toolcrib.project.importing import ImportRequest, find_imports, forget_origin, import_target, take_over
from toolcrib.stores.paths import user_config_path

CONNECT_EXAMPLES = """\
examples:
  toolcrib connect                         which clients are here, and which are connected
  toolcrib connect claude-code             Claude Code starts toolcrib itself
  toolcrib connect cursor --http           Cursor reaches a running `toolcrib serve`
  toolcrib connect claude-desktop --replace   its servers move into toolcrib, one entry stays

`toolcrib disconnect CLIENT` puts the file back as it was, byte for byte."""

COLUMNS = (
    Column("CLIENT", styles=("bold",)),
    Column("", coloured={"connected": ("green",), "not connected": ("dim",), "not here": ("dim",)}),
    Column("FILE"),
)


def add_connect_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument(
        "--http", nargs="?", const="", metavar="URL", help="have it reach a running toolcrib instead of starting one"
    )
    parser.add_argument(
        "--with-token", action="store_true", help="with --http: send the token in TOOLCRIB_TOKEN, by reference"
    )
    parser.add_argument(
        "--replace", action="store_true", help="import its other servers, and take them out of its file"
    )
    add_json(parser, "how the clients stand")
    add_client(parser, optional=True)


def run_connect(options: Options, console: Console) -> int:
    """Connect one client, or list all."""
    around = Environment()
    if options.client is None:
        return _list(options, console, around)
    if options.with_token and options.http is None:
        raise UsageError("--with-token goes with --http.")
    client = find_client(options, around)
    target = _target(options, around, client)
    launch = _launch(options, target, around)
    without = _replaced(client, target, options, console) if options.replace else None
    change = (preview_connect if options.dry_run else connect)(client, launch, around, without)
    if without and not options.dry_run:
        forget_origin(target, client.path, around)
    _tell(change, client, options, console)
    return OK


def _launch(options: Options, target: Path, around: Environment) -> Launch:
    if options.http is None:
        return stdio_launch(target, around, in_project=options.project)
    from toolcrib.cli.reaching import http_launch

    return http_launch(options)


def _target(options: Options, around: Environment, client: ClientFile) -> Path:
    """toolcrib's own file the client will get its tools from: the project's if there is one, otherwise the user's."""
    chosen = options.config or chosen_config(around.env)
    if chosen:
        return (around.cwd / Path(chosen).expanduser()).absolute()
    found = import_target(around)
    return found if found.is_file() or client.in_project else user_config_path(around.env)


def _replaced(client: ClientFile, target: Path, options: Options, console: Console) -> list[str]:
    """Bring the client's other servers into toolcrib first; only what is safe there leaves the client's file."""
    around = Environment()
    ready, stays = replaceable(client, target, around)
    if stays:
        console.say(f"These cannot be taken over and stay: {', '.join(stays)}.", "yellow")
    if ready and not options.dry_run:
        found = find_imports(around, ImportRequest(target, (str(client.path),)))
        done = take_over(found, [candidate.name for candidate in found.in_state("new")], target, around)
        if done:
            console.say(f"Taken over into {target}: {', '.join(candidate.name for candidate in done)}.")
    return ready


def _tell(change: ClientChange, client: ClientFile, options: Options, console: Console) -> None:
    label = client.connector.label
    if change.kind == "already":
        console.say(f"{label} is connected already ({client.path}).")
    elif options.dry_run:
        print_change(change, console)
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


DISCONNECT_EXAMPLES = """\
examples:
  toolcrib disconnect cursor
  toolcrib disconnect vscode --project --dry-run

If nobody else changed the file, it is put back byte for byte; otherwise only the entry of toolcrib is taken out."""


def add_disconnect_arguments(parser: Parser) -> None:
    """What it takes."""
    add_client(parser, optional=False)


def run_disconnect(options: Options, console: Console) -> int:
    """Put the file back, or take out the one entry."""
    around = Environment()
    client = find_client(options, around)
    change = (preview_disconnect if options.dry_run else disconnect)(client, around)
    label, path = client.connector.label, client.path
    if change.kind == "absent":
        console.say(f"{label} is not connected ({path}).")
    elif options.dry_run:
        print_change(change, console)
        console.say("Nothing is written yet.")
    elif change.kind == "restored" and change.after is None:
        console.say(f"{label} is disconnected: {path} was made by toolcrib and is removed.")
    elif change.kind == "restored":
        console.say(f"{label} is disconnected: {path} is as it was before.")
    else:
        console.say(f"{label} is disconnected. {path} was changed since, so only the entry of toolcrib was taken out.")
        if change.backup:
            console.say(f"The servers it had before are in {change.backup}.", "yellow")
    return OK
