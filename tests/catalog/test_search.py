"""Finding tools in a catalogue that changes: by purpose, within what the caller may see, always in the same order."""

from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.search import ToolSearch
from toolcrib.core.offers import Tool
from toolcrib.search.toolindex import ToolIndex
from toolcrib.testing import FakeSource

TOOLS = {
    "files": [("move_file", "Move or rename a file."), ("read_file", "Read the contents of a file.")],
    "clock": [("convert_time", "Convert a time between time zones."), ("now", "Tell the current time.")],
}


def catalog(version: int, tools: dict[str, list[tuple[str, str]]]) -> Catalog:
    routes = [
        Route(f"{server}__{name}", server, Tool(name, about), FakeSource(server))
        for server, found in tools.items()
        for name, about in found
    ]
    return Catalog({route.name: route for route in routes}, version=version)


async def names(search: ToolSearch, known: Catalog, query: str, limit: int = 5, hidden: str = "-") -> list[str]:
    among = [route for route in known.routes.values() if hidden not in route.name]
    return [hit.route.name for hit in await search.find(known, query, limit, among)]


async def test_the_tool_for_a_purpose_comes_first():
    """In words that need not be its own name."""
    search, known = ToolSearch(), catalog(1, TOOLS)

    assert (await names(search, known, "rename a document"))[0] == "files__move_file"
    assert (await names(search, known, "which hour is it"))[0].startswith("clock__")
    assert await names(search, known, "files__read_file", limit=1) == ["files__read_file"]
    assert await names(search, known, "xyzzy qwrtp") == []


async def test_what_the_caller_may_not_see_takes_no_place():
    """The limit counts what is left."""
    search, known = ToolSearch(), catalog(1, TOOLS)

    assert await names(search, known, "rename a file", limit=1, hidden="move") == ["files__read_file"]


async def test_a_changed_server_is_indexed_alone(monkeypatch):
    """Others are not touched, and one that went away is not found."""
    put: list[list[str]] = []
    put_all = ToolIndex.put_all
    monkeypatch.setattr(ToolIndex, "put_all", lambda index, new: (put.append(list(new)), put_all(index, new))[1])
    search = ToolSearch()
    changed = {**TOOLS, "clock": [("sleep", "Wait until the morning.")]}

    first = await names(search, catalog(1, TOOLS), "current time")
    again = await names(search, catalog(2, TOOLS), "current time")
    later = await names(search, catalog(3, changed), "wait for the morning")
    gone = await names(search, catalog(4, {"clock": changed["clock"]}), "move file")

    assert first == again
    assert (later[0], gone) == ("clock__sleep", [])
    assert put == [["clock", "files"], ["clock"], ["files"]]


async def test_equal_tools_come_in_the_order_of_their_names_whenever_they_were_added():
    """The same catalogue gives the same answer, whatever came before."""
    twins = {name: [("send", "Send a message.")] for name in ("a", "b", "c")}
    grown, at_once = ToolSearch(), ToolSearch()
    await names(grown, catalog(1, {"c": twins["c"]}), "send")
    await names(grown, catalog(2, {"c": twins["c"], "a": twins["a"]}), "send")

    after = await names(grown, catalog(3, twins), "send a message", limit=2)

    assert after == await names(at_once, catalog(1, twins), "send a message", limit=2) == ["a__send", "b__send"]
