"""MCP on stdin and stdout from this process, with servers of its own; logs go to stderr only."""

import asyncio

from toolcrib.cli.console import Console
from toolcrib.cli.invoke import Options
from toolcrib.cli.logs import Log
from toolcrib.cli.opening import load_here
from toolcrib.cli.running import run_until_stopped, stdio_as_pipes
from toolcrib.cli.serving import flags_of, open_watched
from toolcrib.server.identity.authentication import local_caller
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.server.mcp.stdio import serve_stdio, take_over_stdio
from toolcrib.version import VERSION


def serve_alone(options: Options, console: Console) -> int:
    """Serve until the client leaves or a signal says stop."""

    async def serve(stop: asyncio.Event) -> int:
        streams = take_over_stdio()  # first: what native modules print when they are imported goes to stderr, too
        loaded = load_here(options, flags_of(options))
        log = Log(console, options.log_level or "warning", options.log_format or "text")
        caller = local_caller(loaded.config.access, is_agent=options.agent)
        async with open_watched(options, console, loaded, log) as project:
            window = project.windows.need(options.profile)
            await serve_stdio(McpService(window, ServerIdentity(version=VERSION)), stop, caller, streams)
        return 0

    with stdio_as_pipes():
        return run_until_stopped(serve)
