"""Repair: what was meant, where it can only have been meant one way, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.schema.check import compile_check
from toolcrib.schema.repair import _form_of, near_name, repair

KINDS = {
    "filePath": {"type": "string"},
    "max_results": {"type": "integer"},
    "content-type": {"type": "string"},
    "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
    "options": {"$ref": "#/$defs/options"},
    "ratio": {"type": ["number", "null"]},
    "text": {"type": ["string", "object"]},
    "any": {},
}
SCHEMA = {
    "type": "object",
    "properties": KINDS,
    "additionalProperties": False,
    "$defs": {"options": {"type": "object", "properties": {"deep": {"type": "boolean"}}}},
}


def repaired(arguments, schema=SCHEMA):
    return repair(schema, arguments, compile_check(schema).accepts)


@pytest.mark.parametrize(
    ("given_", "meant"),
    [
        ("FilePath", "filePath"),
        ("file_path", "filePath"),
        ("file-path", "filePath"),
        ("maxResults", "max_results"),
        ("content_type", "content-type"),
        ("filePaht", "filePath"),
        ("fielPath", "filePath"),
        ("filePat", "filePath"),
        ("fillePath", "filePath"),
        ("max_result", "max_results"),
        ("tag", "tags"),
        ("tagz", "tags"),
    ],
)
def test_a_slip_in_a_name_is_read_as_the_name_that_is_near(given_, meant):
    """Case, style, or one letter."""
    assert near_name(given_, KINDS) == meant


@pytest.mark.parametrize("far", ["path", "results", "fileePaths", "an", "x" * 200, ""])
def test_other_names_are_near_to_none(far):
    """Two letters, another word, or a word too short to tell."""
    assert near_name(far, KINDS) == ""


@pytest.mark.parametrize(
    ("name", "known"),
    [("file_nam", ["file_name", "file_names2", "file_nap"]), ("page3", ["page1"]), ("userid", ["userID", "user_id"])],
)
def test_with_two_that_could_be_meant_or_another_number_nothing_is(name, known):
    """It is for the model to say."""
    assert near_name(name, dict.fromkeys(known)) == ""


def test_names_and_texts_are_put_right_and_it_is_said():
    """In the order they were given."""
    arguments = {"file_path": "/x", "max_results": "5", "tags": '["a"]', "options": '{"deep": true}', "ratio": "0.5"}

    assert repaired(arguments) == (
        {"filePath": "/x", "max_results": 5, "tags": ["a"], "options": {"deep": True}, "ratio": 0.5},
        (
            "read 'file_path' as 'filePath'",
            "read the text of 'max_results' as JSON",
            "read the text of 'tags' as JSON",
            "read the text of 'options' as JSON",
            "read the text of 'ratio' as JSON",
        ),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "/x", "filePath": "/y"},
        {"file_path": "/x", "FilePath": "/y"},
        {"max_results": "five"},
        {"max_results": "1.5"},
        {"max_results": '"5"'},
        {"max_results": "5", "unknown": 1},
        {"ratio": "1e999"},
        {"options": '{"deep": 2}'},
        {"filePath": [5]},
        {"filePath": True},
        {},
    ],
)
def test_what_is_not_certain_or_still_does_not_fit_is_left_to_the_model(arguments):
    """It gets to hear what is wrong with what it wrote."""
    before = dict(arguments)

    assert repaired(arguments) is None
    assert arguments == before


def test_a_name_the_schema_takes_is_nobodys_slip():
    """An open object, or one with patterns of names."""
    slip = {"file_path": "/x"}

    assert repaired(slip, {**SCHEMA, "additionalProperties": True, "required": ["filePath"]}) is None
    assert repaired(slip, {**SCHEMA, "patternProperties": {"^x": {}}}) is None


def test_an_object_is_closed_whichever_way_its_schema_says_so():
    """``unevaluatedProperties`` is what a schema made of parts has to say."""
    closed = {"type": "object", "properties": KINDS, "unevaluatedProperties": False, "$defs": SCHEMA["$defs"]}

    assert repaired({"file_path": "/x"}, closed)[0] == {"filePath": "/x"}


NAMES = st.sampled_from(["filePath", "file_path", "filepath", "tags", "tag", "max_results", "maxResults", "zzz"])


@given(st.dictionaries(NAMES, st.sampled_from(["5", "x", 5, '["a"]', None]), max_size=4))
def test_whatever_is_repaired_fits_and_no_value_is_lost(arguments):
    """And what fits is never a case for repair."""
    found = repaired(arguments)

    if found is not None:
        assert compile_check(SCHEMA).accepts(found[0])
        assert [*found[0].values()].count(None) <= [*arguments.values()].count(None)
        assert len(found[0]) >= sum(value is not None for value in arguments.values())
        assert found[1]


@pytest.mark.parametrize(
    ("given_", "left"),
    [
        ({"max_results": None}, {}),
        ({"filePath": "a", "options": None, "tags": None}, {"filePath": "a", "tags": None}),
        ({"maxResults": None, "ratio": "0.5"}, {"ratio": 0.5}),
    ],
)
def test_a_null_for_what_may_be_left_out_is_left_out(given_, left):
    """Where null is a value of its own, it stays."""
    assert repaired(given_)[0] == left


@pytest.mark.parametrize("given_", [{"max_results": None}, {"any": None, "max_results": "many"}])
def test_a_null_for_what_must_be_there_or_for_anything_stays(given_):
    """Nobody can tell what was meant."""
    assert repaired(given_, SCHEMA | {"required": ["max_results"]}) is None


def test_among_very_many_names_none_is_taken_for_a_slip():
    """Comparing each with each would take longer than anybody waits."""
    strange = {f"file_pat{n}": 1 for n in range(2_000)}

    assert repaired({**strange, "filePaht": "x"}) is None


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/a"}, {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}])
def test_a_schema_that_refers_to_itself_says_nothing_of_its_types(schema):
    """Nothing is repaired, and nobody looks for ever."""
    rooted = {"properties": {"value": schema}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}

    assert repair(rooted, {"value": "[1]"}, lambda _: True) is None
    assert repair(rooted, {"value": None}, lambda _: True) is None


@pytest.mark.parametrize(("forms", "read"), [(20, [1]), (21, None)])
def test_types_are_looked_for_through_so_many_forms_and_no_more(forms, read):
    schema = {"type": "array"}
    for _ in range(forms):
        schema = {"anyOf": [schema]}

    found = repair({"properties": {"value": schema}}, {"value": "[1]"}, lambda _: True)

    assert (found and found[0]["value"]) == read


@pytest.mark.parametrize(("forms", "is_found"), [(20, True), (21, False)])
def test_words_are_looked_for_through_so_many_forms_and_no_more(forms, is_found):
    schema = {"enum": ["Fast"]}
    for _ in range(forms):
        schema = {"allOf": [schema]}

    found = repair({"properties": {"value": schema}}, {"value": "fast"}, lambda _: True)

    assert (found is not None) is is_found


@pytest.mark.parametrize(
    ("schema", "text", "read"),
    [
        ({"type": "number"}, "1e999", None),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "integer"}, "2.5", None),
        ({"type": "integer"}, "[2]", None),
        ({}, "5", None),
        ({"type": ["string", "integer"]}, "5", None),
        ({"type": ["integer", {}]}, "5", 5),
        ({"anyOf": []}, "5", None),
        ({"anyOf": [{"type": "integer"}, {}]}, "5", None),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
        ({"type": "boolean"}, "true", True),
    ],
)
def test_text_is_read_only_as_what_the_schema_takes_and_says_so(schema, text, read):
    """Whatever would be accepted then: a finite number, an object or an array, where no text is taken."""
    found = repair({"properties": {"value": schema}}, {"value": text}, lambda _: True)

    assert (found and found[0]["value"]) == read


@pytest.mark.parametrize(
    ("required", "is_left_out"), [([], True), (["other"], True), (["value"], False), ("other", False), (None, False)]
)
def test_a_null_is_left_out_only_where_it_is_said_what_must_be_there(required, is_left_out):
    """A schema whose ``required`` is no list says nothing that one could go by."""
    schema = {"properties": {"value": {"type": "integer"}}, "required": required}

    assert (repair(schema, {"value": None}, lambda _: True) is not None) is is_left_out


@pytest.mark.parametrize(
    ("given_", "meant"), [("tagsb", "tagsa"), ("tagsab", "tagsba"), ("tag", "tags"), ("ta", "tags")]
)
def test_the_last_letter_of_a_name_can_be_a_slip_too(given_, meant):
    """Another one, two in each other's place, or one that is missing; not two."""
    assert near_name(given_, {meant: {}}) == ("" if given_ == "ta" else meant)


