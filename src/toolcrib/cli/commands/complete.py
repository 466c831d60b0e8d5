"""What could come next on a line, for the shell's completion: from tables, files and the lock; nothing is started."""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from toolcrib.cli.console import Console, one_line
from toolcrib.cli.invoke import Options, command, command_of
from toolcrib.cli.main import COMMANDS, GROUPS
from toolcrib.config.environment import environment_layer
from toolcrib.config.lock import Record
from toolcrib.config.merge import merge
from toolcrib.config.model import Config, Layer
from toolcrib.config.parse import parse
from toolcrib.core.errors import ToolcribError
from toolcrib.core.names import join_name, to_public
from toolcrib.crib.loading import config_files
from toolcrib.schema.arguments import value_hints
from toolcrib.stores.files import read_text
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.paths import Environment, lock_path, state_directory
from toolcrib.stores.projects import ProjectFile

Suggestion = tuple[str, str]

TAKES_OFFER = {
    "call": ("tool",),
    "show": ("tool", "resource", "template", "prompt", "skill"),
    "why": ("tool", "resource", "template", "prompt", "skill"),
    "diff": ("tool", "resource", "template", "prompt", "skill"),
    "approve": ("tool", "resource", "template", "prompt", "skill"),
    "resources read": ("resource", "template"),
    "prompts get": ("prompt",),
    "skills show": ("skill",),
}
"""Commands, and the kinds of what they take the name of."""
TAKES_ARGUMENTS = ("call", "prompts get")
TAKES_SERVER = ("servers rm", "servers enable", "servers disable", "servers refresh", "servers logs")
TAKES_CLIENT = ("import", "connect", "disconnect")
VALUES = {
    "--expose": ("all", "search", "auto"),
    "--kind": ("tool", "resource", "template", "prompt", "skill", "all"),
    "--format": ("mcpServers", "vscode", "codex"),
    "--log-level": ("debug", "info", "warning", "error"),
    "--log-format": ("text", "json"),
}
SHELLS = ("bash", "zsh", "fish")
DESCRIPTION_MAX = 60
PATIENCE_S = 2.0


@command(takes_rest=True, takes_common=False)
def run_complete(options: Options, console: Console) -> None:
    """Print one suggestion a line, its description after a tab."""
    words = options.rest or [""]
    for word, description in suggest(words[:-1], words[-1]):
        if word.startswith(words[-1]):
            console.print(f"{one_line(word)}\t{one_line(description)[:DESCRIPTION_MAX]}".rstrip())


def suggest(before: Sequence[str], last: str) -> Iterator[Suggestion]:
    """Everything that may stand where ``last`` stands."""
    name = _command(before)
    if name is None:
        yield from _commands(before)
    elif before[-1] in VALUES:
        yield from ((value, "") for value in VALUES[before[-1]])
    elif before[-1] == "--server" or (name in TAKES_SERVER and not last.startswith("-")):
        yield from _configured(before, lambda layer: layer.servers)
    elif before[-1] == "--profile":
        yield from _configured(before, lambda layer: layer.profiles)
    elif last.startswith("-"):
        yield from _options(name)
    elif name == "completion":
        yield from ((shell, "") for shell in SHELLS)
    elif name in TAKES_CLIENT:
        yield from _clients(name)
    elif name == "projects rm":
        yield from _projects()
    elif name in TAKES_OFFER:
        yield from _offers_or_arguments(name, before, last)


def _command(before: Sequence[str]) -> str | None:
    for size in (2, 1):
        if " ".join(before[:size]) in COMMANDS:
            return " ".join(before[:size])
    return None


def _commands(before: Sequence[str]) -> Iterator[Suggestion]:
    if not before:
        yield from ((name, text) for name, (_, text) in COMMANDS.items() if " " not in name and name not in GROUPS)
        yield from GROUPS.items()
    elif len(before) == 1:
        start = f"{before[0]} "
        yield from ((name.removeprefix(start), text) for name, (_, text) in COMMANDS.items() if name.startswith(start))


