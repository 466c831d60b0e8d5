"""Definitions: what a server said of a tool comes out as it went in."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.offers import SecurityLevel, Tool, from_mcp, to_mcp

VALUES = (
    st.none() | st.integers() | st.text(max_size=5) | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)


@given(
    st.fixed_dictionaries(
        {"name": st.text(min_size=1, max_size=5), "inputSchema": st.just({"type": "object", "x": 1})},
        optional={
            "title": st.text(min_size=1, max_size=5),
            "description": st.text(min_size=1, max_size=5),
            "outputSchema": st.just({"type": "object"}),
            "annotations": st.just({"readOnlyHint": True}),
            "icons": VALUES,
            "_meta": VALUES,
            "execution": VALUES,
        },
    )
)
def test_a_definition_survives_the_round(shown):
    """Known fields, unknown fields, nothing added."""
    assert to_mcp(from_mcp(shown)) == shown


def test_a_definition_is_shown_under_its_exposed_name():
    """The rest stays the source's."""
    assert to_mcp(Tool("read"), "files__read") == {"name": "files__read", "inputSchema": {"type": "object"}}


def test_nothing_a_server_says_lowers_its_security_level():
    """A hint is a hint."""
    tool = from_mcp({"name": "a", "annotations": {"readOnlyHint": True}, "security_level": "read_only"})

    assert (tool.security_level, tool.is_replayable) == (SecurityLevel.WRITE, True)


def test_only_its_own_word_makes_a_tool_replayable():
    """True, not something that looks like it."""
    hints = [{}, {"readOnlyHint": "true"}, {"idempotentHint": True}, {"readOnlyHint": False, "idempotentHint": 1}]

    assert [Tool("a", annotations=hint).is_replayable for hint in hints] == [False, False, True, False]


def test_fields_of_the_wrong_kind_are_left_out():
    """A description that is a list describes nothing."""
    odd = {"name": "a", "description": [1], "title": 5, "annotations": "x", "outputSchema": True, "inputSchema": None}

    assert from_mcp(odd) == Tool("a")
