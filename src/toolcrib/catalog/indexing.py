"""The catalogue's tools in the index that finds them by what they are for. Loads numpy: import it late."""

from collections.abc import Iterable

from toolcrib.catalog.catalog import Route
from toolcrib.search.model import bundled
from toolcrib.search.toolindex import ToolIndex, ToolText


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