@pytest.mark.parametrize(("strange", "is_compared"), [(50, True), (51, False)])
def test_so_many_names_are_compared_and_no_more(strange, is_compared):
    """Each strange one with each that is declared, here with a hundred."""
    declared = {"filePath": {}, **{f"{number}": {} for number in range(99)}}
    arguments = {"filePaht": "x", **{f"unlike{number}": 1 for number in range(strange - 1)}}

    found = repair({"properties": declared, "additionalProperties": False}, arguments, lambda _: True)

    assert (found is not None) is is_compared


@pytest.mark.parametrize(("length", "is_near"), [(100, True), (101, False)])
def test_a_name_is_compared_up_to_the_longest_length(length, is_near):
    name = "x" * length

    assert bool(near_name(name, {name.upper(): {}})) is is_near


@pytest.mark.parametrize("given_", ["page11", "pag1", "page2", "pages"])
def test_a_digit_is_never_a_slip(given_):
    """Wherever it is too many, missing or another; a letter in its place is none either."""
    assert near_name(given_, {"page1": {}}) == ""


@pytest.mark.parametrize("given_", ["pagez1", "paegs1"])
def test_a_letter_beside_a_digit_can_be_a_slip(given_):
    """The number is the one that was meant."""
    assert near_name(given_, {"pages1": {}}) == "pages1"