def _options(name: str) -> Iterator[Suggestion]:
    module, summary = COMMANDS[name]
    found = command_of(name, import_module(f"toolcrib.cli.commands.{module}"))
    yield from ((option, "") for option in found.parser(name, summary).options())


def _offers_or_arguments(name: str, before: Sequence[str], last: str) -> Iterator[Suggestion]:
    known = dict(_offers(_records(before), TAKES_OFFER[name]))
    chosen = next((known[word] for word in before if word in known), None)
    if chosen is None:
        yield from ((offer, str(shown.get("description", "")).partition("\n")[0]) for offer, shown in known.items())
    elif name == "call" and "=" in last:
        key = last.partition("=")[0]
        yield from ((f"{key}={value}", "") for value in value_hints(chosen.get("inputSchema", {}), key))
    elif name in TAKES_ARGUMENTS:
        yield from ((f"{key}=", about) for key, about in _arguments(chosen))


def _offers(records: Mapping[str, Record], kinds: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What the lock knows, by what people call it: tools and prompts by name, resources by URI. What is in quarantine
    is not given the word."""
    for server, record in records.items():
        held = {key for key, pin in record.pins.items() if pin.definition is not None}
        if "tool" in kinds:
            yield from ((join_name(server, tool["name"]), tool) for tool in record.tools if "name" in tool)
        for key, shown in record.others.items():
            kind, _, own = key.partition(" ")
            if kind in kinds and own:
                named = join_name(server, own) if kind == "prompt" else to_public(server, own)
                yield named, {} if key in held else shown


def _arguments(chosen: Mapping[str, Any]) -> Iterator[Suggestion]:
    """What a tool, or a prompt, takes."""
    for key, part in chosen.get("inputSchema", {}).get("properties", {}).items():
        yield key, str(part.get("description", ""))
    for one in chosen.get("arguments", ()):
        yield str(one.get("name", "")), str(one.get("description", ""))


def _clients(name: str) -> Iterator[Suggestion]:
    # here, because a tenth of the time would go into it whenever something else is completed
    from toolcrib.config.foreign.clients import CLIENTS
    from toolcrib.config.foreign.connectors import CONNECTORS

    known = CLIENTS if name == "import" else CONNECTORS
    yield from ((client, known[client].label) for client in known)


def _configured(before: Sequence[str], names: Callable[[Layer], Iterable[str]]) -> Iterator[Suggestion]:
    """Names that stand in the configuration files, each with its file."""
    for path in _files(before):
        with suppress(ToolcribError):
            yield from ((name, str(path)) for name in names(parse(read_text(path) or "", str(path))))


def _projects() -> Iterator[Suggestion]:
    with suppress(ToolcribError):
        yield from ((known.name, known.directory) for known in ProjectFile(state_directory(os.environ)).read())


def _records(before: Sequence[str]) -> dict[str, Record]:
    files = _files(before)
    with suppress(ToolcribError):
        layers = [parse(read_text(path) or "", str(path)) for path in files if path.is_file()]
        config = merge(*layers, environment_layer(os.environ, {name for layer in layers for name in layer.servers}))
        return _shared_records(config) if config.store.url else dict(LockFile(lock_path(files[-1])).read().records)
    return {}


def _shared_records(config: Config) -> dict[str, Record]:
    """What replicas share, if that can be had before a person at a prompt grows impatient."""
    from toolcrib.crib.backend import open_lock  # with the stores it chooses from, it takes longer than all the rest

    async def read() -> dict[str, Record]:
        async with asyncio.timeout(PATIENCE_S), open_lock(config, None, Environment()) as ledger:
            return {} if ledger is None else dict(await ledger.read())

    try:
        return asyncio.run(read())
    except TimeoutError:
        return {}


def _files(before: Sequence[str]) -> list[Path]:
    """The configuration files, the one beside the lock last."""
    chosen = next((after for word, after in pairwise(before) if word == "--config"), None)
    files = config_files(chosen, Environment())
    return [files.project] if files.is_chosen and files.project else list(files.paths)
