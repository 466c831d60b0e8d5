"""``toolcrib stdio``: MCP on stdin and stdout; logs go to stderr only."""

import asyncio
import sys

from toolcrib.cli.console import Console
from toolcrib.cli.invoke import Options, command
from toolcrib.cli.logs import Log
from toolcrib.cli.opening import load_here
from toolcrib.cli.running import run_until_stopped, stdio_as_pipes
from toolcrib.cli.serving import NAMES_AND_FILES, WHAT_IS_SHOWN, flags_of, open_watched
from toolcrib.server.identity.authentication import local_caller
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.server.mcp.stdio import serve_stdio
from toolcrib.version import VERSION


@command(
    *NAMES_AND_FILES,
    *WHAT_IS_SHOWN,
    examples="""\
examples:
  toolcrib stdio
  toolcrib stdio --workspace .
  a client's configuration: {"mcpServers": {"toolcrib": {"command": "toolcrib", "args": ["stdio"]}}}""",
)
def run_stdio(options: Options, console: Console) -> int:
    """Serve until the client leaves or a signal says stop."""

    async def serve(stop: asyncio.Event) -> int:
        loaded = load_here(options, flags_of(options))
        log = Log(console, options.log_level or "warning", options.log_format or "text")
        caller = local_caller(loaded.config.access, is_agent=options.agent)
        async with open_watched(options, console, loaded, log) as project:
            window = project.windows.need(options.profile)
            await serve_stdio(McpService(window, ServerIdentity(version=VERSION)), stop, caller)
        return 0

    if sys.stdin.isatty():
        console.say("toolcrib: waiting for an MCP client on stdin; clients start this themselves. Ctrl-C stops.", "dim")
    with stdio_as_pipes():
        return run_until_stopped(serve)
