"""One member in, one member out: nothing else in the text moves."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.config.jsonc import insert_member, read_jsonc, remove_member
from toolcrib.core.errors import ConfigError

PATH = ("mcpServers", "toolcrib")
ENTRY = {"command": "toolcrib", "args": ["stdio"]}


def inserted(text: str) -> str:
    return insert_member(text, PATH, ENTRY, "x.json")


LINE = '"toolcrib": {"command": "toolcrib", "args": ["stdio"]}'
TABBED = """\
{
\t"mcpServers": {
\t\t"a": 1 // one
\t}
}"""
TABBED_AFTER = """\
{
\t"mcpServers": {
\t\t"a": 1, // one
\t\t"toolcrib": {
\t\t\t"command": "toolcrib",
\t\t\t"args": [
\t\t\t\t"stdio"
\t\t\t]
\t\t}
\t}
}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", json.dumps({"mcpServers": {"toolcrib": ENTRY}}, indent=2) + "\n"),
        ('{"mcpServers": {"a": 1}}', '{"mcpServers": {"a": 1, ' + LINE + "}}"),
        ('{"mcpServers": {"a": 1,}}', '{"mcpServers": {"a": 1, ' + LINE + ",}}"),
        (TABBED, TABBED_AFTER),
        (TABBED.replace("\n", "\r\n"), TABBED_AFTER.replace("\n", "\r\n")),
    ],
)
def test_a_member_is_put_in_the_way_the_file_is_written(text, expected):
    """Indentation, line ends, trailing commas, comments: as they are."""
    assert inserted(text) == expected


WRITTEN = [
    "{}",
    "{ }\n",
    "{\n}\n",
    "{\n  // nothing yet\n}\n",
    '{"mcpServers": {}}',
    '{\n  "mcpServers": {\n  }\n}',
    '{\n  "mcpServers": { /* none */ }\n}',
    '{\n  "a": [1, {"mcpServers": 2}],\n  "mcpServers": {\n    "x": {"command": "y"}, // last\n    // end\n  },\n}\n',
    '\ufeff{\r\n    "mcpServers": {\r\n        "x": {"url": "http://x"}\r\n    },\r\n    "z": "}{"\r\n}\r\n',
    '{"a":1}',
    '{\n\t"a": {\n\t\t"b": "// no comment"\n\t}\n}',
    "// only a comment",
    '{"mcpServers": {"x": 1}, "mcpServers": {"y": 2}}',
]


@pytest.mark.parametrize("text", WRITTEN)
def test_what_was_there_means_the_same_afterwards(text):
    """And the new member is where it belongs."""
    edited = inserted(text)

    root = read_jsonc(edited.removeprefix("\ufeff"), "x").root
    assert root["mcpServers"].pop("toolcrib") == ENTRY
    before = read_jsonc(text.removeprefix("\ufeff"), "x").root if "{" in text else {}
    assert root == ({"mcpServers": {}} | before)
    assert edited.startswith("\ufeff") == text.startswith("\ufeff")
    if "\r\n" in text:
        assert "\n" not in edited.replace("\r\n", "")


@pytest.mark.parametrize("text", [*(text for text in WRITTEN if '"x": ' in text), '{"mcpServers": {"a":1}}'])
def test_a_member_that_goes_in_and_out_leaves_no_trace_beside_others(text):
    """Where the table already had members, removing is the exact opposite of inserting."""
    assert remove_member(inserted(text), PATH, "x.json") == text


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_member_is_removed_from_anywhere(place):
    """First, in the middle, last; with the comment of the others."""
    members = ['"a": 1', '"b": 2']
    members.insert(place, '"toolcrib": {"command": "x"}')
    text = '{\n  "mcpServers": {\n    ' + ",\n    ".join(members) + "\n  }\n}\n"

    assert remove_member(text, PATH, "x") == '{\n  "mcpServers": {\n    "a": 1,\n    "b": 2\n  }\n}\n'


def test_a_member_is_found_however_its_name_is_escaped():
    """JSON has several ways to write a letter."""
    assert remove_member('{"mcpServers": {"\\u0074oolcrib": 1, "a": 2}}', PATH, "x") == '{"mcpServers": { "a": 2}}'
    assert remove_member('{"mcpServers": {"a\\/b": 1}}', ("mcpServers", "a/b"), "x") == '{"mcpServers": {}}'


def test_what_is_not_there_is_not_removed():
    """The text is the same."""
    assert remove_member('{"a": 1}', PATH, "x") == '{"a": 1}'


@pytest.mark.parametrize("text", ["[]", '{"mcpServers": []}', '{"mcpServers": null}', '{"a": }', "1"])
def test_a_file_that_cannot_be_edited_is_left_alone(text):
    """With a reason."""
    with pytest.raises(ConfigError):
        inserted(text)


keys = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5) | st.just("mcpServers")
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))
fillers = st.sampled_from(["", " ", "\n", "\r\n\t", " // c\n", "/* { */", "\n  "])


@st.composite
def documents(draw):
    """Any JSON with comments, white space and trailing commas between its tokens."""

    def write(value):
        def gap():
            return draw(fillers)

        if isinstance(value, dict):
            inside = ",".join(
                f"{gap()}{json.dumps(key)}{gap()}:{gap()}{write(item)}{gap()}" for key, item in value.items()
            )
            return "{" + inside + ("," if value and draw(st.booleans()) else "") + gap() + "}"
        if isinstance(value, list):
            return "[" + ",".join(f"{gap()}{write(item)}{gap()}" for item in value) + "]"
        return json.dumps(value)

    root = draw(st.dictionaries(keys, values, max_size=3))
    if "mcpServers" in root or draw(st.booleans()):
        root["mcpServers"] = draw(st.dictionaries(keys, values, max_size=3))
    return draw(fillers) + write(root) + draw(fillers)


@settings(deadline=None, max_examples=300)
@given(documents())
def test_any_document_takes_a_member_and_gives_it_back(text):
    """However it is written, the values are the same before, in between and after."""
    before = read_jsonc(text, "x").root

    edited = inserted(text)
    removed = remove_member(edited, PATH, "x")

    with_entry = before | {"mcpServers": before.get("mcpServers", {}) | {"toolcrib": ENTRY}}
    assert read_jsonc(edited, "x").root == with_entry
    assert read_jsonc(removed, "x").root == before | {"mcpServers": before.get("mcpServers", {})}
