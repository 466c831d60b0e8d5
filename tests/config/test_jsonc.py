import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.config.jsonc import has_comments, read_jsonc
from toolcrib.config.positions import PlacedValues
from toolcrib.core.errors import ConfigError

TEXT = """\
// servers of this project
{
  "mcpServers": {
    /* the clock,
       local */
    "time": {"command": "uvx", "args": ["a // b", {"k": 1},],},
    "web": {
      "url": "https://example.org/mcp", // not a comment in the string
    },
  },
}
"""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_comments_and_trailing_commas_are_read_over():
    """What editors accept is accepted, and every key knows its line."""
    assert read_jsonc(TEXT, "mcp.json") == PlacedValues(
        where="mcp.json",
        root={
            "mcpServers": {
                "time": {"command": "uvx", "args": ["a // b", {"k": 1}]},
                "web": {"url": "https://example.org/mcp"},
            }
        },
        lines={
            ("mcpServers",): 3,
            ("mcpServers", "time"): 6,
            ("mcpServers", "time", "command"): 6,
            ("mcpServers", "time", "args"): 6,
            ("mcpServers", "web"): 7,
            ("mcpServers", "web", "url"): 8,
        },
    )


@settings(deadline=None)
@given(json_values, st.sampled_from([None, 0, 2]))
def test_all_json_is_read_as_json(value, indent):
    """Being tolerant takes nothing away."""
    assert read_jsonc(json.dumps(value, indent=indent), "x.json").root == value


def test_a_repeated_key_is_noticed():
    """JSON takes the last one in silence; here both places are known."""
    written = read_jsonc('{"a": 1,\n"b": 2,\n"a": 3}', "x.json")

    assert (written.root, written.lines, written.repeated) == (
        {"a": 3, "b": 2},
        {("a",): 1, ("b",): 2},
        ((("a",), 3),),
    )


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("", 1, "expected a value, found the end of the file"),
        ('{"a": 1', 1, 'expected "," or "}", found the end of the file'),
        ('{\n"a" 1}', 2, 'expected ":" after "a", found \'1\''),
        ('{\n\n"a": [1 2]}', 3, 'expected "," or "]", found \'2\''),
        ("{'a': 1}", 1, 'expected a key in double quotes, or "}", found "\'a\'"'),
        ('{"a": nope}', 1, "expected a value, found 'nope'"),
        ('{"a": NaN}', 1, "expected a value, found 'NaN'"),
        ('{"a": "\\ud800"}', 1, "expected a value, found a string"),
        ('{"a": "never closed}', 1, "expected a value, found '\"'"),
        ('{"a": 1} 2', 1, "expected the end of the file, found '2'"),
        ('{"a": 1}}', 1, "expected the end of the file, found '}'"),
        ("/* open", 1, "expected a value, found '/'"),
    ],
)
def test_what_is_not_json_is_shown_with_its_line(text, line, complaint):
    """The message says what was expected and what was found, and does not repeat strings, which may be secret."""
    with pytest.raises(ConfigError) as caught:
        read_jsonc(text, "mcp.json")

    assert str(caught.value) == f"mcp.json:{line}: This is not JSON: {complaint}."


def test_bottomless_nesting_is_refused():
    """A hostile file ends in an error, not in a crash."""
    with pytest.raises(ConfigError, match="Nested deeper than 64 levels"):
        read_jsonc("[" * 100_000, "mcp.json")


def test_comments_are_told_from_strings():
    """Only real comments keep a file from being edited."""
    assert has_comments(TEXT)
    assert has_comments("{} // end")
    assert not has_comments('{"url": "https://example.org/*x*/"}')
