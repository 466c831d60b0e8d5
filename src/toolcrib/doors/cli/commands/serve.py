"""``toolcrib serve``: MCP over HTTP, nothing else."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.logs import serving_log
from toolcrib.doors.cli.running import Stop, run_until_stopped
from toolcrib.doors.cli.serving import add_no_prefix, add_replica, add_serving, open_serving
from toolcrib.doors.cli.workspace import add_workspace

EXAMPLES = """\
examples:
  toolcrib serve
  toolcrib serve --config .mcp.json --port 0
  TOOLCRIB_TOKEN=$(openssl rand -hex 32) toolcrib serve --host 0.0.0.0"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_serving(parser)
    add_replica(parser)
    add_no_prefix(parser)
    add_workspace(parser)
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Serve until a signal says stop."""

    async def serve(stop: Stop) -> int:
        async with open_serving(options, console, serving_log(options, console)) as serving:
            console.say(f"toolcrib: serving MCP at {serving.url}")
            if serving.token is not None:
                console.say(f"toolcrib: clients need the bearer token of {serving.token.origin}")
            await stop.wait()
            await serving.drain(stop.sign)
        return 0

    return run_until_stopped(serve)
