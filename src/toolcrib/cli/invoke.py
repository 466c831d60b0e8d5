"""From words to a command: what each one takes, with suggestions for what it does not."""

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from toolcrib.cli.console import Console
from toolcrib.cli.failures import UsageError
from toolcrib.core.errors import did_you_mean

Options = argparse.Namespace

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


class Parser(argparse.ArgumentParser):
    """argparse that complains in our words and leaves the exit to its caller."""

    takes_rest = False
    """Whether words after ``--`` belong to the command."""

    def error(self, message: str) -> NoReturn:
        """Complain about the command line."""
        raise UsageError(
            f"{message[:1].upper()}{message[1:]}.", hint=f"Usage: {' '.join(self.format_usage().split()[1:])}"
        )

    def short_usage(self) -> str:
        """What must and may be given, without the list of options."""
        words = [_shown(action) for action in self._actions if not action.option_strings]
        return " ".join([self.prog, *words, "[options]"])

    def options(self) -> list[str]:
        """Every option the command takes."""
        return [option for option in self._option_string_actions if option.startswith("--")]


def _shown(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else "|".join(map(str, action.choices or [action.dest]))
    return {"*": f"[{name} …]", "?": f"[{name}]"}.get(str(action.nargs), name)


def invoke(name: str, summary: str, command: ModuleType, argv: Sequence[str]) -> int:
    """Parse the words after a command's name and run it."""
    parser = make_parser(name, summary, command)
    options = parse(parser, argv)
    code: int = getattr(command, f"run_{_verb(name)}")(options, Console.standard())
    return code


def _verb(name: str) -> str:
    """What a command's functions are called by in its module: ``servers add`` is ``run_add`` of ``servers``."""
    return name.rsplit(maxsplit=1)[-1].strip("_")


def make_parser(name: str, summary: str, command: Any) -> Parser:
    """The parser of one command."""
    parser = Parser(
        prog=f"toolcrib {name}",
        description=summary,
        epilog=getattr(command, f"{_verb(name).upper()}_EXAMPLES", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    getattr(command, f"add_{_verb(name)}_arguments")(parser)
    parser.usage = parser.usage or parser.short_usage()
    return parser


def parse(parser: Parser, argv: Sequence[str]) -> Options:
    """The options; an unknown one is an error with the nearest known one."""
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    options, unknown = parser.parse_known_intermixed_args(words[:at])
    options.rest = words[at + 1 :]
    if unknown:
        raise _unknown(parser, unknown[0])
    if options.rest and not parser.takes_rest:
        raise UsageError(f"`{parser.prog}` takes nothing after `--`.")
    return options


def _unknown(parser: Parser, word: str) -> UsageError:
    if word.startswith("-"):
        option = word.partition("=")[0]
        hint = did_you_mean(option, parser.options()) or f"Run `{parser.prog} --help` to see what it takes."
        return UsageError(f"`{parser.prog}` has no option {option!r}.", hint=hint)
    return UsageError(f"`{parser.prog}` does not take {word!r}.", hint=f"Run `{parser.prog} --help`.")


def add_common(parser: Parser) -> None:
    """The options of every command."""
    common = parser.add_argument_group("common")
    common.add_argument(
        "--config", metavar="FILE", help="a toolcrib.toml or any mcpServers file [env: TOOLCRIB_CONFIG]"
    )
    common.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        default=_from_environment("TOOLCRIB_LOG_LEVEL", LOG_LEVELS),
        help="what is told on stderr [info when serving, otherwise warning; env: TOOLCRIB_LOG_LEVEL]",
    )
    common.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        default=_from_environment("TOOLCRIB_LOG_FORMAT", LOG_FORMATS),
        help="how it is told [text on a terminal; env: TOOLCRIB_LOG_FORMAT]",
    )


def _from_environment(variable: str, choices: Sequence[str]) -> str | None:
    value = os.environ.get(variable) or None
    if value is not None and value not in choices:
        raise UsageError(f"{variable} is {value!r}.", hint=f"Set it to one of {', '.join(choices)}.")
    return value


def add_profile(parser: Parser, about: str) -> None:
    """The option of every command that can look at a part of the catalogue."""
    parser.add_argument("--profile", metavar="NAME", default="", help=f"{about}, by its name in [profiles]")


def add_json(parser: Parser, shown: str) -> None:
    """The option of every command that reads."""
    parser.add_argument("--json", action="store_true", help=f"print {shown} as JSON")


def read_stdin() -> str:
    """All of stdin."""
    return sys.stdin.read()
