"""toolcrib itself, as the fleet's clients meet it: a command to start, or a URL that answers."""

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.fleet.forked import toolcrib_stand_in
from tests.fleet.running import Running, homely, running

TOOLCRIB = (sys.executable, "-m", "toolcrib")
SERVING = re.compile(r"serving MCP at (\S+)")


def stdio_command(config: Path) -> tuple[str, ...]:
    """What an MCP client starts to have a gateway to ``config`` of its own; with everything imported already."""
    return (*toolcrib_stand_in(), "stdio", "--alone", "--config", str(config))


def joining_command(config: Path) -> tuple[str, ...]:
    """What an MCP client starts to join the gateway that serves ``config``."""
    return (*toolcrib_stand_in(), "stdio", "--config", str(config))


@contextlib.contextmanager
def serving(config: Path, *options: str) -> Iterator[tuple[str, Running]]:
    """Serve ``config`` on a free port; gives the MCP endpoint's URL and the process behind it."""
    argv = [*TOOLCRIB, "serve", "--config", str(config), "--port", "0", *options]
    with running(argv, ready=announces_url, env=homely(config.parent), cwd=config.parent) as program:
        yield SERVING.findall(program.output())[0], program


def announces_url(program: Running) -> bool:
    """Whether the gateway has said where it listens."""
    return SERVING.search(program.output()) is not None