MODE = {"enum": ["Fast", "slow", "SLOW"]}
NESTED = {
    "type": "object",
    "properties": {
        "on": {"type": "boolean"},
        "maybe": {"type": ["boolean", "null"]},
        "both": {"type": ["boolean", "integer"]},
        "said": {"type": ["boolean", "string"]},
        "parts": {"allOf": [{"type": "integer"}, {"minimum": 1}]},
        "name": {"type": "string"},
        "mode": MODE,
        "level": {"anyOf": [{"enum": [1, 2]}, {"type": "null"}]},
        "sort": {"anyOf": [{"type": "string", "enum": ["asc", "desc"]}, {"type": "null"}]},
        "free": {"anyOf": [{"type": "string", "enum": ["asc"]}, {"type": "string"}]},
        "kind": {"const": "File"},
        "inner": {"$ref": "#/$defs/inner"},
        "wrapped": {"allOf": [{"$ref": "#/$defs/inner"}]},
        "list": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/inner"}, {"type": "integer"}]}},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "either": {"oneOf": [{"$ref": "#/$defs/inner"}, {"type": "object"}]},
    },
    "additionalProperties": False,
    "$defs": {
        "inner": {
            "type": "object",
            "properties": {"deep": {"type": "boolean"}, "ids": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    ("given_", "meant", "note"),
    [
        ({"on": "True"}, {"on": True}, "read 'on' as true"),
        ({"on": " FALSE "}, {"on": False}, "read 'on' as false"),
        ({"on": 1}, {"on": True}, "read 'on' as true"),
        ({"on": 0}, {"on": False}, "read 'on' as false"),
        ({"on": "0"}, {"on": False}, "read 'on' as false"),
        ({"maybe": "true"}, {"maybe": True}, "read the text of 'maybe' as JSON"),
        ({"both": "1"}, {"both": 1}, "read the text of 'both' as JSON"),
        ({"name": 12}, {"name": "12"}, "read the number of 'name' as text"),
        ({"name": 1.5}, {"name": "1.5"}, "read the number of 'name' as text"),
        ({"mode": "fast"}, {"mode": "Fast"}, "read 'fast' of 'mode' as 'Fast'"),
        ({"level": "2"}, {"level": 2}, "read the text of 'level' as JSON"),
        ({"sort": "ASC"}, {"sort": "asc"}, "read 'ASC' of 'sort' as 'asc'"),
        ({"kind": "file"}, {"kind": "File"}, "read 'file' of 'kind' as 'File'"),
        ({"inner": {"Deep": True}}, {"inner": {"deep": True}}, "read 'inner.Deep' as 'inner.deep'"),
        ({"inner": {"deep": None}}, {"inner": {}}, "left out 'inner.deep', which is never null"),
        ({"wrapped": {"ids": [7]}}, {"wrapped": {"ids": ["7"]}}, "read the number of 'wrapped.ids[0]' as text"),
        ({"list": [3, {"deep": "false"}]}, {"list": [3, {"deep": False}]}, "read the text of 'list[1].deep' as JSON"),
        ({"list": ["3"]}, {"list": [3]}, "read the text of 'list[0]' as JSON"),
        ({"map": {"x": 1}}, {"map": {"x": True}}, "read 'map.x' as true"),
    ],
)
def test_values_are_put_right_wherever_they_stand(given_, meant, note):
    """Whatever a strict schema takes them for, one thing was meant."""
    assert repaired(given_, NESTED) == (meant, (note,))


@pytest.mark.parametrize(
    "arguments",
    [
        {"on": 2},
        {"on": "yes"},
        {"on": 1.0},
        {"both": "maybe"},
        {"both": "True"},
        {"said": 1},
        {"parts": "5"},
        {"name": True},
        {"mode": "sLOW"},
        {"mode": "medium"},
        {"level": 3},
        {"inner": {"depths": True}},
        {"either": {"deep": "true"}, "on": "perhaps"},
        {"list": [{"deep": 1}, {"deep": 5}]},
    ],
)
def test_a_value_that_could_mean_two_things_or_none_is_left_to_the_model(arguments):
    assert repaired(arguments, NESTED) is None


def test_what_fits_is_the_very_same_object_afterwards():
    """Only what was wrong is another one."""
    arguments = {"inner": {"ids": ["a"]}, "list": [{"deep": True}], "on": "true"}

    found, _ = repaired(arguments, NESTED)

    assert found["inner"] is arguments["inner"]
    assert found["list"] is arguments["list"]


def test_very_many_slips_are_no_slips():
    """Up to a number they are put right and told."""
    assert repaired({"map": {str(n): 1 for n in range(50)}}, NESTED) is not None
    assert repaired({"map": {str(n): 1 for n in range(51)}}, NESTED) is None


def test_nothing_is_looked_for_among_more_values_than_anybody_writes():
    """A text that is JSON in JSON may hold as many as it likes."""
    schema = {"properties": {"list": {"type": "array", "items": {"type": "integer"}}}}

    assert repaired({"list": [*range(19_000), "1"]}, schema) is not None
    assert repaired({"list": [*range(20_000), "1"]}, schema) is None


def test_a_form_that_leads_back_to_itself_is_none():
    root = {"$defs": {"loop": {"anyOf": [{"type": "array", "anyOf": [{"$ref": "#/$defs/loop"}]}]}}}

    assert _form_of({"$ref": "#/$defs/loop"}, "array", root) is None


def with_words(*words):
    return {"type": "object", "properties": {"n": {"type": "integer"}, "color": {"enum": list(words)}}}


def test_a_word_is_found_among_values_that_are_none():
    assert repaired({"color": "RED"}, with_words(1, None, "red"))[0] == {"color": "red"}


def test_of_two_words_that_differ_in_case_only_neither_is_chosen():
    """And nothing else takes their place."""
    assert repaired({"n": "1", "color": "RED"}, with_words("Red", "red", None)) is None


@pytest.mark.parametrize(("levels", "is_repaired"), [(19, True), (20, False)])
def test_lists_in_lists_are_put_right_down_to_some_depth(levels, is_repaired):
    """What lies deeper is left to the model."""
    nested = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/nested"}}]}
    schema = {"type": "object", "properties": {"given": {"$ref": "#/$defs/nested"}}, "$defs": {"nested": nested}}
    given, meant = "5", 5
    for _ in range(levels):
        given, meant = [given], [meant]

    found = repaired({"given": given}, schema)

    assert (found is not None and found[0] == {"given": meant}) is is_repaired
