"""The first ``toolcrib up``: when nothing is configured but other programs have servers, they are offered."""

from pathlib import Path

from toolcrib.config.environment import chosen_config
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.invoke import Options, Parser
from toolcrib.doors.cli.opening import is_bare, load_here
from toolcrib.stores.paths import find_project, user_config_path
from toolcrib.surroundings import Surroundings


def add_first_run(parser: Parser) -> None:
    """The options of a command that offers an import."""
    offer = parser.add_mutually_exclusive_group()
    offer.add_argument(
        "--import", dest="take_over", action="store_true", help="if nothing is configured: import what is found"
    )
    offer.add_argument("--no-import", action="store_true", help="do not look for servers of other programs")


def offer_import(options: Options, console: Console) -> None:
    """Ask, or say how; costs a look for two files when there is a configuration."""
    around = Surroundings()
    if options.no_import or _has_configuration(options, around) or not is_bare(load_here(options)):
        return
    from toolcrib.doors.cli.imports import choose, count, is_person_here, listed
    from toolcrib.importing import Wanted, find_imports, import_target, take_over

    target = import_target(around)
    found = find_imports(around, Wanted(target))
    names = [candidate.name for candidate in found.in_state("new")]
    if not names:
        return
    told = f"{count(len(names))} from {listed(found.clients)}"
    if not options.take_over and not is_person_here(console):
        console.say(f"toolcrib: found {told}; `toolcrib import` brings them in.")
        return
    chosen = names if options.take_over else choose(console, f"Import {told}?", names)
    done = take_over(found, chosen, target, around)
    if done:
        console.say(f"{count(len(done))} written to {target}.")
    for candidate in done:
        for note in candidate.notes:
            console.say(f"  {candidate.name}: {note}", "dim")


def _has_configuration(options: Options, around: Surroundings) -> Path | str | None:
    user = user_config_path(around.env)
    return options.config or chosen_config(around.env) or find_project(around.cwd) or (user if user.is_file() else None)
