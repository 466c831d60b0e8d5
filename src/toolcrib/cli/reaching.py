"""How a client reaches a toolcrib that somebody keeps running; the only part of ``connect`` that needs all of it."""

import json
import os
import shlex
import time
from collections.abc import Iterator
from typing import Any

from toolcrib.cli.console import Console
from toolcrib.cli.invoke import Options
from toolcrib.cli.opening import is_bare, load_here
from toolcrib.cli.serving import client_entry
from toolcrib.config.foreign.connectors import Launch
from toolcrib.server.identity.authentication import asks_for_token
from toolcrib.server.serve import Serving

MCP_PATH = "/mcp"
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not bound


def http_launch(options: Options) -> Launch:
    """The client reaches a toolcrib that somebody keeps running."""
    config = load_here(options).config
    host = "127.0.0.1" if config.host in _WILDCARDS else f"[{config.host}]" if ":" in config.host else config.host
    url = options.http or f"http://{host}:{config.port}{MCP_PATH}"
    return Launch(url=url, with_token=options.with_token or asks_for_token(config, os.environ, time.time))


def connection_lines(serving: Serving, console: Console) -> Iterator[str]:
    """What ``up`` prints below its table."""
    yield ""
    yield f"Serving MCP at {console.paint(serving.url, 'bold', 'cyan')}  (Ctrl-C stops)"
    for name in serving.project.windows.names:
        yield f"  profile {name}: {serving.url}/{name}"
    yield f"Open the page: {console.paint(serving.sign_in, 'cyan')}  (this link works once)"
    yield ""
    yield "Connect a client:"
    for label, line in _ways(serving).items():
        yield f"  {console.paint(f'{label:<12}', 'dim')} {line}"
    if serving.token is not None:
        yield from _token_lines(serving)
    if is_bare(serving.loaded):
        yield ""
        yield "Add a first server:  toolcrib servers add time -- uvx mcp-server-time"


def _ways(serving: Serving) -> dict[str, str]:
    return {
        "Claude Code": _claude(serving),
        "VS Code": f"code --add-mcp {shlex.quote(json.dumps(_vs_code(serving)))}",
        "others": json.dumps(client_entry(serving)),
        "in one step": "toolcrib connect claude-code  (or cursor, vscode, codex, gemini …)",
        "over stdio": json.dumps({"mcpServers": {"toolcrib": {"command": "toolcrib", "args": _stdio_args(serving)}}}),
    }


def _claude(serving: Serving) -> str:
    header = ' --header "Authorization: Bearer $TOOLCRIB_TOKEN"' if serving.token else ""
    return f"claude mcp add --transport http toolcrib {serving.url}{header}"


def _vs_code(serving: Serving) -> dict[str, Any]:
    headers = {"headers": {"Authorization": "Bearer ${env:TOOLCRIB_TOKEN}"}} if serving.token else {}
    return {"name": "toolcrib", "type": "http", "url": serving.url} | headers


def _stdio_args(serving: Serving) -> list[str]:
    project = serving.loaded.project
    return ["stdio", "--config", str(project)] if project else ["stdio"]


def _token_lines(serving: Serving) -> Iterator[str]:
    """Where the token is; never the token itself."""
    origin = serving.token.origin if serving.token else ""
    yield ""
    if origin.startswith("/"):
        yield f"Clients need the token:  export TOOLCRIB_TOKEN=$(cat {shlex.quote(origin)})"
    else:
        yield f"Clients need the token that was given by {origin}."
