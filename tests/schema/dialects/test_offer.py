"""Offers: what each provider is sent, what is left out, and what a model's answer means."""

import re

import pytest
from tests.schema.dialects.rules import CHECKS

from toolcrib.core.errors import CallerError
from toolcrib.core.offers import Tool
from toolcrib.schema.dialects import DIALECTS, dialect_of
from toolcrib.schema.dialects.offer import Options

READ = Tool("files__read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
SEND = Tool("mail.send", "Send a mail.")
TEXT = Tool("odd", "Takes text.", {"type": "string"})
CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def schema_of(name, schema, **options):
    [definition] = dialect_of(name, Options(**options)).offer([Tool("t", input_schema=schema)]).definitions
    return CHECKS[name](definition)


def described(name, schema):
    """The tool's description, and the properties it is offered with."""
    [definition] = DIALECTS[name].offer([Tool("t", "Do.", schema)]).definitions
    return definition.get("function", definition)["description"], CHECKS[name](definition)["properties"]


@pytest.mark.parametrize("name", DIALECTS)
def test_the_one_tool_a_provider_would_refuse_is_left_out(name):
    """The others go out."""
    offer = DIALECTS[name].offer([READ, TEXT, SEND, READ])

    assert offer.left_out == {
        "odd": "its arguments are not an object but string",
        "files__read": "another tool has the same name",
    }
    assert [offer.original(CHECKS[name](one) and name_in(one)) for one in offer.definitions] == [
        "files__read",
        "mail.send",
    ]


def name_in(definition):
    return definition.get("function", definition)["name"]


def test_more_tools_than_openai_takes_are_left_out_unless_they_are_searched():
    """And named, each with the reason."""
    tools = [Tool(f"t{n}") for n in range(130)]
    offer = dialect_of("openai").offer(tools)
    searched = dialect_of("openai-responses", Options(loaded=frozenset())).offer(tools)

    assert len(offer.definitions) == 128
    assert offer.left_out == dict.fromkeys(("t128", "t129"), "openai takes at most 128 tools at once")
    assert (len(searched.definitions), searched.left_out) == (130, {})
    assert len(dialect_of("ollama", Options(most_tools=2)).offer(tools).definitions) == 2


def test_strict_is_said_only_where_the_schema_already_is():
    """A field that may be missing, or any other field, and the model is not held to it."""
    open_, optional = {**CLOSED, "additionalProperties": True}, {**CLOSED, "required": []}
    offers = [DIALECTS["openai-responses"].offer([Tool("t", input_schema=one)]) for one in (CLOSED, open_, optional)]

    assert [offer.definitions[0]["strict"] for offer in offers] == [True, False, False]
    assert DIALECTS["openai"].offer([Tool("t", input_schema=CLOSED)]).definitions[0]["function"]["strict"] is True
    assert "strict" not in DIALECTS["openai"].offer([READ]).definitions[0]["function"]
    assert (
        not dialect_of("openai-responses", Options(strict=False))
        .offer([Tool("t", input_schema=CLOSED)])
        .definitions[0]["strict"]
    )


def test_strict_ends_where_openai_ends():
    """Too deep or too many choices: the same tool, not strict."""
    deep = CLOSED
    for _ in range(10):
        deep = {**CLOSED, "properties": {"n": deep}}
    many = {**CLOSED, "properties": {"n": {"enum": [f"v{n}" for n in range(1_001)]}}}

    strict = [
        DIALECTS["openai-responses"].offer([Tool("t", input_schema=one)]).definitions[0]["strict"]
        for one in (deep, many)
    ]

    assert strict == [False, False]


@pytest.mark.parametrize("name", DIALECTS)
def test_forms_at_the_top_become_fields_and_words(name):
    """What every form needs stays needed; the choice between them is said in the description."""
    form = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    }
    description, properties = described(name, form)

    assert description == "Do. (needs id or name)"
    assert properties == form["properties"]


@pytest.mark.parametrize("name", DIALECTS)
def test_closed_forms_at_the_top_keep_what_their_fields_take(name):
    """As tools with several modes have them."""
    modes = [
        {"type": "object", "properties": {"mode": {"const": mode}, mode: {"type": "string"}}, "required": ["mode"]}
        | {"additionalProperties": False}
        for mode in ("add", "drop")
    ]
    _, properties = described(name, {"type": "object", "oneOf": modes})

    assert list(properties) == ["mode", "add", "drop"]
    assert properties["add"]["type"] == "string"
    assert "anyOf" in properties["mode"]


def test_parameters_anthropic_does_not_take_get_names_it_takes():
    """And the tool gets its own back."""
    schema = {
        "type": "object",
        "properties": {"filter[id]": {"type": "string"}, "page": {}},
        "required": ["filter[id]"],
    }
    offer = DIALECTS["anthropic"].offer([Tool("list.apps", input_schema=schema)])
    [definition] = offer.definitions

    assert definition["input_schema"]["required"] == ["filter_id_"]
    assert offer.call("list_apps", {"filter_id_": "1", "page": 2}) == ("list.apps", {"filter[id]": "1", "page": 2})


RULES = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5, "description": "How many."},
        "day": {"type": "string", "format": "date", "pattern": "^2"},
        "kind": {"const": "a"},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
}


