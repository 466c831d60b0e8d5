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


AWAY = {"$ref": "http://evil.example/s"}
REMOTE = {
    "a property": ({"properties": {"a": AWAY}}, {"properties": {"a": {}}}),
    "with a fragment": ({"properties": {"a": {"$ref": "//evil.example/s#/x"}}}, {"properties": {"a": {}}}),
    "a file": ({"items": {"$ref": "file:///etc/passwd", "title": "A"}}, {"items": {"title": "A"}}),
    "relative": ({"properties": {"a": {"$ref": "other.json"}}}, {"properties": {"a": {}}}),
    "dynamic": ({"properties": {"a": {"$dynamicRef": "http://evil.example/s"}}}, {"properties": {"a": {}}}),
    "a metaschema": ({"items": {"$ref": "http://json-schema.org/draft-07/schema#"}}, {"items": {}}),
    "in a list": ({"allOf": [AWAY, {"minProperties": 1}]}, {"allOf": [{}, {"minProperties": 1}]}),
    "what would mean the opposite": ({"not": AWAY, "minProperties": 1}, {"minProperties": 1}),
    "what would fit twice": ({"oneOf": [AWAY, {"type": "object"}]}, {}),
    "data that looks like one": ({"properties": {"a": {"const": AWAY}}}, {"properties": {"a": {}}}),
}


@pytest.mark.parametrize("part", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize(("schema", "served"), REMOTE.values(), ids=REMOTE)
def test_no_reference_that_somebody_would_have_to_fetch_is_handed_on(part, schema, served):
    """What it referred to is not asked of anybody; what is left accepts no less than before."""
    shown, notes = sanitise_tool({"name": "t", "inputSchema": {"type": "object"}, part: {"type": "object", **schema}})

    assert shown[part] == {"type": "object", **served}
    assert [note.startswith(f"{part}: took out the reference to ") for note in notes] == [True]


def test_references_within_a_schema_stay():
    """By pointer, by anchor, by an address that one of its own parts has, and as the name of a property."""
    schema = {
        "type": "object",
        "$id": "https://own.example/root",
        "$defs": {"a": {"$id": "part", "type": "string"}, "b": {"$anchor": "b"}},
        "properties": {
            "pointer": {"$ref": "#/$defs/a"},
            "anchor": {"$ref": "#b"},
            "address": {"$ref": "https://own.example/part"},
            "relative": {"$ref": "part"},
            "$ref": {"type": "string"},
        },
    }

    shown, notes = sanitise_tool({"name": "t", "inputSchema": schema})

    assert (shown["inputSchema"], notes) == (schema, [])


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(?=a)b", r"(a)\1", "^(([a-z])+.)+[A-Z]$", "(x*)*y", "(a{2,})+"])
def test_a_pattern_that_may_hang_a_reader_says_so_where_it_stands(pattern):
    """It stays, because people read it; whoever checks it is warned."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}

    shown, notes = sanitise_tool({"name": "t", "inputSchema": schema})

    served = shown["inputSchema"]["properties"]["a"]
    assert served["pattern"] == pattern
    assert served["$comment"].startswith("toolcrib does not check this pattern")
    assert notes == [f"inputSchema: the pattern {pattern!r} is not checked"]


@pytest.mark.parametrize("pattern", ["^[a-z]+$", "^(ab)+$", r"^\(+\)+$", "[(+)]+", r"^\d{4}-\d{2}$", "a+b+", "(a|b)*c"])
def test_an_ordinary_pattern_is_left_alone(pattern):
    """The definition is the same object."""
    shown = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"pattern": pattern}}}}

    assert sanitise_tool(shown) == (shown, [])


def test_a_pattern_of_names_is_warned_of_as_well():
    """``patternProperties`` is matched against every name."""
    schema = {"type": "object", "patternProperties": {"^(a+)+$": {}, "^b": {}}}

    shown, _ = sanitise_tool({"name": "t", "inputSchema": schema})

    assert set(shown["inputSchema"]) == {"type", "patternProperties", "$comment"}
