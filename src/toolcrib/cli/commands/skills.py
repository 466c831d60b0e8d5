"""``toolcrib skills``: instructions that servers bring along, with the files they need."""

from toolcrib.cli.commands.resources import ask_for, finish, list_offers
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import OK
from toolcrib.cli.invoke import Options, arg, as_json, command, in_profile
from toolcrib.cli.opening import discover_unasked, open_window
from toolcrib.core.errors import UnknownTool
from toolcrib.core.offers import OfferKind, RequestKind, offer_key
from toolcrib.core.skills import files_of

FILE_COLUMNS = (Column("FILE", styles=("bold",)), Column("BYTES"), Column("SHA-256"))
DIGEST_SHOWN = len("sha256:") + 12


@command(
    arg("--server", metavar="NAME", help="only those of this server"),
    in_profile("only those of this profile"),
    arg("--cached", action="store_true", help="only what is known already; start nothing"),
    as_json("the list"),
)
async def run_ls(options: Options, console: Console) -> None:
    """List the skills; servers nobody has asked yet are asked first."""
    await list_offers(options, console, (OfferKind.SKILL,), "skills")


@command(
    arg("uri", metavar="URI", help="of its SKILL.md, as `toolcrib skills ls` shows it"),
    in_profile("as this profile shows it"),
    as_json("its entry"),
    examples="""\
examples:
  toolcrib skills show skill://docs/pdf-processing/SKILL.md
  toolcrib resources read skill://docs/pdf-processing/references/FORMS.md""",
)
async def run_show(options: Options, console: Console) -> int:
    """Show a skill: its files, then its instructions, which are read and compared with what was accepted."""
    async with open_window(options, console) as window:
        await discover_unasked(window.crib, console)
        name = window.crib.resource_name(options.uri)
        route = window.catalog.others.get(offer_key(OfferKind.SKILL, name))
        if route is None:
            raise UnknownTool(name, kind=OfferKind.SKILL)
        shown = route.to_mcp()
        if options.json:
            console.print_json(shown)
            return OK
        result = await ask_for(window, console, name, {}, RequestKind.READ)
        if result.error is not None:
            return finish(result, options, console)
        rows = [(one["uri"], str(one["size"]), one["digest"][len("sha256:") : DIGEST_SHOWN]) for one in files_of(shown)]
        print_table(console, FILE_COLUMNS, rows)
        for part in result.mcp.get("contents", ()):
            console.print_foreign(str(part.get("text", "")))
        return OK
