"""``toolcrib clients``: programs that people let in by OAuth, and the people who may do so."""

import time
from urllib.parse import urlencode

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import load_here, note_decision, tokens_here
from toolcrib.core.access import Grants
from toolcrib.core.offers import SecurityLevel
from toolcrib.crib.backend import find_backend
from toolcrib.server.views.accounts import ClientView, client_view
from toolcrib.stores.connections import INVITED_S, ConnectedClient, ConnectionBook, invite, revoke_connection
from toolcrib.stores.paths import Environment

COLUMNS = (
    Column("NAME", styles=("bold",)),
    Column("ID"),
    Column("LET IN BY"),
    Column("STATE", coloured={"active": ("green",), "expired": ("yellow",), "revoked": ("dim",)}),
    Column("LEVEL"),
    Column("LAST TOKEN"),
    Column("MAY USE", flexible=True),
)
INVITE_PATH = "/invite"


@command(as_json("the clients"))
def run_ls(options: Options, console: Console) -> None:
    """List them."""
    now = time.time()
    found = [client_view(each, now) for each in _book(options).read(ConnectedClient)]
    if options.json:
        console.print_json(found)
    elif found:
        print_table(console, COLUMNS, [_row(each) for each in found])
    else:
        console.say('No client is connected. How they come in: [serve] oauth = "builtin", see docs/connect-remote.md')


def _row(client: ClientView) -> tuple[str, ...]:
    moment = client.renewed_at[:16].replace("T", " ")
    return client.name, client.id, client.user, client.state, client.level, moment, client.resource


@command(arg("name", metavar="NAME|ID", help="the client, as `toolcrib clients ls` shows it"), as_json("the client"))
def run_rm(options: Options, console: Console) -> None:
    """End it."""
    ended = revoke_connection(_book(options), options.name, time.time(), "a person disconnected it")
    told = {"client": ended.client_name, "client_id": ended.client_id, "user": ended.user_name}
    note_decision(options, console, "client", "revoked", id=ended.id, **told)
    if options.json:
        console.print_json(client_view(ended, time.time()))
    else:
        console.say(f"Client {ended.client_name!r} ({ended.id}) is disconnected.")


@command(
    arg("name", metavar="NAME", help="who is invited"),
    arg(
        "--level",
        choices=list(SecurityLevel),
        default=SecurityLevel.WRITE,
        help="the furthest-reaching tools that they and their clients may use [write]",
    ),
    arg("--server", action="append", metavar="PATTERN", help="servers they may use (repeatable) [*]"),
    arg("--tool", action="append", metavar="PATTERN", help="tools they may use (repeatable) [*]"),
    as_json("the link"),
    examples="""\
examples:
  toolcrib clients invite ada
  toolcrib clients invite guest --level read_only --server docs

Whoever opens the link becomes a user, once, and is shown the token they sign in with. `toolcrib tokens revoke NAME`
takes it back, and disconnects every client they let in.""",
)
def run_invite(options: Options, console: Console) -> None:
    """Make the link."""
    config = load_here(options).config
    if config.oauth != "builtin" or not config.public_url:
        hint = 'Set oauth = "builtin" and public_url in [serve]; see docs/connect-remote.md.'
        raise UsageError("Nobody else could connect clients here.", hint=hint)
    servers, tools = tuple(options.server or ("*",)), tuple(options.tool or ("*",))
    grants = Grants(SecurityLevel(options.level), servers, tools)
    word = invite(_book(options), tokens_here(options), options.name, grants, time.time())
    note_decision(options, console, "client", "invited", user=options.name, level=str(grants.level))
    link = f"{config.public_url}{INVITE_PATH}?{urlencode({'word': word})}"
    if options.json:
        console.print_json({"name": options.name, "link": link})
        return
    console.print(link)
    days = f"{INVITED_S / 86_400:.0f} days"
    console.say(f"Send it to {options.name} alone: it works once, for {days}. It is not shown again.")


def _book(options: Options) -> ConnectionBook:
    return find_backend(load_here(options).config, Environment()).connections(time.time)
