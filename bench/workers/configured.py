"""``configured.py HOME SERVERS TOOLS``: makes up a project whose servers were all asked once, in toolcrib's own words.

Prints one JSON object: the project's id, how many tools its lock holds, and every page that needs no parameter.
"""

import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolcrib.catalog.pins import accept, comparison
from toolcrib.config.lock import Lock, Record, write_lock
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.events import drop
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.crib.builder import assemble, load
from toolcrib.project.project import Project
from toolcrib.server.identity.sign_in import SignIns, Tokens
from toolcrib.server.router import Entering
from toolcrib.server.visit import ServedProject
from toolcrib.server.web.site import WebPages
from toolcrib.stores.paths import Environment

AT = "2026-01-02T03:04:05Z"
COMMAND = 'command = "sleep"\nargs = ["600"]\nenv = { API_TOKEN = "${API_TOKEN:-none}" }'


def tool(server: int, number: int) -> dict[str, Any]:
    text = {"type": "string", "description": "What to look for, in plain words."}
    properties = {"query": text, "limit": {"type": "integer", "default": 20}, "tags": {"type": "array", "items": text}}
    return {
        "name": f"find_document_{number}",
        "description": f"Search collection {number} of server {server} and return the best matches with their scores.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["query"]},
    }


def record(server: ServerConfig, tools: list[dict[str, Any]]) -> Record:
    found = Record(
        server.name, DiscoveryStatus.SUCCESS, tuple(tools), AT, config_hash=config_hash(server), era="2025-06-18"
    )
    return accept(found, [shown["name"] for shown in tools], comparison(server, "first", AT))


def write_project(directory: Path, around: Environment, servers: int, tools: int) -> int:
    directory.mkdir(parents=True)
    tables = [f"[servers.s{number:02}]\n{COMMAND}" for number in range(servers)]
    (directory / "toolcrib.toml").write_text("\n\n".join(tables) + "\n")
    known = enumerate(load(None, around).config.servers.values())
    records = [record(server, [tool(at, number) for number in range(tools)]) for at, server in known]
    (directory / "toolcrib.lock").write_text(write_lock(Lock({found.server: found for found in records})))
    return sum(len(found.tools) for found in records)


async def pages(around: Environment) -> list[str]:
    """The addresses the page answers, from its own list of routes."""
    loaded = load(None, around)
    quiet = replace(loaded, config=replace(loaded.config, audit=replace(loaded.config.audit, enabled=False)))
    crib = await assemble(quiet, surroundings=around)
    owner = Caller("owner", "local", EVERYTHING)
    sign_ins = SignIns(owner, lambda: "", Tokens(lambda _: None, lambda _: True), time.time)
    premises = ServedProject(Project(crib, quiet, None, around), sign_ins, "http://127.0.0.1/mcp", 0.0)
    router = WebPages(premises, Entering(sign_ins, lambda _: None), drop)
    found = [route.path for route in router.routes if route.method == "GET" and "{" not in route.path]
    await router.close()
    await crib.close()
    return found


def main() -> None:
    home, servers, tools = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    around = Environment(home / "project", {"HOME": str(home), "XDG_STATE_HOME": str(home)})
    count = write_project(around.cwd, around, servers, tools)
    project = Project(None, load(None, around), None, around)  # type: ignore[arg-type]
    print(json.dumps({"id": project.id, "tools": count, "pages": asyncio.run(pages(around))}))


main()
