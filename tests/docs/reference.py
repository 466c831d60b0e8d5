"""The pages of ``docs/reference/``, written from the code: ``python -m tests.docs.reference``."""

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from toolcrib.cli.invoke import Parser, command_of
from toolcrib.cli.main import COMMANDS, GROUPS
from toolcrib.config import tables
from toolcrib.config.keys import Key
from toolcrib.config.model import Config, ServerConfig, ToolConfig
from toolcrib.config.oauth import OAUTH_KEYS, OAuthConfig
from toolcrib.config.sections import EmbedderConfig, ProfileConfig, ProfileTool
from toolcrib.config.values import Mismatch, as_written
from toolcrib.crib.loading import load
from toolcrib.server.rest.about import ROOT as API
from toolcrib.server.rest.api import RESOURCES
from toolcrib.server.rest.openapi import describe
from toolcrib.stores.paths import Environment

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
HEAD = "<!-- Written from the code by ./dev docs: change it there. -->\n"
NAMED: Mapping[str, tuple[Mapping[str, Key], type]] = {
    "servers.NAME": (tables.SERVER_KEYS, ServerConfig),
    "servers.NAME.oauth": (OAUTH_KEYS, OAuthConfig),
    "servers.NAME.tools.TOOL": (tables.TOOL_KEYS, ToolConfig),
    "profiles.NAME": (tables.PROFILE_KEYS, ProfileConfig),
    "profiles.NAME.change.TOOL": (tables.PROFILE_TOOL_KEYS, ProfileTool),
    "kb.embedders.NAME": (tables.EMBEDDER_KEYS, EmbedderConfig),
}
"""Tables of which there can be many."""
DURATIONS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
SIZES = ((2**30, "GiB"), (10**9, "GB"), (2**20, "MiB"), (10**6, "MB"), (2**10, "KiB"))


def configuration() -> str:
    """Every key of ``toolcrib.toml``, table by table."""
    return "\n".join(
        [
            f"{HEAD}\n# All configuration keys\n",
            "Every key of `toolcrib.toml`: what it takes, and what holds without it. A **rule** is never loosened: of"
            " all places that say something, the strictest counts ([how](../configuration.md)).",
            *(line for name, rows in _tables() for line in _table(f"[{name}]" if name else "At the top", rows)),
        ]
    )


def _tables() -> Iterator[tuple[str, list[tuple[str, Key, type]]]]:
    found: dict[str, list[tuple[str, Key, type]]] = {}
    for name, key in tables.SETTINGS.items():
        section, _, word = name.rpartition(".")
        found.setdefault(section, []).append((word, key, tables.SECTIONS.get(key.section, Config)))
    yield from sorted(found.items(), key=lambda one: one[0] != "")
    for name, (keys, declared) in NAMED.items():
        yield name, [(word, key, declared) for word, key in keys.items()]


def _table(title: str, rows: Iterable[tuple[str, Key, type]]) -> Iterator[str]:
    yield f"\n## `{title}`\n" if title.startswith("[") else f"\n## {title}\n"
    yield "| key | takes | without it | means |\n|---|---|---|---|"
    for word, key, declared in rows:
        rule = "Rule. " if key.stricter else ""
        about = (rule + _about(declared).get(key.field, "")).strip()
        takes = re.sub(
            r"(?:seconds as a number, or |bytes as a whole number, or )a (duration|size).*", r"a \1", _takes(key)
        )
        yield _row(f"`{word}`", takes, _default(word, key, declared), about.replace("`None`", "left out"))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _takes(key: Key) -> str:
    """What the reader of a key says to a value that is none of its kind."""
    try:
        key.read(object())
    except Mismatch as mismatch:
        return mismatch.expected
    return "anything"


def _default(word: str, key: Key, declared: type) -> str:
    name = f"{key.section}.{word}" if key.section else word
    if tables.SETTINGS.get(name) is key:
        value = tables.setting_of(_unconfigured(), name)
    else:
        known = {field.name: field for field in fields(declared)}[key.field]
        value = known.default if known.default is not MISSING else _made(known.default_factory)
    if value is None or value is MISSING or value == "":
        return ""
    return f"`{_toml(value, key)}`"


@cache
def _unconfigured() -> Config:
    """What holds where there is no file at all."""
    return load(surroundings=Environment(Path("/nonexistent"), {"HOME": "/nonexistent"})).config


def _made(factory: Any) -> Any:
    return MISSING if factory is MISSING else factory()


