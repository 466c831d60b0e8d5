"""``toolcrib policy``: what may be called, what is asked about, what is refused."""

from pathlib import Path

from toolcrib.catalog.levels import policy_of
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import OK, UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import load_here, note_decision, open_here
from toolcrib.cli.running import run_once
from toolcrib.config.edit import set_policy
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import Policy
from toolcrib.core.names import name_of_uri
from toolcrib.core.offers import Resource, Tool
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import edit_file, policy_file
from toolcrib.server.views.tools import policy_entries
from toolcrib.stores.paths import Environment, user_config_path

COLUMNS = (
    Column("TOOL", styles=("bold",)),
    Column("LEVEL"),
    Column("POLICY", coloured={"ask": ("yellow",), "deny": ("red",), "held": ("red", "bold")}),
    Column("WHY", flexible=True),
)


@command(
    arg("name", nargs="?", metavar="NAME", help="a tool, prompt, URI or server, or a pattern such as '*__delete_*'"),
    arg("policy", nargs="?", metavar="|".join(Policy), help="what to do about its calls"),
    arg("--user", action="store_true", help="write it into the user's own file, for all projects"),
    as_json("the policies"),
    examples="""\
examples:
  toolcrib policy                             what holds for each tool, and why
  toolcrib policy github__create_issue ask    ask a person before each call
  toolcrib policy '*__delete_*' deny          of several patterns the most careful counts
  toolcrib policy 'docs://wiki/private/*' deny   resources, by the URI that clients see
  toolcrib policy github ask                  all tools of a server that have no policy of their own""",
)
def run_policy(options: Options, console: Console) -> int:
    """Show the policies, or set one."""
    if options.policy is None:
        return run_once(_show(options, console))
    if options.policy not in tuple(Policy):
        raise UsageError(f"There is no policy {options.policy!r}.", hint=f"It is one of {', '.join(Policy)}.")
    loaded = load_here(options)
    around = Environment()
    path = user_config_path(around.env) if options.user else policy_file(loaded, around)
    name = _as_written(options.name, loaded, path)
    edit_file(path, lambda text: set_policy(text, name, options.policy, str(path)))
    _check_effect(options)
    note_decision(options, console, "policy", options.policy, tool=options.name)
    console.say(f"The policy of {options.name} is {options.policy}, written to {path}.")
    return OK


def _as_written(name: str, loaded: Loaded, path: Path) -> str:
    """A server that is written in another file is named here by the pattern of its tools."""
    if not name.strip():
        raise UsageError("Say for what: a tool, a server or a pattern.")
    server = loaded.config.servers.get(name)
    return name if server is None or server.origin == str(path) else f"{name}__*"


def _check_effect(options: Options) -> None:
    """Say so if something stronger says otherwise."""
    config = load_here(options).config
    name = name_of_uri(options.name) if "://" in options.name else options.name
    server, _, tool = name.partition("__")
    if server not in config.servers or not tool or any(sign in options.name for sign in "*?["):
        return
    found = policy_of(name, (Resource if "://" in tool else Tool)(tool), config.servers[server], config.security)
    if found.policy != options.policy:
        where = config.servers[server].origin
        raise ConfigError(f"{options.name} still is {found.policy}: {found.reason}.", hint=f"Change it in {where}.")


async def _show(options: Options, console: Console) -> int:
    async with open_here(options, console) as crib:
        wanted = None if options.name is None else name_of_uri(options.name)
        rows = [row for row in policy_entries(crib) if wanted in (None, row.name, row.server)]
    if options.json:
        console.print_json(rows)
    elif rows:
        shown = [(row.name, row.level, "held" if row.held else row.policy, row.why) for row in rows]
        print_table(console, COLUMNS, shown)
    else:
        console.say("No such tool is known; patterns are only for setting. See `toolcrib ls`.")
    return OK
