"""From words to a command: what each one takes, with suggestions for what it does not."""

import argparse
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
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


Argument = Callable[[Parser], object]
"""Something a command takes, as it adds itself to the command's parser."""
Outcome = int | None
"""An exit code; nothing is none but 0."""
Run = Callable[[Options, Console], Outcome | Coroutine[Any, Any, Outcome]]


class CliCommand:
    """What a command does, and what it takes. No dataclass: making one would add 4 % to each completion."""

    def __init__(self, run: Run, arguments: Sequence[Argument], examples: str, usage: str | None) -> None:
        self.run, self.arguments, self.examples, self.usage = run, arguments, examples, usage
        self.takes_rest = False
        """Whether words after ``--`` belong to it."""
        self.takes_common = True
        """Whether it takes the options of (almost) every command."""

    def parser(self, name: str, summary: str) -> Parser:
        """The parser of its command line."""
        parser = Parser(
            prog=f"toolcrib {name}",
            description=summary,
            epilog=self.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        for add in self.arguments:
            add(parser)
        if self.takes_common:
            _add_common(parser)
        parser.usage = self.usage or parser.short_usage()
        return parser


def command(
    *arguments: Argument,
    examples: str = "",
    usage: str | None = None,
    takes_rest: bool = False,
    takes_common: bool = True,
) -> Callable[[Run], CliCommand]:
    """Make a command of a function: what it takes, in the order of its help."""

    def make(run: Run) -> CliCommand:
        made = CliCommand(run, arguments, examples, usage)
        made.takes_rest, made.takes_common = takes_rest, takes_common
        return made

    return make


def command_of(name: str, module: ModuleType) -> CliCommand:
    """A command by its name: ``servers add`` is ``run_add`` of the module ``servers``."""
    found: CliCommand = getattr(module, f"run_{name.rsplit(maxsplit=1)[-1].strip('_')}")
    return found


def invoke(name: str, summary: str, module: ModuleType, argv: Sequence[str]) -> Outcome | Coroutine[Any, Any, Outcome]:
    """Parse the words after a command's name and run it, up to where it waits for something."""
    found = command_of(name, module)
    options = parse(found.parser(name, summary), argv, takes_rest=found.takes_rest)
    return found.run(options, Console.standard())


def parse(parser: Parser, argv: Sequence[str], *, takes_rest: bool) -> Options:
    """The options; an unknown one is an error with the nearest known one."""
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    options, unknown = parser.parse_known_intermixed_args(words[:at])
    options.rest = words[at + 1 :]
    if unknown:
        raise _unknown(parser, unknown[0])
    if options.rest and not takes_rest:
        raise UsageError(f"`{parser.prog}` takes nothing after `--`.")
    return options


def _unknown(parser: Parser, word: str) -> UsageError:
    if word.startswith("-"):
        option = word.partition("=")[0]
        hint = did_you_mean(option, parser.options()) or f"Run `{parser.prog} --help` to see what it takes."
        return UsageError(f"`{parser.prog}` has no option {option!r}.", hint=hint)
    return UsageError(f"`{parser.prog}` does not take {word!r}.", hint=f"Run `{parser.prog} --help`.")


def _add_common(parser: Parser) -> None:
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


def arg(*names: str, **settings: Any) -> Argument:
    """One argument, in the words of ``ArgumentParser.add_argument``."""
    return lambda parser: parser.add_argument(*names, **settings)


def in_profile(about: str) -> Argument:
    """The option of every command that can look at a part of the catalogue."""
    return arg("--profile", metavar="NAME", default="", help=f"{about}, by its name in [profiles]")


def as_json(shown: str) -> Argument:
    """The option of every command that reads."""
    return arg("--json", action="store_true", help=f"print {shown} as JSON")


REMOTE = arg("--url", help="where toolcrib serves; your token is sent there [the one that serves this project]")
"""The option of commands that talk to a running toolcrib."""


def read_stdin() -> str:
    """All of stdin."""
    return sys.stdin.read()
