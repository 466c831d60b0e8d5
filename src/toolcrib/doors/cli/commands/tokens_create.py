"""``toolcrib tokens create``: a token for one program, with no more reach than it needs; shown once."""

import time
from collections.abc import Iterator, Sequence

from toolcrib.config.values import Mismatch, timeout_s
from toolcrib.core.access import NATIVE, Grants, matches
from toolcrib.core.errors import ConfigError
from toolcrib.core.tool import SecurityLevel
from toolcrib.crib import Crib
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, UsageError
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.ledger import note_decision
from toolcrib.doors.cli.opening import open_here, tokens_here
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.scopes import shown_expiry, shown_scope, token_entry
from toolcrib.stores.tokens import TokenWish

EXAMPLES = """\
examples:
  toolcrib tokens create ci --level write --server github
  toolcrib tokens create helper --agent --tool 'docs__*' --expires 7d"""

NEVER = "never"
LONGEST_S = 100 * 365 * 86400.0


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("name", metavar="NAME", help="who gets it, to find it again")
    parser.add_argument(
        "--level",
        choices=list(SecurityLevel),
        default=SecurityLevel.READ_ONLY,
        help="the furthest-reaching tools it may use [read_only]",
    )
    parser.add_argument("--server", action="append", metavar="PATTERN", help="servers it may use (repeatable) [*]")
    parser.add_argument("--tool", action="append", metavar="PATTERN", help="tools it may use (repeatable) [*]")
    parser.add_argument(
        "--capability", action="append", metavar="C", help="what its tools may need (repeatable) [whatever they need]"
    )
    parser.add_argument("--agent", action="store_true", help="an agent holds it, which cannot approve its own calls")
    parser.add_argument("--expires", default="90d", metavar="TIME", help='when it ends: "30d", "12h", "never" [90d]')
    add_json(parser, "the token and what it may do")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Make it, and show it this once."""
    grants = Grants(
        SecurityLevel(options.level),
        tuple(options.server or ("*",)),
        tuple(options.tool or ("*",)),
        frozenset(options.capability) if options.capability else None,
    )
    wish = TokenWish(options.name, grants, "agent" if options.agent else "token", _lifetime_s(options.expires))
    token, text = tokens_here(options).create(wish)
    note_decision(options, console, "token", "created", name=token.name, id=token.id, scope=shown_scope(token))
    if options.server or options.tool:
        run_once(_warn_of_unknown(options, console))
    if options.json:
        console.print_json({**token_entry(token, time.time()), "token": text})
        return OK
    console.print(text)
    console.say(f"It may use {shown_scope(token)}; it ends {shown_expiry(token)}. It is not shown again.")
    console.say("A server that runs without tokens asks for them from its next start on.", "dim")
    return OK


def _lifetime_s(written: str) -> float | None:
    if written == NEVER:
        return None
    try:
        seconds = timeout_s(written)
    except Mismatch:
        seconds = LONGEST_S + 1
    if seconds > LONGEST_S:
        hint = 'Write a duration such as "30d" or "12h", at most a hundred years, or "never".'
        raise UsageError(f"--expires is {written!r}.", hint=hint)
    return seconds


async def _warn_of_unknown(options: Options, console: Console) -> int:
    """A pattern that stands for nothing today may be right tomorrow; more often it is a slip."""
    try:
        async with open_here(options, console) as crib:
            for warning in _unknown(options, crib):
                console.say(warning, "yellow")
    except ConfigError as error:
        console.say(f"The patterns were not checked: {error}", "yellow")
    return OK


def _unknown(options: Options, crib: Crib) -> Iterator[str]:
    servers = [NATIVE, *crib.shelves, *crib.disabled]
    yield from (f"No server here is called {name!r}." for name in _unmatched(options.server, servers))
    tools = list(crib.catalog.routes)
    yield from (f"No tool known here is called {name!r}." for name in _unmatched(options.tool, tools))


def _unmatched(patterns: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    return [pattern for pattern in patterns or () if not any(matches(name, (pattern,)) for name in names)]
