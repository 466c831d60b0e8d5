"""A toolcrib that ``stdio`` started: it serves the clients that join it, and ends some time after the last of them."""

import argparse
import asyncio
import os

from toolcrib.cli.console import Console
from toolcrib.cli.invoke import Options, arg
from toolcrib.cli.logs import serving_log
from toolcrib.cli.opening import load_here
from toolcrib.cli.running import BACKGROUND_OPTION, Stop, run_until_stopped
from toolcrib.cli.serving import open_serving, wind_up
from toolcrib.server.identity.owner_token import kept_token, token_path
from toolcrib.server.serve import Serving

BACKGROUND = (
    arg(BACKGROUND_OPTION, type=int, metavar="FD", help=argparse.SUPPRESS),
    arg("--log-file", default="", help=argparse.SUPPRESS),
)
"""What ``stdio`` says to the toolcrib it starts; not for people."""
FIRST_CLIENT_S = 30.0
"""How long the client that started it may take to join; after a restart, they have at least as long."""
LOOK_S = 5.0
"""How often to look whether HTTP clients are still there."""


def run_background(options: Options, console: Console) -> int:
    """Serve until nobody has needed it for a while; says who it is once it serves."""
    ready = options.background
    if ready:
        os.set_inheritable(ready, False)
        if os.fork():  # the one that is waited for ends, so that this is no child of the client's process
            os._exit(0)
    _only_for_joined(options)

    async def serve(stop: Stop) -> int:
        async with open_serving(options, console, serving_log(options, console), stop) as serving:
            if ready:
                os.write(ready, str(os.getpid()).encode())
                os.close(ready)
            linger_s = 0.0 if ready else serving.loaded.config.linger_s
            await _until_idle(serving, stop, max(FIRST_CLIENT_S, linger_s))
            await wind_up(serving, stop)
        return 0

    return run_until_stopped(serve)


def _only_for_joined(options: Options) -> None:
    """Nobody asked for an address, so it is any free one of this machine, and whoever comes that way needs a token."""
    options.host, options.port = "127.0.0.1", options.port or 0
    if load_here(options).config.auth_mode != "none":
        options.token = options.token or os.environ.get("TOOLCRIB_TOKEN") or kept_token(token_path(os.environ)).value


async def _until_idle(serving: Serving, stop: Stop, patience_s: float) -> None:
    """Wait for a signal, or until nobody was there for the configured time."""
    joins, now = serving.joins, asyncio.get_running_loop().time
    left, quiet_since = asyncio.Event(), now()
    joins.on_empty = left.set
    while not stop.is_set():
        is_busy = bool(joins.doors or serving.server.connections)
        if is_busy or left.is_set():
            left.clear()
            patience_s, quiet_since = serving.loaded.config.linger_s, now()
        remaining_s = quiet_since + patience_s - now()
        if not is_busy and remaining_s <= 0:
            return
        await _first_of(stop, left, LOOK_S if is_busy else min(LOOK_S, remaining_s))


async def _first_of(stop: asyncio.Event, left: asyncio.Event, seconds: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in (stop, left)]
    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
