"""Clients on the command line: which one is meant, how it gets to toolcrib, and what changes in its file."""

import difflib
import re
import sys
from pathlib import Path

from toolcrib.cli.console import Console
from toolcrib.cli.failures import NotFound
from toolcrib.cli.invoke import Options, Parser, add_common
from toolcrib.config.foreign.connectors import CONNECTORS, Launch
from toolcrib.config.foreign.locations import CONFIG_NAME
from toolcrib.config.references import Environment
from toolcrib.config.secrets import shown_args, shown_entry, shown_url
from toolcrib.core.errors import did_you_mean
from toolcrib.project.connecting import ClientChange, ClientFile, client_here
from toolcrib.project.importing import folded_client
from toolcrib.schema.text import printable
from toolcrib.stores.paths import user_config_path

_STYLES = {"+": ("green",), "-": ("red",), "@": ("cyan",)}


def add_client(parser: Parser, *, optional: bool) -> None:
    """The arguments of ``connect`` and ``disconnect``."""
    parser.add_argument(
        "client", metavar="CLIENT", nargs="?" if optional else None, help=f"one of {', '.join(CONNECTORS)}"
    )
    parser.add_argument("--project", action="store_true", help="the client's file in this project, not the user's")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    add_common(parser)


def find_client(options: Options, around: Environment) -> ClientFile:
    """The client the command line names."""
    name = folded_client(options.client)
    if name not in CONNECTORS:
        hint = did_you_mean(name, [*CONNECTORS]) or f"There are: {', '.join(CONNECTORS)}."
        raise NotFound(f"toolcrib does not know how to write into the file of {options.client!r}.", hint=hint)
    return client_here(name, around, in_project=options.project)


def running_command() -> tuple[str, ...]:
    """The command that runs this very toolcrib, by its whole path."""
    program = Path(sys.argv[0])
    if program.name.removesuffix(".exe") == "toolcrib" and program.is_file():
        return (str(program.absolute()),)
    return (sys.executable, "-m", "toolcrib")


def stdio_launch(target: Path, around: Environment, *, in_project: bool) -> Launch:
    """The client starts toolcrib; from anywhere, so it must be told which configuration is meant."""
    is_found = target == user_config_path(around.env) or (in_project and target == around.cwd / CONFIG_NAME)
    config = () if is_found else ("--config", str(target))
    return Launch(command=(*running_command(), "stdio", *config))


def print_change(change: ClientChange, console: Console) -> None:
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
