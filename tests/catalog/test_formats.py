"""Formats: one tool in the words of each model provider, nothing lost on the way."""

import pytest

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.formats import FORMATS, approximate_tokens, render
from toolcrib.core.errors import CallerError
from toolcrib.core.tool import Tool, from_mcp
from toolcrib.sources.native import NativeSource

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


def test_mcp_gets_back_everything_the_server_said():
    """Under the exposed name, unknown fields and all."""
    assert render(ROUTE, "mcp") == {**SHOWN, "name": "files__read"}


def test_anthropic_and_openai_get_their_own_shapes():
    """The schema is passed as it is."""
    assert render(ROUTE, "anthropic") == {
        "name": "files__read",
        "description": "Read a file.",
        "input_schema": SCHEMA,
    }
    assert render(ROUTE, "openai") == {
        "type": "function",
        "function": {"name": "files__read", "description": "Read a file.", "parameters": SCHEMA},
    }


@pytest.mark.parametrize(("wrong", "hint"), [("antropic", "Did you mean 'anthropic'?"), ("x", "Known formats: mcp")])
def test_an_unknown_format_is_told_the_known_ones(wrong, hint):
    """A near miss by name, otherwise all of them."""
    with pytest.raises(CallerError, match="No tool format named") as unknown:
        render(ROUTE, wrong)

    assert hint in str(unknown.value)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_bare_tool_fits_every_format(format_):
    """No description, no properties: still a definition."""
    assert render(Route("a", "", Tool("a"), NativeSource()), format_)


def test_the_cost_grows_with_the_definition():
    """By a token for each common word."""
    wordy = Route("a", "", Tool("a", description="word " * 100), NativeSource())

    assert approximate_tokens(wordy) - approximate_tokens(Route("a", "", Tool("a"), NativeSource())) == 100
