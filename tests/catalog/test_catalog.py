"""The catalog as a value."""

from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.core.offers import Example, Tool
from toolcrib.sources.native.source import NativeSource

SOURCE = NativeSource()


def route(name: str, server: str = "", tool: Tool | None = None) -> Route:
    return Route(name, server, tool or Tool(name), SOURCE)


def test_a_catalog_counts_native_and_mcp_tools_and_finds_those_of_a_server():
    """What the registry's events and tables show."""
    catalog = Catalog({"add": route("add"), "s__a": route("s__a", "s"), "t__b": route("t__b", "t")})

    assert catalog.counts() == (1, 2)
    assert [found.name for found in catalog.of_server("s")] == ["s__a"]


def test_completion_hints_come_from_the_author_the_examples_and_the_schema():
    """They are values for one parameter, narrowed by what was typed."""
    tool = Tool(
        "paint",
        input_schema={"type": "object", "properties": {"colour": {"enum": ["red", "rose", "blue"]}}},
        completions={"colour": ("ruby",)},
        examples=(Example({"colour": "rose"}),),
    )

    assert route("paint", tool=tool).complete("colour", "r") == ["ruby", "rose", "red"]
    assert route("paint", tool=tool).complete("size") == []
