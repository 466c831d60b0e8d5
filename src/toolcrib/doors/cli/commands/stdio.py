"""``toolcrib stdio``: MCP on stdin and stdout; logs go to stderr only."""

import asyncio
import sys

from toolcrib.doors.cli.callers import local_caller
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.entrance import add_access
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.logs import Log
from toolcrib.doors.cli.opening import load_here
from toolcrib.doors.cli.pipes import stdio_as_pipes
from toolcrib.doors.cli.running import run_until_stopped
from toolcrib.doors.cli.serving import add_no_prefix, add_window, flags_of, open_watched
from toolcrib.doors.cli.workspace import add_workspace
from toolcrib.doors.mcp.service import McpService, ServerIdentity
from toolcrib.doors.mcp.stdio import serve_stdio
from toolcrib.version import VERSION

EXAMPLES = """\
examples:
  toolcrib stdio
  toolcrib stdio --workspace .
  a client's configuration: {"mcpServers": {"toolcrib": {"command": "toolcrib", "args": ["stdio"]}}}"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_no_prefix(parser)
    add_workspace(parser)
    add_access(parser)
    add_window(parser)
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Serve until the client leaves or a signal says stop."""

    async def serve(stop: asyncio.Event) -> int:
        loaded = load_here(options, flags_of(options))
        log = Log(console, options.log_level or "warning", options.log_format or "text")
        caller = local_caller(loaded.config.access, is_agent=options.agent)
        async with open_watched(options, console, loaded, log) as project:
            window = project.windows.need(options.profile)
            await serve_stdio(McpService(project.crib, ServerIdentity(version=VERSION), window), stop, caller)
        return 0

    if sys.stdin.isatty():
        console.say("toolcrib: waiting for an MCP client on stdin; clients start this themselves. Ctrl-C stops.", "dim")
    with stdio_as_pipes():
        return run_until_stopped(serve)
