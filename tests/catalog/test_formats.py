"""Formats: the routes of a catalogue in the words of each model provider, nothing lost on the way."""

import pytest

from toolcrib.catalog.catalog import FORMATS, Options, Route, offer_routes
from toolcrib.core.errors import CallerError
from toolcrib.core.offers import Tool, from_mcp
from toolcrib.sources.native.source import NativeSource

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "x-vendor": {"kept": True}}
SHOWN = {
    "name": "read",
    "title": "Read",
    "description": "Read a file.",
    "inputSchema": SCHEMA,
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "icons": [{"src": "data:,"}],
    "_meta": {"a": 1},
}
ROUTE = Route("files__read", "files", from_mcp(SHOWN), NativeSource())


def only(route, format_):
    [definition] = offer_routes([route], format_).definitions
    return definition


def test_mcp_gets_back_everything_the_server_said():
    """Under the exposed name, unknown fields and all."""
    assert only(ROUTE, "mcp") == {**SHOWN, "name": "files__read"}


def test_anthropic_and_openai_get_their_own_shapes():
    """A schema they take is passed as it is."""
    assert only(ROUTE, "anthropic") == {
        "name": "files__read",
        "description": "Read a file.",
        "input_schema": SCHEMA,
    }
    assert only(ROUTE, "openai") == {
        "type": "function",
        "function": {"name": "files__read", "description": "Read a file.", "parameters": SCHEMA},
    }


def test_a_provider_gets_names_it_takes_and_mcp_gets_the_names_there_are():
    """Both lead back to the exposed name."""
    route = Route("kb.search", "", Tool("kb.search"), NativeSource())
    short = offer_routes([route], "ollama", Options(name_limit=16))

    assert only(route, "mcp")["name"] == "kb.search"
    assert short.definitions[0]["function"]["name"] == "kb_search"
    assert short.original("kb_search") == "kb.search"


@pytest.mark.parametrize(("wrong", "hint"), [("antropic", "Did you mean 'anthropic'?"), ("x", "Known formats: mcp")])
def test_an_unknown_format_is_told_the_known_ones(wrong, hint):
    """A near miss by name, otherwise all of them."""
    with pytest.raises(CallerError, match="No tool format named") as unknown:
        offer_routes([ROUTE], wrong)

    assert hint in str(unknown.value)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_bare_tool_fits_every_format(format_):
    """No description, no properties: still a definition."""
    assert only(Route("a", "", Tool("a"), NativeSource()), format_)


def test_the_cost_grows_with_the_definition():
    """By a token for each common word."""
    wordy = Route("a", "", Tool("a", description="word " * 100), NativeSource())

    assert wordy.tokens - Route("a", "", Tool("a"), NativeSource()).tokens == 100
