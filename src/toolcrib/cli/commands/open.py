"""``toolcrib open``: the page of the toolcrib that runs here, signed in."""

from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, OK
from toolcrib.cli.invoke import Options, Parser, add_common
from toolcrib.cli.remote import add_remote, open_remote
from toolcrib.cli.running import run_once
from toolcrib.server.rest.state import SIGN_IN_PATH


def add_open_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--print", action="store_true", help="print the address instead; it signs in once")
    add_remote(parser)
    add_common(parser)


def run_open(options: Options, console: Console) -> int:
    """Ask for an address that signs in, and open it."""
    return run_once(_open(options, console))


async def _open(options: Options, console: Console) -> int:
    remote = open_remote(options)
    try:
        url: str = (await remote.send("POST", SIGN_IN_PATH))["url"]
    finally:
        await remote.close()
    if options.print:
        console.print(url)
        return OK
    import webbrowser

    if webbrowser.open(url):
        console.say("The page is open in the browser.")
        return OK
    console.say("No browser could be opened. Run `toolcrib open --print`, and open what it prints.")
    return FAILURE
