"""``toolcrib disconnect``: take toolcrib out of a client's file again."""

from toolcrib.connecting import disconnect, preview_disconnect
from toolcrib.doors.cli.clients import add_client, find_client, print_change
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser
from toolcrib.surroundings import Surroundings

EXAMPLES = """\
examples:
  toolcrib disconnect cursor
  toolcrib disconnect vscode --project --dry-run

If nobody else changed the file, it is put back byte for byte; otherwise only the entry of toolcrib is taken out."""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_client(parser, optional=False)


def run(options: Options, console: Console) -> int:
    """Put the file back, or take out the one entry."""
    around = Surroundings()
    client = find_client(options, around)
    change = (preview_disconnect if options.dry_run else disconnect)(client, around)
    label, path = client.connector.label, client.path
    if change.kind == "absent":
        console.say(f"{label} is not connected ({path}).")
    elif options.dry_run:
        print_change(change, console)
        console.say("Nothing is written yet.")
    elif change.kind == "restored" and change.after is None:
        console.say(f"{label} is disconnected: {path} was made by toolcrib and is removed.")
    elif change.kind == "restored":
        console.say(f"{label} is disconnected: {path} is as it was before.")
    else:
        console.say(f"{label} is disconnected. {path} was changed since, so only the entry of toolcrib was taken out.")
        if change.backup:
            console.say(f"The servers it had before are in {change.backup}.", "yellow")
    return OK
