"""``tokens.py DATA QUERIES``: what catalogues cost a model's context, shown whole or searched; prints one JSON object.

Each set of tools gives a catalogue of 500, evenly chosen; servers of ten tools and more are looked at one by one, too.
The real servers of the tests are started for it.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from _quality import Row, rows_of, sets_in
from tests.fleet import install, servers

from toolcrib import open_crib
from toolcrib.config.sections import ExposeConfig
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.names import to_server_name
from toolcrib.core.offers import Tool, to_mcp
from toolcrib.crib.window import ProfileSettings, ProfileView
from toolcrib.schema.signature import count_tokens
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.testing import FakeSource, RecordingChannel, memory_crib
from toolcrib.wire.jsonrpc import Inbound
from toolcrib.wire.messages import Asker

SIZE, ENOUGH = 500, 10
FLEET = "the tests' servers"
MOST_SERVERS = 60


def sources(rows: Iterable[Row]) -> list[FakeSource]:
    """The tools as the servers of a Crib."""
    servers: dict[str, dict[str, Tool]] = defaultdict(dict)
    for row in rows:
        tool = Tool(row["name"], row.get("description") or "", row.get("inputSchema") or {"type": "object"})
        servers[to_server_name(row.get("server") or "tools")][row["name"]] = tool
    return [FakeSource(name, list(tools.values())) for name, tools in servers.items()]


async def cost(rows: Sequence[Row], queries: Sequence[str]) -> dict[str, float]:
    """Tokens of the whole list, of what is shown in its place, and of five tools found, as JSON and as signatures."""
    async with memory_crib(*sources(rows)) as made:
        await made.crib.current()
        whole, front = (
            ProfileView(made.crib, ProfileSettings()),
            ProfileView(made.crib, ProfileSettings(ExposeConfig("search"))),
        )
        as_json, as_lines = [], []
        for query in queries:
            hits = await front.find(query, 5, caller=LOCAL_USER)
            if len(hits) == 5:
                found = await front.run(front.request("tools_find", {"query": query}))
                as_json.append(tokens(json.dumps([hit.route.to_mcp() for hit in hits], separators=(",", ":"))))
                as_lines.append(tokens(found.text))
        return {
            "tools": len(made.crib.catalog.routes),
            "all": await listed(whole),
            "front": await listed(front),
            "json": fmean(as_json or [0]),
            "lines": fmean(as_lines or [0]),
        }


async def fleet() -> list[Row]:
    """The tools of the servers that the tests run against, as those say them now."""
    install.ensure()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["git", "init", "-q", name], check=True)
        launched = {
            "everything": servers.everything(),
            "files": servers.filesystem(folder),
            "memory": servers.memory(folder / "memory.json"),
            "time": servers.time(),
            "git": servers.git(folder),
            "calculator": servers.calculator(),
        }
        config = {"mcpServers": {name: launch.entry() for name, launch in launched.items()}}
        async with open_crib(config) as crib:
            await crib.refresh()
            return [
                {**to_mcp(route.tool), "server": route.server} for route in crib.catalog.routes.values() if route.server
            ]


async def listed(window: ProfileView) -> float:
    """The tokens of a client's first listing, envelope left out."""
    request = Inbound("2.0", 1, "tools/list", {})
    mcp = McpService(window, ServerIdentity())
    body, _ = await mcp.respond(request, Asker("2025-06-18"), RecordingChannel())
    return tokens(json.dumps(json.loads(body)["result"]["tools"], separators=(",", ":")))


def tokens(text: str) -> float:
    return float(count_tokens(text))


async def main() -> None:
    data, most = Path(sys.argv[1]), int(sys.argv[2])
    rows = await fleet()
    found = {FLEET: await cost(rows, [row["description"] for row in rows]) | {"real": 1.0}}
    for name, folder in sets_in(data, "tools.jsonl").items():
        rows = rows_of(folder / "tools.jsonl")
        if len(rows) < SIZE:
            continue
        asked = [row["text"] for row in rows_of(folder / "queries.jsonl")]
        chosen = rows[:: len(rows) // SIZE][:SIZE]
        found[f"{SIZE} of {name}"] = await cost(chosen, asked[:: max(1, len(asked) // most)])
        servers = defaultdict(list)
        for row in rows:
            servers[row.get("server") or ""].append(row)
        own = [group for server, group in sorted(servers.items()) if server and len(group) >= ENOUGH][:MOST_SERVERS]
        found[f"{SIZE} of {name}"]["real"] = float(bool(own))
        each = [await cost(group, [row["description"] for row in group[::3]]) for group in own]
        if each:
            found[f"a server of {name}"] = {key: fmean(one[key] for one in each if one["lines"]) for key in each[0]}
            found[f"a server of {name}"]["real"] = 1.0
    print(json.dumps(found))


asyncio.run(main())