def _toml(value: Any, key: Key) -> str:
    if key.field.endswith("_s") and isinstance(value, float | int) and not isinstance(value, bool):
        return _with_unit(value, DURATIONS, "0") if value == int(value) else f'"{value * 1000:g}ms"'
    if _takes(key).startswith("bytes") and isinstance(value, int):
        return _with_unit(value, SIZES, "0")
    return json.dumps(as_written(value), default=str, ensure_ascii=False)


def _with_unit(value: float, units: Iterable[tuple[int, str]], none: str) -> str:
    return next((f'"{int(value // size)}{unit}"' for size, unit in units if value and value % size == 0), none)


@cache
def _about(declared: type) -> Mapping[str, str]:
    """What stands below each field of a class."""
    (made,) = ast.parse(inspect.getsource(declared)).body
    assert isinstance(made, ast.ClassDef)
    pairs = zip(made.body, made.body[1:], strict=False)
    return {
        field.target.id: " ".join(text.value.value.replace("``", "`").split())
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def commands() -> str:
    """Every command with all that it takes."""
    parsers = {name: _parser(name) for name in COMMANDS}
    shared = {action.dest for action in parsers["ls"]._action_groups[-1]._group_actions}
    common = [action for action in parsers["ls"]._actions if action.dest in shared]
    return "\n".join(
        [
            f"{HEAD}\n# All commands\n",
            "What every command takes; `toolcrib COMMAND --help` says the same, with examples. Exit codes are those"
            " of [errors](../errors.md#on-the-command-line).\n",
            *_options(action for action in common if action.dest != "help"),
            *(line for name, parser in parsers.items() for line in _command(name, parser, shared)),
        ]
    )


def _parser(name: str) -> Parser:
    module, summary = COMMANDS[name]
    return command_of(name, import_module(f"toolcrib.cli.commands.{module}")).parser(name, summary)


def _command(name: str, parser: Parser, shared: set[str]) -> Iterator[str]:
    group = name.partition(" ")[0]
    if group in GROUPS and name == next(known for known in COMMANDS if known.startswith(f"{group} ")):
        yield f"\n## toolcrib {group} …\n\n{GROUPS[group]}"
    yield f"\n##{'#' * (group in GROUPS)} toolcrib {name}\n\n{COMMANDS[name][1]}\n\n`{parser.usage}`\n"
    own = [action for action in parser._actions if action.dest not in {*shared, "help"}]
    yield from _options(own) if own else ()


def _options(actions: Iterable[argparse.Action]) -> Iterator[str]:
    yield "| option | means |\n|---|---|"
    for action in actions:
        choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else ""
        value = action.metavar if isinstance(action.metavar, str) else choices
        takes = "" if action.nargs == 0 else f" {value or action.dest.upper()}"
        named = ", ".join(f"`{option}{takes}`" for option in action.option_strings)
        yield _row(named or f"`{takes.strip()}`", (action.help or "").replace("<", "&lt;"))


def rest() -> str:
    """Every endpoint of the REST door."""
    routes = [route for resource in RESOURCES for route in resource.routes]
    document = describe(routes)
    return "\n".join(
        [
            f"{HEAD}\n# All REST endpoints\n",
            f"All of them are below `{API}`. The running toolcrib describes them with every field at"
            f" `{API}/openapi.json`, and for people at `{API}/reference`. Those marked **open** need no token where"
            " MCP needs none; [who may use the others](../rest.md#everything-else-needs-a-token).",
            *(line for tag in document["tags"] for line in _endpoints(tag, document["paths"])),
        ]
    )


def _endpoints(tag: Mapping[str, str], paths: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"\n## {tag['name'][:1].upper()}{tag['name'][1:]}\n\n{tag['description']}\n"
    yield "| endpoint | what it does | takes |\n|---|---|---|"
    for path, methods in paths.items():
        for method, told in methods.items():
            if tag["name"] in told["tags"]:
                is_open = " **open**" if {} in told["security"] else ""
                yield _row(f"`{method.upper()} {path.removeprefix(API)}`", f"{told['summary']}{is_open}", _asked(told))


def _asked(told: Mapping[str, Any]) -> str:
    query = [f"`{param['name']}`" for param in told["parameters"] if param["in"] != "path"]
    return ", ".join([*query, *(["a body"] if "requestBody" in told else [])])


PAGES: Mapping[str, Callable[[], str]] = {"configuration.md": configuration, "commands.md": commands, "rest.md": rest}


def stale(folder: Path = FOLDER) -> dict[str, str]:
    """The pages that do not say what the code says, with what they should say."""
    wanted = {name: f"{make()}\n" for name, make in PAGES.items()}
    return {
        name: text
        for name, text in wanted.items()
        if not (folder / name).exists() or (folder / name).read_text() != text
    }


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, text in stale().items():
        (FOLDER / name).write_text(text)
        print(f"wrote docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
