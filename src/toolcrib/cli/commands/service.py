"""``toolcrib service``: have the toolcrib of this project run whenever its user is there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from toolcrib.cli.commands import up
from toolcrib.cli.commands.files import ask_line
from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, NOT_FOUND, OK, NotFound, UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command, command_of, parse
from toolcrib.cli.opening import load_here
from toolcrib.cli.service_files import Kind, Service, ServiceManager, manager_of
from toolcrib.config.references import variables_of
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import project_file
from toolcrib.stores.files import make_directory, read_text, replace_text
from toolcrib.stores.paths import Environment, state_directory, user_config_path

HERE: Kind = "launchd" if sys.platform == "darwin" else "systemd"
KEPT = ("PATH", "TOOLCRIB_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""What a service needs of the environment it is installed from: its servers are found by PATH."""
PATIENCE_S = 120
NAME = arg("--name", metavar="NAME", default="", help="what the service is called [toolcrib-DIRECTORY]")
KIND = arg("--kind", choices=("systemd", "launchd"), default=HERE, help=f"for which service manager [{HERE}]")


@command(
    NAME,
    KIND,
    arg("--print", action="store_true", help="print the file, and do nothing"),
    arg("--yes", action="store_true", help="do not ask"),
    arg("--no-start", action="store_true", help="write the file, and say what starts it"),
    takes_rest=True,
    usage="toolcrib service install [options] [-- options of toolcrib serve]",
    examples="""\
examples:
  toolcrib service install
  toolcrib service install -- --port 7400
  toolcrib service install --print > toolcrib.service""",
)
def run_install(options: Options, console: Console) -> int:
    """Show the file, ask, write it, and have it started."""
    loaded = load_here(options)
    manager = _manager(options, loaded)
    if options.print:
        console.out.write(manager.text)
        return OK
    before = read_text(manager.place)
    console.say(f"{manager.place}{'' if before is None else ' is replaced'}:", "bold")
    console.say(manager.text)
    if not _is_wanted(options, console, "Write it, and start the service?"):
        console.say("Nothing was changed.")
        return FAILURE
    make_directory(manager.place.parent)
    replace_text(manager.place, manager.text, mode=0o600)
    console.say(f"{manager.place} is written.")
    _say_variables(loaded, options, console)
    return _tell(manager, manager.start, options, console) or _say_hint(manager, console)


def _say_hint(manager: ServiceManager, console: Console) -> int:
    console.say(manager.hint, "dim")
    return OK


@command(
    NAME,
    KIND,
    arg("--yes", action="store_true", help="do not ask"),
    arg("--no-start", action="store_true", help="remove the file, and say what ends it"),
)
def run_uninstall(options: Options, console: Console) -> int:
    """End the service, and remove its file."""
    manager = _manager(options, load_here(options))
    _need(manager)
    if not _is_wanted(options, console, f"End the service, and remove {manager.place}?"):
        console.say("Nothing was changed.")
        return FAILURE
    first, *rest = manager.stop
    code = _tell(manager, (first,), options, console)
    if code == OK:
        manager.place.unlink(missing_ok=True)
        console.say(f"{manager.place} is removed.")
        code = _tell(manager, rest, options, console)
    return code


@command(NAME, KIND, as_json("how it stands"))
def run_status(options: Options, console: Console) -> int:
    """Say whether there is a service for this project, and whether it runs."""
    manager = _manager(options, load_here(options))
    is_installed = manager.place.is_file()
    runs = is_installed and shutil.which(manager.program) is not None and _run(manager.look).returncode == 0
    if options.json:
        console.print_json({"file": manager.place, "isInstalled": is_installed, "runs": runs})
    elif is_installed:
        console.print(f"{manager.place}: {'it runs' if runs else f'it does not run ({shlex.join(manager.look)})'}")
        console.say("What it serves, and to whom: toolcrib status", "dim")
    else:
        console.print(f"There is no {manager.place}. To have one: toolcrib service install")
    return OK if is_installed else NOT_FOUND


def _manager(options: Options, loaded: Loaded) -> ServiceManager:
    around = Environment()
    file = project_file(options.config, around).absolute()
    directory = file.parent if file.is_file() else Path.home()
    name = options.name or f"toolcrib-{re.sub(r'[^a-z0-9]+', '-', directory.name.lower()).strip('-') or 'home'}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}", name):
        raise UsageError(f"{name!r} cannot be the name of a service.", hint="Use letters, digits, `-`, `_` and `.`.")
    chosen = ["--config", str(file)] if loaded.is_chosen else []
    service = Service(
        name,
        directory,
        [sys.executable, "-P", "-m", "toolcrib", "serve", *chosen, *_serve_words(options)],
        {key: around.env[key] for key in KEPT if around.env.get(key)},
        _secrets(around),
        state_directory(around.env) / "logs" / f"{name}.service.log",
    )
    return manager_of(options.kind, service, around.env, os.getuid())


def _serve_words(options: Options) -> Sequence[str]:
    """The options for ``serve``, after a look at whether it takes them; a secret must not be in the file."""
    words: Sequence[str] = getattr(options, "rest", ())
    given = parse(command_of("serve", up).parser("serve", ""), words, takes_rest=False)
    if given.token:
        hint = f"Put TOOLCRIB_TOKEN=… into {_secrets(Environment())}."
        raise UsageError("A token would stand in the service's file for others to read.", hint=hint)
    return words


def _secrets(around: Environment) -> Path:
    return user_config_path(around.env).with_name("service.env")


def _is_wanted(options: Options, console: Console, question: str) -> bool:
    if options.yes:
        return True
    if not (sys.stdin.isatty() and console.err.isatty()):
        raise UsageError("Somebody has to agree.", hint="Look at it with --print, then say --yes.")
    return ask_line(console, f"{question} [y/N]") in ("y", "yes")


def _say_variables(loaded: Loaded, options: Options, console: Console) -> None:
    """Say which variables the service will not have by itself."""
    names = ", ".join(sorted(variables_of(loaded.config) - set(KEPT)))
    if not names:
        return
    how = f"in {_secrets(Environment())} (mode 0600)" if options.kind == "systemd" else "with `launchctl setenv`"
    console.say(f"The configuration refers to {names}: give the service what it needs of these {how}.", "yellow")


def _need(manager: ServiceManager) -> None:
    if not manager.place.is_file():
        raise NotFound(f"There is no {manager.place}.", hint="Was it installed under another --name?")


def _tell(manager: ServiceManager, commands: Sequence[Sequence[str]], options: Options, console: Console) -> int:
    """Run these commands of the service manager, or say them."""
    if options.no_start or shutil.which(manager.program) is None:
        for words in commands:
            console.say(f"To be run: {shlex.join(words)}")
        return OK
    for words in commands:
        done = _run(words)
        if done.returncode:
            console.say(f"`{shlex.join(words)}` failed: {done.stderr.strip() or f'exit code {done.returncode}'}", "red")
            return FAILURE
        console.say(f"Done: {shlex.join(words)}", "dim")
    return OK


def _run(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)  # noqa: S603
