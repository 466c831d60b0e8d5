"""Foreign tool definitions: repaired, cleaned or refused, one at a time."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import InvalidName, InvalidSchema, ToolcribError
from toolcrib.schema.cost import MAX_BYTES, MAX_DEPTH
from toolcrib.schema.sanitise import MAX_TEXT_BYTES, sanitise_tool
from toolcrib.schema.text import unseen_characters

CLEAN = {
    "name": "read_file",
    "title": "Read",
    "description": "⚠️ Reads C:\\readme\\build\\files.\nAs text.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string", "pattern": "\\bfoo"}}},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "_meta": {"raw": "\x00\u200b"},
}


def test_a_clean_tool_comes_back_as_the_same_object():
    """Backslashes, emoji and whatever is in ``_meta`` are nothing to change."""
    shown, notes = sanitise_tool(CLEAN)

    assert shown is CLEAN
    assert notes == []


REPAIRED = {
    "no schema": ({}, {"inputSchema": {"type": "object"}}),
    "null schema": ({"inputSchema": None}, {"inputSchema": {"type": "object"}}),
    "empty schema": ({"inputSchema": {}}, {"inputSchema": {"type": "object"}}),
    "no type": (
        {"inputSchema": {"properties": {"a": {}}}},
        {"inputSchema": {"properties": {"a": {}}, "type": "object"}},
    ),
    "null type": (
        {"inputSchema": {"type": None, "properties": {}}},
        {"inputSchema": {"type": "object", "properties": {}}},
    ),
    "null annotations": ({"inputSchema": {"type": "object"}, "annotations": None}, {"inputSchema": {"type": "object"}}),
    "null texts": (
        {"inputSchema": {"type": "object"}, "title": None, "description": None},
        {"inputSchema": {"type": "object"}},
    ),
    "bad output schema": ({"inputSchema": {"type": "object"}, "outputSchema": []}, {"inputSchema": {"type": "object"}}),
}


@pytest.mark.parametrize("case", REPAIRED)
def test_what_real_servers_get_wrong_is_repaired(case):
    """The tool stays usable, and every repair is noted; what came in is not changed."""
    sent, kept = REPAIRED[case]
    before = {"name": "t", **sent}

    shown, notes = sanitise_tool(before)

    assert shown == {"name": "t", **kept}
    assert notes
    assert before == {"name": "t", **sent}


def test_a_schema_that_composes_keeps_its_shape():
    """Without a type, but with alternatives: nothing is guessed."""
    tool = {"name": "t", "inputSchema": {"anyOf": [{"type": "object"}]}}

    assert sanitise_tool(tool) == (tool, [])


@pytest.mark.parametrize(
    "name", [None, 1, "", "a b", "a\nb", "\x1b[31m", "a\u200bb", "naïve", "x" * 10_000, "a\U000e0041"]
)
def test_a_bad_name_is_refused(name):
    """The message shows the name without letting it act."""
    with pytest.raises(InvalidName) as refused:
        sanitise_tool({"name": name, "inputSchema": {"type": "object"}})

    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


def deep(levels):
    schema = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize("part", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "description": "x" * MAX_BYTES},
        {"type": "object", "not": deep(MAX_DEPTH)},
        {"type": "object", "not": deep(900)},
        {"type": "object", "properties": {"pa\u200bth": {}}},
        {"type": "object", "properties": {"a": {"properties": {"\x1b[8m": {}}}}},
    ],
    ids=["big", "deep", "very deep", "hidden name", "terminal name"],
)
def test_a_harmful_schema_is_refused(part, schema):
    """Too big, too deep, or with field names that are not what they look like."""
    with pytest.raises(InvalidSchema) as refused:
        sanitise_tool({"name": "t", "inputSchema": {"type": "object"}, part: schema})

    assert refused.value.tool == "t"
    assert str(refused.value).isprintable()


def test_a_definition_nested_without_end_is_refused():
    """Not only schemas: every part that is looked through has to have an end."""
    with pytest.raises(InvalidSchema, match="deeper"):
        sanitise_tool({"name": "t", "inputSchema": {"type": "object"}, "annotations": deep(900)})


@pytest.mark.parametrize("schema", [[], "object", True, 1, {"type": "string"}, {"type": ["array", "null"]}])
def test_an_input_schema_that_is_no_object_is_refused(schema):
    """Arguments are always an object."""
    with pytest.raises(InvalidSchema):
        sanitise_tool({"name": "t", "inputSchema": schema})


def test_hidden_text_is_taken_out_wherever_a_model_reads():
    """Title, descriptions, choices, defaults and annotations; each place is noted."""
    hidden = "ok\u200b\U000e0041\x1b[8m"
    tool = {
        "name": "t",
        "title": hidden,
        "description": hidden,
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"description": hidden, "enum": [hidden, 1], "default": hidden}},
        },
        "annotations": {"title": hidden},
        "_meta": {"kept": hidden},
    }

    shown, notes = sanitise_tool(tool)

    assert shown == {
        "name": "t",
        "title": "ok",
        "description": "ok",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"description": "ok", "enum": ["ok", 1], "default": "ok"}},
        },
        "annotations": {"title": "ok"},
        "_meta": {"kept": hidden},
    }
    assert notes == [
        f"{place}: took out U+001B, U+200B, U+E0041"
        for place in (
            "title",
            "description",
            "inputSchema.properties.a.description",
            "inputSchema.properties.a.enum[0]",
            "inputSchema.properties.a.default",
            "annotations.title",
        )
    ]


UNSEEN = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in {"Cc", "Cf", "Zl", "Zp"} and chr(code) not in "\n\t"
] + [*"\u034f\u115f\u1160\u3164\uffa0\ufe00\ufe0f\U000e0100\ue000\U000f0000\ufffe"]
PLACES = {
    "title": lambda text: {"title": text},
    "description": lambda text: {"description": text},
    "description of a field": lambda text: with_field(description=text),
    "choice": lambda text: with_field(enum=[text]),
    "default": lambda text: with_field(default={"deep": [text]}),
    "example": lambda text: with_field(examples=[text]),
    "constant": lambda text: {"outputSchema": {"const": text}},
    "annotation": lambda text: {"annotations": {"title": text}},
    "something new": lambda text: {"icons": [{"src": text}]},
}


def with_field(**more):
    return {"inputSchema": {"type": "object", "properties": {"a": more}}}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_unseen_is_left_anywhere(place):
    """Every control, format and filler character, in every place where a model or a person reads."""
    for char in UNSEEN:
        shown, notes = sanitise_tool({"name": "t", "inputSchema": {"type": "object"}, **PLACES[place](f"a{char}b")})

        assert unseen_characters(str(shown)) == [], hex(ord(char))
        assert notes


@pytest.mark.parametrize("part", ["properties", "$defs", "patternProperties"])
def test_nothing_unseen_is_left_in_the_name_of_a_field(part):
    """A name cannot be cleaned without becoming another; the tool is left out."""
    for char in UNSEEN:
        with pytest.raises(InvalidSchema):
            sanitise_tool({"name": "t", "inputSchema": {"type": "object", part: {f"a{char}b": {}}}})


@pytest.mark.parametrize("char", ["x", "é", "東", "😀"])
def test_a_long_description_is_cut_with_a_note(char):
    """At most 8 KiB, whole characters, visibly cut."""
    shown, notes = sanitise_tool({**CLEAN, "description": char * 20_000})

    assert len(shown["description"].encode()) <= MAX_TEXT_BYTES
    assert shown["description"].rstrip("] tuc[…") == char * (len(shown["description"]) - len(" … [cut]"))
    assert notes == [f"description: {20_000 * len(char.encode())} bytes, cut to {MAX_TEXT_BYTES}"]


def test_half_characters_do_not_pass():
    """Text that cannot be encoded is cleaned before anybody has to encode it."""
    shown, _ = sanitise_tool({**CLEAN, "_meta": {}, "description": "a\ud800b"})

    assert shown["description"] == "ab"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"name": st.just("t") | JSON}, optional=dict.fromkeys([*CLEAN.keys() - {"name"}, "icons"], JSON)
    )
)
def test_any_entry_is_either_made_harmless_or_refused(entry):
    """No entry of a list can do more than be left out, and what is kept needs no second cleaning."""
    try:
        shown, notes = sanitise_tool(entry)
    except ToolcribError:
        return

    assert (shown is entry) is (notes == [])
    assert sanitise_tool(shown) == (shown, [])
