"""``toolcrib open``: the page of the toolcrib that runs here, signed in."""

from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, OK
from toolcrib.cli.invoke import REMOTE, Options, arg, command
from toolcrib.server.remote import open_remote
from toolcrib.server.rest.state import SIGN_IN_PATH
from toolcrib.stores.paths import Environment


@command(arg("--print", action="store_true", help="print the address instead; it signs in once"), REMOTE)
async def run_open(options: Options, console: Console) -> int:
    """Ask for an address that signs in, and open it."""
    remote = open_remote(options.url, options.config, Environment())
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
