"""``toolcrib import``: bring in the servers other programs have, after showing what would change."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolcrib.cli.console import Console, one_line
from toolcrib.cli.failures import FAILURE, OK, NotFound, UsageError
from toolcrib.cli.invoke import Options, Parser, arg, as_json, command
from toolcrib.config.environment import chosen_config
from toolcrib.config.foreign.plan import ACTED_ON, ImportCandidate, State
from toolcrib.config.model import is_bare
from toolcrib.core.errors import did_you_mean
from toolcrib.core.names import to_server_name
from toolcrib.crib.loading import load
from toolcrib.project.importing import (
    ImportPlan,
    ImportRequest,
    candidate_document,
    find_imports,
    import_target,
    label_of,
    shown_server,
    take_over,
)
from toolcrib.stores.paths import Environment, find_project, user_config_path

SIGNS = {"new": "+", "changed": "~", "removed": "-", "same": "=", "used": "=", "edited": "!", "left out": "!"}
STYLES = {"new": "green", "changed": "yellow", "removed": "red", "edited": "yellow"}
WORDS = {
    "new": "",
    "changed": "changed there",
    "removed": "removed there",
    "same": "already here",
    "used": "in use already",
    "edited": "yours stays",
    "left out": "left out",
}


def print_plan(found: ImportPlan, console: Console) -> None:
    """Each server with where it is from and what would happen to it."""
    for candidate in found.candidates:
        for text, styles in _lines(candidate):
            console.print(console.paint(one_line_indented(text), *styles))
    for problem in found.problems:
        console.say(problem, "yellow")


def _lines(candidate: ImportCandidate) -> Iterator[tuple[str, tuple[str, ...]]]:
    style = STYLES.get(candidate.state, "dim")
    labels = ", ".join(dict.fromkeys(label_of(origin.client) for origin in candidate.origins))
    word = WORDS[candidate.state]
    told = f"{word}: {reason}" if (reason := candidate.reason or _in_use(candidate)) and word else word
    heading = f"{SIGNS[candidate.state]} {candidate.name}  ({labels})"
    yield (f"{heading}  {told}" if told else heading), (style,)
    if candidate.state == "new" and candidate.server is not None:
        yield from ((f"    {line}", ()) for line in setting_lines(shown_server(candidate.server)))
    elif candidate.state == "changed":
        yield from _changes(candidate)
    if candidate.state in ("new", "changed"):
        yield from ((f"    note: {note}", ("dim",)) for note in candidate.notes)


def _in_use(candidate: ImportCandidate) -> str:
    """Why a server is not offered that others might want a second time."""
    if candidate.state != "used":
        return f"as {candidate.twin}" if candidate.twin and candidate.twin not in _names_there(candidate) else ""
    return f"{candidate.twin} is the same with other settings; --only {candidate.name} adds this one, too"


def _names_there(candidate: ImportCandidate) -> set[str]:
    return {to_server_name(origin.name) for origin in candidate.origins}


def _changes(candidate: ImportCandidate) -> Iterator[tuple[str, tuple[str, ...]]]:
    old = setting_lines(shown_server(candidate.before)) if candidate.before else []
    new = setting_lines(shown_server(candidate.server)) if candidate.server else []
    yield from ((f"    - {line}", ("red",)) for line in old if line not in new)
    yield from ((f"    + {line}", ("green",)) for line in new if line not in old)
    if old == new:
        yield "    something that is masked or not shown here changed", ("dim",)


def setting_lines(shown: dict[str, Any]) -> list[str]:
    """One line for each setting that is not a default."""
    return [line for key, value in shown.items() for line in _setting(key, value)]


def _setting(key: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{key}.{name} = {text}" for name, text in value.items()]
    if isinstance(value, list):
        return [f"{key} = {' '.join(map(str, value))}"]
    return [f"{key} = {str(value).lower() if isinstance(value, bool) else value}"]


def one_line_indented(text: str) -> str:
    """One line that keeps its indentation; what strangers wrote cannot break out of it."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + one_line(text)


def plan_document(found: ImportPlan, target: str, done: Sequence[ImportCandidate]) -> dict[str, Any]:
    """The plan for a program."""
    return {
        "file": target,
        "servers": [candidate_document(candidate) for candidate in found.candidates],
        "done": [candidate.name for candidate in done],
        "problems": list(found.problems),
        "read": list(found.files),
    }


def is_person_here(console: Console) -> bool:
    """Whether somebody can be asked."""
    return console.is_live and sys.stdin.isatty()


def ask_line(console: Console, question: str) -> str:
    """One answer at the terminal, folded; a terminal that is closed says no."""
    console.err.write(f"{question} ")
    console.err.flush()
    line = sys.stdin.readline()
    return line.strip().casefold() if line else "no"


