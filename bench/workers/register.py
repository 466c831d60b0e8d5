"""``register.py COUNT``: times the registration of fresh functions as native tools, in toolcrib's own environment.

Prints one JSON object: nanoseconds of each ``@tool`` and of each registration of a marked function in a source.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Literal

from toolcrib import tool
from toolcrib.sources.native import NativeSource


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


def main() -> None:
    source = NativeSource()
    mark_ns: list[int] = []
    register_ns: list[int] = []
    for number in range(int(sys.argv[1])):
        function = fresh(number)
        began = time.perf_counter_ns()
        marked = tool(function)
        between = time.perf_counter_ns()
        source.register(marked)
        register_ns.append(time.perf_counter_ns() - between)
        mark_ns.append(between - began)
    print(json.dumps({"mark_ns": mark_ns, "register_ns": register_ns, "tools": len(source.listing.tools)}))


main()
