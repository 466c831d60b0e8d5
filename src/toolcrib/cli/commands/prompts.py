"""``toolcrib prompts``: messages to begin with, made by servers."""

from toolcrib.cli.commands.resources import ask_for, finish, list_offers
from toolcrib.cli.console import Console
from toolcrib.cli.content import lines_of, read_arguments
from toolcrib.cli.failures import OK
from toolcrib.cli.invoke import Options, arg, as_json, command, in_profile
from toolcrib.cli.opening import discover_unasked, open_window
from toolcrib.core.offers import OfferKind, RequestKind


@command(
    arg("--server", metavar="NAME", help="only those of this server"),
    in_profile("only those of this profile"),
    arg("--cached", action="store_true", help="only what is known already; start nothing"),
    as_json("the list"),
)
async def run_ls(options: Options, console: Console) -> None:
    """List the prompts; servers nobody has asked yet are asked first."""
    await list_offers(options, console, (OfferKind.PROMPT,), "prompts")


@command(
    arg("prompt", metavar="PROMPT", help="its name, as `toolcrib prompts ls` shows it"),
    arg("words", nargs="*", default=[], metavar="key=value", help="its arguments"),
    in_profile("get it as this profile shows it"),
    as_json("the whole result"),
    examples="""\
examples:
  toolcrib prompts get github__review pull=17
  toolcrib prompts get github__review pull=17 --json""",
)
async def run_get(options: Options, console: Console) -> int:
    """Get a prompt; its messages go to stdout, each under who says it."""
    async with open_window(options, console) as window:
        await discover_unasked(window.crib, console)
        route = window.catalog.find(RequestKind.GET, options.prompt)
        arguments = read_arguments(options.words, None, route.offer.input_schema if route else {})
        result = await ask_for(window, console, options.prompt, arguments, RequestKind.GET)
        if options.json or result.error is not None:
            return finish(result, options, console)
        for message in result.mcp.get("messages", ()):
            content = message.get("content")
            console.print_foreign(f"{message.get('role', '')}:")
            for text in lines_of(content if isinstance(content, list) else [content or {}], None, options.prompt):
                console.print_foreign(text)
        return OK