def test_rules_without_a_place_are_said_in_words():
    """For Ollama nearly all of them."""
    _, properties = described("ollama", RULES)

    assert properties == {
        "n": {"type": "integer", "description": "How many. (at least 1; at most 9; default 5)"},
        "day": {"type": "string", "description": "in date format; must match ^2"},
        "kind": {"enum": ["a"]},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "items differ from each other"},
    }


def test_a_schema_that_is_taken_is_passed_as_it_is():
    """Anthropic and OpenAI take nearly all there is."""
    assert schema_of("anthropic", RULES) == RULES
    assert schema_of("openai", RULES) == RULES


TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/definitions/node"}},
    "definitions": {
        "node": {"type": "object", "properties": {"to": {"$ref": "#/definitions/node"}, "v": {"type": "string"}}},
        "unused": {"type": "string"},
    },
}


def test_references_go_to_definitions_that_are_used_or_are_replaced():
    """What refers to itself is written out once and then left open."""
    node = {"type": "object", "properties": {"to": {"$ref": "#/$defs/node"}, "v": {"type": "string"}}}

    assert schema_of("anthropic", TREE)["$defs"] == {"node": node}
    assert schema_of("gemini", TREE)["properties"] == {
        "root": {
            "type": "object",
            "properties": {
                "to": {"type": "object", "description": "the same form again as node"},
                "v": {"type": "string"},
            },
        }
    }


@pytest.mark.parametrize("name", DIALECTS)
def test_references_that_multiply_do_not_blow_up(name):
    """Each level refers ten times to the next: written out, that would be a million parts."""
    levels = {
        f"l{n}": {"type": "object", "properties": {f"p{i}": {"$ref": f"#/$defs/l{n + 1}"} for i in range(10)}}
        for n in range(6)
    }
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/l0"}},
        "$defs": {**levels, "l6": {"type": "null"}},
    }

    assert len(repr(schema_of(name, schema))) < 1_000_000


@pytest.mark.parametrize("name", DIALECTS)
def test_references_that_lead_nowhere_or_in_circles_do_not_get_out(name):
    """What they mean is left open."""
    circle = {"$ref": "#/$defs/a"}
    schema = {
        "type": "object",
        "properties": {"x": circle, "y": {"$ref": "https://example.test/s.json"}, "z": {"$ref": "#/nowhere"}},
        "$defs": {"a": {"anyOf": [circle]}},
    }

    assert "'$ref':" not in repr(schema_of(name, schema))


def test_null_among_the_choices_stays_possible_for_gemini():
    """Its choices are texts and numbers only."""
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x", None]}}}

    assert schema_of("gemini", schema)["properties"]["a"] == {
        "anyOf": [{"enum": ["x"], "type": "string"}, {"type": "null"}]
    }


def test_a_tool_without_parameters_has_no_schema_for_gemini():
    """An empty one is refused."""
    offer = DIALECTS["gemini"].offer([SEND])

    assert offer.tools == [{"functionDeclarations": [{"name": "mail_send", "description": "Send a mail."}]}]


def test_long_descriptions_give_way_to_the_rules_behind_them():
    """Cut to what Azure takes, with a mark."""
    schema = {"type": "object", "properties": {}, "not": {"required": ["a"]}}
    [definition] = (
        dialect_of("openai", Options(description_limit=1024)).offer([Tool("t", "x" * 3000, schema)]).definitions
    )

    text = definition["function"]["description"]
    assert len(text) <= 1024
    assert re.fullmatch(r'x+ … \[cut\] \(must not fit {"required":\["a"]}\)', text)


def test_anthropic_searches_for_tools_it_has_not_loaded():
    """The search itself is always there."""
    offer = dialect_of("anthropic", Options(loaded=frozenset({"files__read"}), search="regex")).offer([READ, SEND])

    assert offer.tools[0] == {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    assert [one.get("defer_loading", False) for one in offer.definitions] == [False, True]
    assert dialect_of("anthropic", Options(loaded=frozenset({"files__read"}))).offer([READ]).tools == [
        DIALECTS["anthropic"].offer([READ]).definitions[0]
    ]


def test_openai_searches_by_server():
    """A namespace for each; tools without a server stand alone."""
    offer = dialect_of("openai-responses", Options(loaded=frozenset())).offer([READ, SEND])
    read, send = offer.definitions

    assert offer.tools == [
        send,
        {"type": "namespace", "name": "files", "description": "Tools of files.", "tools": [read]},
        {"type": "tool_search"},
    ]
    assert read["defer_loading"] is send["defer_loading"] is True


@pytest.mark.parametrize("name", ["openai", "gemini", "ollama"])
def test_who_cannot_search_says_so(name):
    """And who can."""
    with pytest.raises(CallerError, match="anthropic and openai-responses can"):
        dialect_of(name, Options(loaded=frozenset()))


def test_unknown_dialects_and_impossible_limits_are_refused():
    """With what is possible."""
    with pytest.raises(CallerError, match="Did you mean 'gemini'"):
        dialect_of("gemni")
    with pytest.raises(CallerError, match="from 16 to 64"):
        Options(name_limit=8)
