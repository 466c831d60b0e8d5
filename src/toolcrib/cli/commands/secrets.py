"""``toolcrib secrets``: values that configuration refers to as ``${NAME}``, kept where nobody else reads them."""

import sys
import termios

from toolcrib.cli.commands.files import listed
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command, read_stdin
from toolcrib.cli.opening import note_decision
from toolcrib.config.environment import chosen_config
from toolcrib.project.secrets import secret_views, who_refers
from toolcrib.stores.paths import Environment
from toolcrib.stores.secrets import SecretStore

LINE_MAX = 4_095
"""What a terminal hands over as one line; the rest of a longer one is lost."""
COLUMNS = (Column("NAME", styles=("bold",)), Column("KEPT IN"), Column("NEEDED BY", flexible=True))


@command(
    arg("name", metavar="NAME", help="what configuration refers to as ${NAME}"),
    arg("--from-stdin", action="store_true", help="read the value from stdin, without the last line break"),
    examples="""\
examples:
  toolcrib secrets set GITHUB_TOKEN            asks for the value, which is not shown
  gh auth token | toolcrib secrets set GITHUB_TOKEN --from-stdin

A variable of that name in the environment counts before what is kept here. Only a server whose own entry refers to
${NAME} is given the value.""",
)
def run_set(options: Options, console: Console) -> None:
    """Keep a value; a running toolcrib starts the servers that refer to it anew."""
    around, name = Environment(), options.name
    store = SecretStore(around.env)
    is_new = name not in store.places()
    store.put({name: _value(options, console)})
    note_decision(options, console, "secret", "set", name=name)
    console.say(f"{name} is {'kept' if is_new else 'changed'}, in {store.places()[name]}. Refer to it as ${{{name}}}.")
    if around.env.get(name):
        console.say(f"The environment has {name}, too, which counts before it.", "yellow")
    if needed := who_refers(around, options.config or chosen_config(around.env)).get(name):
        console.say(f"It is needed by {listed(needed)}.")


def _value(options: Options, console: Console) -> str:
    """Never an argument: those stand in the list of processes, and in the shell's history."""
    if options.from_stdin or not sys.stdin.isatty():
        return read_stdin().removesuffix("\n").removesuffix("\r")
    value = _read_hidden(console, f"The value of {options.name} (not shown): ")
    if len(value) >= LINE_MAX:
        raise UsageError("A terminal cuts a line of this length.", hint="Pipe it in, with --from-stdin.")
    return value


def _read_hidden(console: Console, prompt: str) -> str:
    descriptor = sys.stdin.fileno()
    shown = termios.tcgetattr(descriptor)
    hidden = [*shown[:3], shown[3] & ~termios.ECHO, *shown[4:]]
    try:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, hidden)
        console.err.write(prompt)
        console.err.flush()
        return sys.stdin.readline().strip("\r\n")
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, shown)
        console.err.write("\n")


@command(as_json("the secrets, without their values"))
def run_ls(options: Options, console: Console) -> None:
    """List them; no value is read."""
    around = Environment()
    views = secret_views(around, options.config or chosen_config(around.env))
    if options.json:
        console.print_json(views)
    elif views:
        print_table(console, COLUMNS, [(one.name, one.place, ", ".join(one.needed_by) or "nobody") for one in views])
    else:
        console.say("No secret is kept. Keep one: toolcrib secrets set NAME")


@command(
    arg("name", metavar="NAME", help="the secret, as `toolcrib secrets ls` shows it"),
    examples="""\
examples:
  toolcrib secrets rm GITHUB_TOKEN""",
)
def run_rm(options: Options, console: Console) -> None:
    """Forget it, and say who will miss it."""
    around = Environment()
    place = SecretStore(around.env).remove(options.name)
    note_decision(options, console, "secret", "removed", name=options.name)
    console.say(f"{options.name} is removed from {place}.")
    if needed := who_refers(around, options.config or chosen_config(around.env)).get(options.name):
        console.say(f"Still needed by {listed(needed)}.", "yellow")
