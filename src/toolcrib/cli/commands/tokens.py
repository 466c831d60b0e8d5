"""``toolcrib tokens``: tokens for programs, with no more reach than they need; shown once."""

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import OK, UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import note_decision, open_here, tokens_here
from toolcrib.cli.running import run_once
from toolcrib.config.values import Mismatch, timeout_s
from toolcrib.core.access import NATIVE, Grants, matches
from toolcrib.core.errors import ConfigError
from toolcrib.core.offers import SecurityLevel
from toolcrib.crib.crib import Crib
from toolcrib.stores.access_tokens import AccessToken, NewToken, TokenFile


@command(
    arg("--yes", action="store_true", help="do not ask"),
    examples="""\
examples:
  toolcrib tokens reset --yes

Every token ends, also those whose file is gone or damaged. Afterwards programs on this machine need none, until one is
made again.""",
)
def run_reset(options: Options, console: Console) -> None:
    """End them all."""
    tokens = tokens_here(options)
    if not isinstance(tokens, TokenFile):
        raise UsageError("The tokens are in the shared database.", hint="End them with `toolcrib tokens revoke NAME`.")
    if not options.yes and not _is_wanted():
        raise UsageError("Nothing was changed.", hint="Say --yes to end all tokens.")
    tokens.reset()
    note_decision(options, console, "token", "reset")
    console.say("All tokens are ended. Programs on this machine need none now.")


def _is_wanted() -> bool:
    if not sys.stdin.isatty():
        return False
    return input("End all tokens, so that programs on this machine need none? [y/N] ").strip().lower() in ("y", "yes")


def shown_scope(token: AccessToken) -> str:
    """What a token may do, in a few words."""
    limits = {"servers": token.servers, "tools": token.tools, "capabilities": token.capabilities}
    written = (f"{name} {', '.join(values)}" for name, values in limits.items() if values not in (None, ("*",)))
    return "; ".join([f"tools up to {token.level}", *written])


def shown_expiry(token: AccessToken) -> str:
    """When a token ends."""
    return "never" if token.expires is None else _moment(token.expires)[:16].replace("T", " ")


def token_entry(token: AccessToken, now: float) -> dict[str, Any]:
    """A token as plain data, without its digest."""
    return {
        "id": token.id,
        "name": token.name,
        "kind": token.kind,
        "state": token.state(now),
        "level": token.level,
        "servers": list(token.servers),
        "tools": list(token.tools),
        "capabilities": None if token.capabilities is None else list(token.capabilities),
        "created": _moment(token.created),
        "expires": None if token.expires is None else _moment(token.expires),
        "revoked": None if token.revoked is None else _moment(token.revoked),
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


NEVER = "never"
LONGEST_S = 100 * 365 * 86400.0


@command(
    arg("name", metavar="NAME", help="who gets it, to find it again"),
    arg(
        "--level",
        choices=list(SecurityLevel),
        default=SecurityLevel.READ_ONLY,
        help="the furthest-reaching tools it may use [read_only]",
    ),
    arg("--server", action="append", metavar="PATTERN", help="servers it may use (repeatable) [*]"),
    arg("--tool", action="append", metavar="PATTERN", help="tools it may use (repeatable) [*]"),
    arg("--capability", action="append", metavar="C", help="what its tools may need (repeatable) [whatever they need]"),
    arg("--agent", action="store_true", help="an agent holds it, which cannot approve its own calls"),
    arg("--expires", default="90d", metavar="TIME", help='when it ends: "30d", "12h", "never" [90d]'),
    as_json("the token and what it may do"),
    examples="""\
examples:
  toolcrib tokens create ci --level write --server github
  toolcrib tokens create helper --agent --tool 'docs__*' --expires 7d""",
)
def run_create(options: Options, console: Console) -> None:
    """Make it, and show it this once."""
    grants = Grants(
        SecurityLevel(options.level),
        tuple(options.server or ("*",)),
        tuple(options.tool or ("*",)),
        frozenset(options.capability) if options.capability else None,
    )
    wish = NewToken(options.name, grants, "agent" if options.agent else "token", _lifetime_s(options.expires))
    token, text = tokens_here(options).create(wish)
    note_decision(options, console, "token", "created", name=token.name, id=token.id, scope=shown_scope(token))
    if options.server or options.tool:
        run_once(_warn_of_unknown(options, console))
    if options.json:
        console.print_json({**token_entry(token, time.time()), "token": text})
        return
    console.print(text)
    console.say(f"It may use {shown_scope(token)}; it ends {shown_expiry(token)}. It is not shown again.")
    console.say("A server that runs without tokens asks for them from its next start on.", "dim")


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
    tools = [*crib.catalog.routes, *crib.catalog.quiet]
    yield from (f"No tool known here is called {name!r}." for name in _unmatched(options.tool, tools))


def _unmatched(patterns: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    return [pattern for pattern in patterns or () if not any(matches(name, (pattern,)) for name in names)]


COLUMNS = (
    Column("NAME", styles=("bold",)),
    Column("ID"),
    Column("KIND"),
    Column("STATE", coloured={"active": ("green",), "expired": ("yellow",), "revoked": ("dim",)}),
    Column("ENDS"),
    Column("MAY USE", flexible=True),
)


@command(as_json("the tokens"))
def run_ls(options: Options, console: Console) -> None:
    """List them."""
    now = time.time()
    tokens = tokens_here(options).read()
    if options.json:
        console.print_json([token_entry(token, now) for token in tokens])
    elif tokens:
        rows = [(t.name, t.id, t.kind, t.state(now), shown_expiry(t), shown_scope(t)) for t in tokens]
        print_table(console, COLUMNS, rows)
    else:
        console.say("There is no token. Create one: toolcrib tokens create NAME")


@command(arg("name", metavar="NAME|ID", help="the token, as `toolcrib tokens ls` shows it"), as_json("the token"))
def run_revoke(options: Options, console: Console) -> None:
    """End it."""
    token = tokens_here(options).revoke(options.name)
    note_decision(options, console, "token", "revoked", name=token.name, id=token.id)
    if options.json:
        console.print_json(token_entry(token, time.time()))
    else:
        console.say(f"Token {token.name!r} ({token.id}) is revoked.")