def choose(console: Console, question: str, names: Sequence[str]) -> list[str]:
    """All, none, or those a person picks one by one."""
    answer = ask_line(console, f"{question} [Y/n/choose]")
    if answer in ("", "y", "yes"):
        return list(names)
    if answer not in ("c", "choose"):
        return []
    return [name for name in names if ask_line(console, f"  {name}? [Y/n]") in ("", "y", "yes")]


def count(number: int, what: str = "server") -> str:
    """``1 server``, ``5 servers``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


@command(
    arg("words", metavar="FILE|CLIENT", nargs="*", help="a file, a client or an install link [all]"),
    arg("--only", action="append", default=[], metavar="NAME", help="only this server (repeatable)"),
    arg("--sync", action="store_true", help="take over what changed where servers came from"),
    arg("--dry-run", action="store_true", help="show what would change, and change nothing"),
    arg("--yes", action="store_true", help="do not ask"),
    arg("--global", dest="user", action="store_true", help="write the user's file, not the project's"),
    as_json("what was found and done"),
    examples="""\
examples:
  toolcrib import                    everything that is found, after asking
  toolcrib import cursor --dry-run   what Cursor has
  toolcrib import server.json --only weather --yes
  toolcrib import --sync             what changed since at the places servers came from

Nothing is run and nothing is trusted. Secrets become references, and toolcrib keeps their values; what is served
already is not added twice, and stays served. What you changed by hand is never overwritten.""",
)
def run_import(options: Options, console: Console) -> int:
    """Show the difference, ask, write."""
    around = Environment()
    target = import_target(around, options.config or chosen_config(around.env), user=options.user)
    everything = find_imports(around, ImportRequest(target, tuple(options.words), options.sync))
    found = _only(everything, options.only)
    actions = _actions(found, options)
    if not options.json:
        print_plan(found, console)
    names = [] if options.dry_run else _names(actions, target, options, console)
    done = take_over(found, names, target, around)
    tell_of_company(done, console)
    _tell(found, actions, done, target, options, console)
    return FAILURE if found.problems and options.words else OK


def _only(found: ImportPlan, names: list[str]) -> ImportPlan:
    if not names:
        return found
    known = {candidate.name for candidate in found.candidates}
    for name in names:
        if name not in known:
            raise NotFound(f"No server named {name!r} was found.", hint=did_you_mean(name, known))
    kept = tuple(candidate for candidate in found.candidates if candidate.name in names)
    return replace(found, candidates=kept)


def _actions(found: ImportPlan, options: Options) -> list[ImportCandidate]:
    """A plain import only adds; changes and removals are for ``--sync``, a second one of the same for who names it."""
    named: tuple[State, ...] = ("used",) if options.only else ()
    return found.in_state(*(ACTED_ON if options.sync else ("new",)), *named)


def _names(actions: list[ImportCandidate], target: Path, options: Options, console: Console) -> list[str]:
    names = [candidate.name for candidate in actions]
    if not names or options.yes:
        return names
    if options.json or not is_person_here(console):
        raise UsageError("Nobody can be asked here.", hint="Add --yes to do it, or --dry-run to look.")
    verb = "Change" if options.sync else "Add"
    return choose(console, f"{verb} {count(len(names))} in {target}?", names)


def tell_of_company(done: Sequence[ImportCandidate], console: Console) -> None:
    """What was written besides what was chosen: a new toolcrib.toml is read in the place of another program's file."""
    along = [candidate for candidate in done if candidate.state == "same"]
    if along:
        names = listed([candidate.name for candidate in along])
        console.say(f"toolcrib reads this file now instead of {along[0].origins[0].path}, so {names} came along.")


def _tell(
    found: ImportPlan,
    actions: list[ImportCandidate],
    done: list[ImportCandidate],
    target: Path,
    options: Options,
    console: Console,
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


def add_first_run(parser: Parser) -> None:
    """The options of a command that offers an import."""
    offer = parser.add_mutually_exclusive_group()
    offer.add_argument(
        "--import", dest="take_over", action="store_true", help="if nothing is configured: import what is found"
    )
    offer.add_argument("--no-import", action="store_true", help="do not look for servers of other programs")


def offer_import(options: Options, console: Console) -> None:
    """Ask, or say how; costs a look for two files when there is a configuration."""
    around = Environment()
    if options.no_import or _has_configuration(options, around) or not is_bare(load(options.config, around).config):
        return
    target = import_target(around)
    found = find_imports(around, ImportRequest(target))
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


def _has_configuration(options: Options, around: Environment) -> Path | str | None:
    user = user_config_path(around.env)
    return options.config or chosen_config(around.env) or find_project(around.cwd) or (user if user.is_file() else None)
