"""Files of strangers: whatever they hold, reading ends in servers that can be written, or in a reason."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.config.edit import add_server
from toolcrib.config.foreign.clients import CLIENTS, UNKNOWN, read_servers
from toolcrib.config.foreign.entry import MEANT
from toolcrib.config.foreign.references import ForeignDialect
from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml
from toolcrib.config.positions import PlacedValues
from toolcrib.core.errors import ConfigError

TABLES = (
    "mcpServers", "servers", "mcp", "mcp_servers", "context_servers", "extensions", "projects", "inputs", "packages",
    "remotes", "server", "user_config", "mcp_config", "info", "config", "identifier", "registryType", "variables",
    "environmentVariables", "packageArguments", "value", "default", "id", "mcpServerName", "platform_overrides",
    "linux",
)  # fmt: skip
WORDS = (
    "stdio",
    "http",
    "local",
    "npm",
    "oci",
    "mcp",
    "https://x.example/mcp",
    "${input:a}",
    "$A",
    "${X:-y}",
    "a b",
    "*",
)
texts = st.sampled_from(WORDS) | st.text(max_size=6)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
keys = st.sampled_from([*sorted(MEANT), *TABLES]) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
entries = st.dictionaries(st.sampled_from(sorted(MEANT)), values, max_size=5)
good = st.fixed_dictionaries({"command": texts}) | st.fixed_dictionaries({"url": st.just("https://x.example/mcp")})
CLIENT_IDS = [*CLIENTS, "file"]


@pytest.mark.parametrize("client", CLIENT_IDS)
@settings(deadline=None, max_examples=60)
@given(root=st.dictionaries(keys, values, max_size=4) | st.lists(values, max_size=3) | scalars)
def test_no_document_breaks_a_reader(client, root):
    """There is a list, or an error that says what is wrong."""
    try:
        found = read_servers(PlacedValues("x", root), CLIENTS.get(client, UNKNOWN))
    except ConfigError:
        return

    assert all((one.server is None) == bool(one.left_out) for one in found)


@settings(deadline=None, max_examples=200)
@given(good=good, entry=entries, shell=st.booleans())
def test_whatever_is_taken_over_can_be_written_and_read_again(good, entry, shell):
    """One odd value must not spoil the whole import."""
    (found,) = read_servers(
        PlacedValues("x", {"mcpServers": {"a": {**entry, **good}}}),
        CLIENTS["cursor"],
        ForeignDialect(shell_references=shell),
    )

    if found.server is not None:
        text = add_server("", found.server)
        assert merge(parse_toml(text, "toolcrib.toml")).servers["a"] == found.server


def test_halves_of_characters_are_left_out():
    """YAML can write them, files cannot hold them."""
    (found,) = read_servers(PlacedValues("x", {"mcpServers": {"a": {"command": "x", "args": ["\ud800"]}}}), UNKNOWN)

    assert found.left_out == "it holds characters that cannot be written"
