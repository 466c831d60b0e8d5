"""``toolcrib login``, ``logout`` and ``accounts``: whose account calls to a server are made with."""

import asyncio
import sys
import threading
import webbrowser
from contextlib import suppress
from urllib.parse import quote

import msgspec

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import open_here
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.errors import SourceUnavailable, ToolcribError
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.crib.accounts import ServerSignIns
from toolcrib.crib.crib import Crib
from toolcrib.server.remote import open_remote
from toolcrib.server.views.accounts import AccountView, SignOutcome, account_view
from toolcrib.stores.paths import Environment

SERVER = arg("name", metavar="NAME", help="the server, as `toolcrib servers ls` shows it")
COLUMNS = (
    Column("SERVER", styles=("bold",)),
    Column("WHOSE"),
    Column("SIGNED IN AS"),
    Column("UNTIL"),
    Column("AT", flexible=True),
)


@command(
    SERVER,
    arg("--no-browser", action="store_true", help="only show the address: open it wherever there is a browser"),
    as_json("the account"),
    examples="""\
examples:
  toolcrib login tracker
  toolcrib login tracker --no-browser    # over SSH or in a container: paste the address the browser ends at""",
)
async def run_login(options: Options, console: Console) -> None:
    """Sign in, and say what came of it."""
    async with open_here(options, console) as crib:
        sign_ins, line = _sign_ins(crib), asyncio.get_running_loop().create_future()

        def show(url: str) -> None:
            console.say(f"To sign in at {options.name!r}, open this address in a browser:\n\n  {url}\n")
            console.say("If the browser is on another machine, paste the address here that it ends at.")
            threading.Thread(target=_read_line, args=(line,), daemon=True).start()
            if not options.no_browser:
                threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

        account = account_view(await sign_ins.sign_in_here(options.name, LOCAL_USER.id, show, line))
        record = (await crib.servers.refresh(options.name))[options.name]
    await _tell_running(options)
    if options.json:
        console.print_json(account)
        return
    console.say(f"Signed in at {options.name!r}{_as_whom(account)}.", "green")
    if record.status is DiscoveryStatus.SUCCESS:
        console.say(f"It offers {len(record.tools)} tools.")
    else:
        console.say(record.error, "yellow")


def _read_line(line: "asyncio.Future[str]") -> None:
    """One line that somebody pastes; a terminal that is closed says nothing."""
    text = sys.stdin.readline()

    def take() -> None:
        if not line.done():
            line.set_result(text)

    if text.strip():
        with suppress(RuntimeError):  # it is over already
            line.get_loop().call_soon_threadsafe(take)


@command(SERVER, as_json("the account"))
async def run_logout(options: Options, console: Console) -> None:
    """Forget the account, and have its tokens end."""
    outcome = await _sign_out_where_it_runs(options)
    if outcome is None:
        async with open_here(options, console) as crib:
            account, problem = await _sign_ins(crib).sign_out(options.name, LOCAL_USER.id)
        outcome = SignOutcome(account_view(account), problem or None)
    if options.json:
        console.print_json(outcome)
        return
    console.say(f"Signed out at {options.name!r}.")
    if outcome.problem:
        console.say(f"Its tokens are forgotten here, but were not revoked: {outcome.problem}", "yellow")


async def _sign_out_where_it_runs(options: Options) -> SignOutcome | None:
    """Have a toolcrib that runs here do it, which uses the tokens; ``None`` if there is none."""
    try:
        remote = open_remote(None, options.config, Environment())
    except SourceUnavailable:
        return None
    try:
        told = await remote.send("DELETE", f"/api/v1/accounts/{quote(options.name, safe='')}")
    except SourceUnavailable:
        return None
    finally:
        await remote.close()
    return msgspec.convert(told, SignOutcome)


@command(as_json("the accounts"))
async def run_accounts(options: Options, console: Console) -> None:
    """List the accounts."""
    async with open_here(options, console) as crib:
        found = [account_view(each) for each in await _sign_ins(crib).kept()]
    if options.json:
        console.print_json(found)
    elif found:
        rows = [(each.server, each.user, each.who or "-", _until(each), each.issuer) for each in found]
        print_table(console, COLUMNS, rows)
        for each in found:
            if each.error:
                console.say(f"{each.server}: {each.error}", "yellow")
    else:
        console.say("Nobody is signed in anywhere. Sign in with: toolcrib login NAME")


def _until(account: AccountView) -> str:
    if not account.is_signed_in:
        return "ended"
    until = account.expires_at or "it is refused"
    return f"{until}, then renewed" if account.is_renewed else until


def _as_whom(account: AccountView) -> str:
    return f" as {account.who}" if account.who else ""


def _sign_ins(crib: Crib) -> ServerSignIns:
    if crib.sign_ins is None:
        raise UsageError("Nobody can sign in here.")
    return crib.sign_ins


async def _tell_running(options: Options) -> None:
    """Have a toolcrib that runs here ask the server again, now that something changed."""
    with suppress(ToolcribError):  # none runs, or it looks by itself
        remote = open_remote(None, options.config, Environment())
        try:
            await remote.send("POST", f"/api/v1/servers/{quote(options.name, safe='')}/refresh")
        finally:
            await remote.close()
