"""``tool_search.py CONTENDER DATA QUERIES``: how well one contender finds tools; prints one JSON object.

Run in the contender's own environment; at most QUERIES of each set are asked, evenly chosen.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from _quality import Row, groups_met, groups_ndcg, rows_of, sets_in

Find = Callable[[str], list[str]]
Index = Callable[[], Find]  # what is timed; the contender's own tool objects are there before
SIZES = (5_000, 17_000)
MOST_ASKED_S = 20.0  # of one size, for contenders that look at every tool again for each query
CHOICES = [(vector, long) for vector in (0.2, 0.28, 0.36) for long in (8, 15, 30)]  # see Fusion


def toolcrib(tools: Sequence[Row], choice: tuple[float, int] | None = None) -> Index:
    from toolcrib.search.hybrid import Fusion
    from toolcrib.search.model import bundled
    from toolcrib.search.toolindex import ToolIndex, ToolText

    servers: dict[str, list[ToolText]] = {}
    for row in tools:
        server = row.get("server") or ""
        text = ToolText(row["id"], row["name"], row.get("description") or "", row.get("inputSchema") or {}, server)
        servers.setdefault(server, []).append(text)
    embedder, fusion = bundled(), None if choice is None else Fusion(vector=choice[0], long=choice[1])

    def index() -> Find:
        made = ToolIndex(embedder, fusion)
        made.put_all(servers)
        return lambda query: [id_ for id_, _ in made.find(query, 10)]

    return index


def fastmcp(tools: Sequence[Row]) -> Index:
    from fastmcp.server.transforms.search.bm25 import BM25SearchTransform
    from fastmcp.tools.base import Tool

    listed = [
        Tool(name=row["id"], description=row.get("description") or "", parameters=row.get("inputSchema") or {})
        for row in tools
    ]
    loop = asyncio.new_event_loop()

    def index() -> Find:
        transform = BM25SearchTransform(max_results=10)
        return lambda query: [tool.name for tool in loop.run_until_complete(transform._search(listed, query))]

    return index


def pydantic_ai(tools: Sequence[Row]) -> Index:
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets._tool_search import keywords_search_fn

    listed = [
        ToolDefinition(
            name=row["id"],
            description=row.get("description") or "",
            parameters_json_schema=row.get("inputSchema") or {},
        )
        for row in tools
    ]
    return lambda: lambda query: list(keywords_search_fn(None, [query], listed))[:10]  # type: ignore[arg-type]


CONTENDERS: dict[str, Callable[[Sequence[Row]], Index]] = {
    "toolcrib": toolcrib,
    "fastmcp": fastmcp,
    "pydantic-ai": pydantic_ai,
}


def judge(find: Find, queries: Sequence[Row]) -> dict[str, float]:
    scored, cpu_ms = [], []
    for query in queries:
        began = time.process_time()
        ranked = find(query["text"])
        cpu_ms.append((time.process_time() - began) * 1000)
        groups = query["gold_groups"]
        scored.append((*(groups_met(ranked, groups, k) for k in (1, 5, 10)), groups_ndcg(ranked, groups)))
    r1, r5, r10, gain = (fmean(column) for column in zip(*scored, strict=True))
    return {"r1": r1, "r5": r5, "r10": r10, "ndcg": gain, "cpu_ms": median(cpu_ms)}


def left_out(sets: dict[str, tuple[list[Row], list[Row]]]) -> dict[str, float]:
    """Each set's recall@5 with the weights that are best on the other sets."""
    grid = {
        name: [judge(toolcrib(tools, choice)(), queries)["r5"] for choice in CHOICES]
        for name, (tools, queries) in sets.items()
    }
    found = {}
    for name, own in grid.items():
        others = [values for other, values in grid.items() if other != name] or [own]
        sums = [sum(column) for column in zip(*others, strict=True)]
        found[name] = own[sums.index(max(sums))]
    return found


def at_size(contender: str, tools: Sequence[Row], queries: Sequence[str], size: int) -> dict[str, float]:
    """Build time, query time and memory with so many tools: the sets' own, repeated under new names."""
    rows = [
        {**tools[at % len(tools)], "id": f"{at}", "name": f"{tools[at % len(tools)]['name']}_{at // len(tools)}"}
        for at in range(size)
    ]
    CONTENDERS[contender](rows[:10])()("warm")
    index = CONTENDERS[contender](rows)
    before, began = resident(), time.process_time()
    find = index()
    find("warm")
    built_s, cpu_ms, started = time.process_time() - began, [], time.monotonic()
    for query in queries:
        began = time.process_time()
        find(query)
        cpu_ms.append((time.process_time() - began) * 1000)
        if time.monotonic() - started > MOST_ASKED_S:
            break
    return {"build_s": built_s, "cpu_ms": median(cpu_ms), "mb": (resident() - before) / 1e6}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> None:
    contender, data, most = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    sets = {}
    for name, folder in sets_in(data, "tools.jsonl").items():
        queries = rows_of(folder / "queries.jsonl")
        sets[name] = (rows_of(folder / "tools.jsonl"), queries[:: max(1, len(queries) // most)])
    found: dict[str, Any] = {
        "sets": {name: judge(CONTENDERS[contender](tools)(), queries) for name, (tools, queries) in sets.items()}
    }
    few = {name: (tools, queries[:: max(1, len(queries) // 200)]) for name, (tools, queries) in sets.items()}
    if contender == "toolcrib":
        found["left_out"] = left_out(few)
    everything = [row for tools, _ in sets.values() for row in tools]
    asked = [query["text"] for _, queries in few.values() for query in queries[::4]]
    mixed = random.Random(1).sample(asked, len(asked))
    found["sizes"] = {str(size): at_size(contender, everything, mixed, size) for size in SIZES}
    print(json.dumps(found))


main()
