"""The catalogue's tools in the index that finds them by what they are for. Loads numpy: import it late."""

from collections.abc import Iterable

from toolcrib.catalog.catalog import Route
from toolcrib.search.model import bundled
from toolcrib.search.toolindex import ToolIndex, ToolText

LEAST = 0.06  # of a score; below, tools have no more to do with a query than any others


def tool_text(route: Route) -> ToolText:
    """What can be searched of a tool; its own name says more than the exposed one, which repeats the server."""
    tool = route.tool
    return ToolText(route.name, tool.name, tool.description, tool.input_schema, route.server)


def index_of(routes: Iterable[Route]) -> ToolIndex:
    """An index over these tools, by words and by meaning."""
    servers: dict[str, list[ToolText]] = {}
    for route in routes:
        servers.setdefault(route.server, []).append(tool_text(route))
    index = ToolIndex(bundled())
    index.put_all(servers)
    return index


def find_names(index: ToolIndex, query: str, count: int) -> tuple[str, ...]:
    """The names of the best tools for a query, best first; none that have nothing to do with it."""
    return tuple(name for name, score in index.find(query, count) if score >= LEAST)
