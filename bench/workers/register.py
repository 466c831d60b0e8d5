"""``register.py COUNT``: times the registration of fresh functions as native tools, in toolcrib's own environment.

Prints one JSON object: nanoseconds of each ``@tool``, of each registration of a marked function in a source, and of
opening a crib with as many marked functions.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

from toolcrib import open_crib, tool
from toolcrib.sources.native.source import NativeSource


def fresh(number: int) -> Callable[..., list[str]]:
    """A function nobody has seen yet, with a signature like those people write."""

    def search(
        query: str, limit: int = 20, tags: list[str] | None = None, sort: Literal["score", "date"] = "score"
    ) -> list[str]:
        """Search the documents.

        Args:
            query: What to look for.
            limit: How many hits to return.
            tags: Only documents with one of these tags.
            sort: The order of the hits.
        """
        return [query, str(limit), sort, *(tags or ())]

    search.__name__ = f"search_{number}"
    return search


def register(count: int) -> dict[str, Any]:
    source = NativeSource()
    mark_ns: list[int] = []
    register_ns: list[int] = []
    for number in range(count):
        function = fresh(number)
        began = time.perf_counter_ns()
        marked = tool(function)
        between = time.perf_counter_ns()
        source.register(marked)
        register_ns.append(time.perf_counter_ns() - between)
        mark_ns.append(between - began)
    return {"mark_ns": mark_ns, "register_ns": register_ns, "tools": len(source.listing.tools)}


async def open_with(functions: list[Callable[..., list[str]]]) -> int:
    """Nanoseconds to a crib that offers these functions, their schemas compiled and their layers built."""
    began = time.perf_counter_ns()
    async with open_crib({"mcpServers": {}}, tools=functions) as crib:
        tools = await crib.tools()
        assert len(tools) == len(functions), f"{len(tools)} tools instead of {len(functions)}"
        return time.perf_counter_ns() - began


def main() -> None:
    count = int(sys.argv[1])
    measured = register(count)
    opened_ns = asyncio.run(open_with([tool(fresh(number)) for number in range(count)]))
    print(json.dumps({**measured, "open_ns": opened_ns}))


main()
