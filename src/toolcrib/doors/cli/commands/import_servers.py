"""``toolcrib import``: bring in the servers other programs have, after showing what would change."""

from pathlib import Path

from toolcrib.config.environment import chosen_config
from toolcrib.config.foreign.plan import ACTED_ON, Candidate
from toolcrib.core.errors import did_you_mean
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK, NotFound, UsageError
from toolcrib.doors.cli.imports import choose, count, is_person_here, plan_document, print_plan
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.importing import Found, Wanted, find_imports, import_target, take_over
from toolcrib.stores.paths import find_project
from toolcrib.surroundings import Surroundings

EXAMPLES = """\
examples:
  toolcrib import                    everything that is found, after asking
  toolcrib import cursor --dry-run   what Cursor has
  toolcrib import server.json --only weather --yes
  toolcrib import --sync             what changed since at the places servers came from

Nothing is run, nothing is trusted, and secrets stay references. What you changed by hand is never overwritten."""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("words", metavar="FILE|CLIENT", nargs="*", help="a file, a client or an install link [all]")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this server (repeatable)")
    parser.add_argument("--sync", action="store_true", help="take over what changed where servers came from")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--global", dest="user", action="store_true", help="write the user's file, not the project's")
    add_json(parser, "what was found and done")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Show the difference, ask, write."""
    around = Surroundings()
    target = import_target(around, options.config or chosen_config(around.env), user=options.user)
    everything = find_imports(around, Wanted(target, tuple(options.words), options.sync))
    found = _only(everything, options.only)
    actions = _actions(found, options)
    if not options.json:
        print_plan(found, console)
    names = [] if options.dry_run else _names(actions, target, options, console)
    shadowed = find_project(around.cwd)
    done = take_over(found, names, target, around)
    _warn_of_shadow(everything, done, shadowed, console)
    _tell(found, actions, done, target, options, console)
    return FAILURE if found.problems and options.words else OK


def _only(found: Found, names: list[str]) -> Found:
    if not names:
        return found
    known = {candidate.name for candidate in found.candidates}
    for name in names:
        if name not in known:
            raise NotFound(f"No server named {name!r} was found.", hint=did_you_mean(name, known))
    kept = tuple(candidate for candidate in found.candidates if candidate.name in names)
    return Found(kept, found.problems, found.files)


def _actions(found: Found, options: Options) -> list[Candidate]:
    """A plain import only adds; changes and removals are for ``--sync``."""
    return found.in_state(*(ACTED_ON if options.sync else ("new",)))


def _names(actions: list[Candidate], target: Path, options: Options, console: Console) -> list[str]:
    names = [candidate.name for candidate in actions]
    if not names or options.yes:
        return names
    if options.json or not is_person_here(console):
        raise UsageError("Nobody can be asked here.", hint="Add --yes to do it, or --dry-run to look.")
    verb = "Change" if options.sync else "Add"
    return choose(console, f"{verb} {count(len(names))} in {target}?", names)


def _warn_of_shadow(found: Found, done: list[Candidate], before: Path | None, console: Console) -> None:
    """A new toolcrib.toml hides another program's file that toolcrib had read in its place."""
    if not done or before is None or before.suffix == ".toml":
        return
    here = [candidate for candidate in found.in_state("new") if candidate not in done]
    lost = [one.name for one in here if any(origin.path == str(before) for origin in one.origins)]
    if lost:
        console.say(
            f"{before} is no longer read by toolcrib, so it lacks {', '.join(lost)}; import them, too.", "yellow"
        )


def _tell(
    found: Found, actions: list[Candidate], done: list[Candidate], target: Path, options: Options, console: Console
) -> None:
    if options.json:
        console.print_json(plan_document(found, str(target), done))
    elif done:
        console.say(f"{count(len(done))} written to {target}. See them with `toolcrib servers ls`.")
    elif not found.candidates:
        console.say("No servers were found." if not options.sync else "Nothing was imported into this file before.")
    elif not actions:
        changed = found.in_state("changed") and not options.sync
        console.say("Run `toolcrib import --sync` to take over what changed." if changed else "There is nothing to do.")
    elif options.dry_run:
        console.say(f"Nothing is written yet; {count(len(actions))} would be, to {target}.")
    else:
        console.say("Nothing is written.")
