"""toolcrib itself, as the fleet's clients meet it: a command to start, or a URL that answers."""

import contextlib
import http.client
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.fleet.running import Running, free_port, homely, running

TOOLCRIB = (sys.executable, "-m", "toolcrib")


def stdio_command(config: Path) -> tuple[str, ...]:
    """What an MCP client starts to reach the servers of ``config``."""
    return (*TOOLCRIB, "stdio", "--config", str(config))


@contextlib.contextmanager
def serving(config: Path, *options: str) -> Iterator[tuple[str, Running]]:
    """Serve ``config`` on a free port; gives the MCP endpoint's URL and the process behind it."""
    port = free_port()
    argv = [*TOOLCRIB, "serve", "--config", str(config), "--port", str(port), *options]
    with running(argv, ready=lambda: is_healthy(port), env=homely(config.parent), cwd=config.parent) as program:
        yield f"http://127.0.0.1:{port}/mcp", program


def is_healthy(port: int) -> bool:
    """Whether ``/healthz`` answers with success."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
