"""``toolcrib stdio``: MCP on stdin and stdout, of the toolcrib that runs for this project; or of one of its own."""

import os
import sys
from pathlib import Path

from toolcrib.cli.console import Console
from toolcrib.cli.flags import NAMES_AND_FILES, WHAT_IS_SHOWN
from toolcrib.cli.invoke import Options, arg, command
from toolcrib.cli.joining import CannotJoin, Meeting, Pipe, carry, wanted_here
from toolcrib.core.errors import ToolcribError


@command(
    arg("--alone", action="store_true", help="serve this client from a process of its own, shared with nobody"),
    *NAMES_AND_FILES,
    *WHAT_IS_SHOWN,
    examples="""\
examples:
  toolcrib stdio
  toolcrib stdio --alone --workspace .
  a client's configuration: {"mcpServers": {"toolcrib": {"command": "toolcrib", "args": ["stdio"]}}}""",
)
def run_stdio(options: Options, console: Console) -> int:
    """Serve until the client leaves or a signal says stop."""
    if sys.stdin.isatty():
        console.say("toolcrib: waiting for an MCP client on stdin; clients start this themselves. Ctrl-C stops.", "dim")
    if not options.alone:
        reason = _join(options)
        console.say(f"toolcrib: this client gets a process of its own, because {reason}.")
    from toolcrib.cli.alone import serve_alone

    return serve_alone(options, console)


def _join(options: Options) -> str:  # noqa: RET503 - a pipe leaves the process
    """Be a pipe to the toolcrib of this project until the client leaves; returns why that cannot be."""
    for name, option in (("no_prefix", "--no-prefix"), ("workspace", "--workspace")):
        if getattr(options, name):
            return f"{option} changes what is served"
    hello = {
        "profile": options.profile,
        "is_agent": options.agent,
        "level": options.level,
        "only": options.only,
        "expose": options.expose,
    }
    env = dict(os.environ)
    try:
        meeting = Meeting(wanted_here(options.config, env, Path.cwd(), hello), env)
        line = meeting.join()
    except (CannotJoin, ToolcribError) as error:
        return str(error).rstrip(".")
    carry(Pipe(meeting, line))
