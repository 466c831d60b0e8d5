"""How a client reaches a toolcrib that somebody keeps running; the only part of ``connect`` that needs all of it."""

import os
import time

from toolcrib.config.foreign.connectors import Launch
from toolcrib.doors.cli.entrance import asks_for_token
from toolcrib.doors.cli.invoke import Options
from toolcrib.doors.cli.opening import load_here

MCP_PATH = "/mcp"
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not bound


def http_launch(options: Options) -> Launch:
    """The client reaches a toolcrib that somebody keeps running."""
    config = load_here(options).config
    host = "127.0.0.1" if config.host in _WILDCARDS else f"[{config.host}]" if ":" in config.host else config.host
    url = options.http or f"http://{host}:{config.port}{MCP_PATH}"
    return Launch(url=url, with_token=options.with_token or asks_for_token(config, os.environ, time.time))
