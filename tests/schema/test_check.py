"""Checking values: right ones pass, wrong ones are explained so that a model can correct itself."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.schema.check import SchemaProblem, compile_check, describe, fits_template, literals_of, may_fit

SEARCH = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "mode": {"enum": ["fast", "slow"]},
        "after": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "options": {
            "type": "object",
            "properties": {"recursive": {"type": "boolean"}},
            "additionalProperties": False,
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}

WRONG = {
    "a missing field": ({}, "missing required field 'path' (string)"),
    "a misspelt field": (
        {"path": "a", "limt": 3},
        "unknown field 'limt'; did you mean 'limit'?",
    ),
    "a field nothing like any other": (
        {"path": "a", "zzz": 3},
        "unknown field 'zzz'; allowed: path, limit, mode, after, options",
    ),
    "a wrong type": ({"path": "a", "limit": "ten"}, 'limit: expected integer, got "ten"'),
    "a number out of range": ({"path": "a", "limit": 0}, "limit: expected at least 1, got 0"),
    "a value off the list": ({"path": "a", "mode": "medium"}, 'mode: expected one of "fast", "slow", got "medium"'),
    "a union": ({"path": "a", "after": 5}, "after: expected string or null, got 5"),
    "a nested field": (
        {"path": "a", "options": {"recursiv": True}},
        "options: unknown field 'recursiv'; did you mean 'recursive'?",
    ),
    "an object for a text": ({"path": {"a": 1}}, "path: expected string, got an object with 1 fields"),
    "a text too short": ({"path": ""}, 'path: expected at least 1 characters, got ""'),
    "no object at all": ([], "expected object, got an empty array"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_explained(case):
    """The message names the field, what was expected, what was given, and what is required."""
    value, explanation = WRONG[case]
    check = compile_check(SEARCH)

    assert not check.accepts(value)
    assert describe(check.problems(value), SEARCH) == f"{explanation}\nRequired fields: path."


def test_a_right_value_has_no_problems():
    """Nothing is said about a value that fits."""
    check = compile_check(SEARCH)

    assert check.accepts({"path": "a", "limit": 10})
    assert check.problems({"path": "a", "limit": 10}) == []
    assert check.unchecked_reason == ""


def test_a_misspelt_required_field_is_recognised():
    """Where other fields are allowed, the name that was sent is offered as the likely slip."""
    schema = {"properties": {"path": {}}, "required": ["path"]}

    problems = compile_check(schema).problems({"pth": "a"})

    assert problems == [
        SchemaProblem((), "missing required field 'path'; you sent 'pth', did you mean 'path'?", "", "required")
    ]


def test_the_closest_of_several_forms_is_explained():
    """Of alternatives, the one whose fixed fields match tells what is wrong; the others would only confuse."""
    schema = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": kind}, "size": {"type": size}},
                "required": ["kind", "size"],
            }
            for kind, size in (("box", "integer"), ("bag", "string"))
        ]
    }

    problems = compile_check(schema).problems({"kind": "bag", "size": 3})

    assert problems == [SchemaProblem(("size",), "expected string, got 3", "string", "type")]


def test_a_form_of_another_type_is_not_the_closest():
    """An object is compared with the object among the forms, even if the others would complain less."""
    forms = [{"type": "string"}, {"type": "object", "required": ["a", "b"]}, {"type": "null"}]

    problems = compile_check({"anyOf": forms}).problems({})

    assert [problem.message for problem in problems] == ["missing required field 'a'", "missing required field 'b'"]


def test_a_value_fitting_several_exclusive_forms_is_told_so():
    """``oneOf`` with two hits is explained as such."""
    problems = compile_check({"oneOf": [{}, {}]}).problems(1)

    assert [problem.message for problem in problems] == [
        "expected a value that fits exactly one of the allowed forms, got 1"
    ]


def test_items_and_definitions_are_located():
    """The path leads through arrays and references to the very item."""
    schema = {
        "items": {"$ref": "#/$defs/p"},
        "$defs": {"p": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    }

    text = describe(compile_check(schema).problems([{"x": 1}, {"x": "2"}, {}]), schema)

    assert text == "[1].x: expected integer, got \"2\"\n[2]: missing required field 'x' (integer)"


def test_only_the_first_five_problems_are_described():
    """A message stays short however much is wrong."""
    check = compile_check({"items": {"type": "string"}})

    assert describe(check.problems([1] * 12), True).splitlines()[-2:] == ["[2]: expected string, got 1", "and 7 more"]


def test_long_values_and_names_are_cut():
    """What was given is shown, but never at length."""
    check = compile_check({"properties": {"a": {"type": "integer"}}, "additionalProperties": False})

    text = describe(check.problems({"a": "x" * 10_000, "y" * 10_000: 1}), check.schema)

    assert len(text) < 500


def test_many_allowed_values_are_cut():
    """A long list of allowed values shows its beginning and how many there are."""
    text = describe(compile_check({"enum": [*range(500)]}).problems("x"), True)

    assert text.endswith('18, 19 and 480 more, got "x"')


@pytest.mark.parametrize("value", ["\ud800", {1: 2}, {"a": {1}}, {"a": object()}, {"\udfff": 1}])
def test_what_is_no_json_is_a_problem_not_an_exception(value):
    """Half characters, keys that are not text and Python objects are refused in words."""
    check = compile_check({"type": "object", "additionalProperties": {"type": "integer"}})

    assert not check.accepts(value)
    assert len(check.problems(value)) == 1


def test_a_value_nested_without_end_gets_an_answer():
    """Very deep values neither overflow the stack nor stay unanswered."""
    check = compile_check({"type": "array", "items": {"$ref": "#"}})
    value = 1
    for _ in range(5_000):
        value = [value]

    assert check.accepts(value) is (check.problems(value) == [])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            {"type": "objekt"},
            'not a valid schema: type is "objekt", which is no type: those are array, boolean, integer, null, number,'
            " object, string, or a list of them; did you mean 'object'?",
        ),
        ({"properties": {"a": {"type": 5}}}, "not a valid schema: properties.a.type is 5, which is no type: those are"),
        ({"required": "a"}, 'not a valid schema: required must be array, not "a"'),
        ({"pattern": "("}, "not a valid schema"),
        ({"pattern": "a{1000}{1000}"}, "not a valid schema"),
        ({"$ref": "#"}, "cannot be checked safely"),
        ({"not": {"pattern": "(?=a)"}}, "cannot be checked safely"),
        ({"default": "\ud800"}, "cannot be checked safely"),
    ],
)
def test_a_schema_that_cannot_be_checked_accepts_everything_and_says_so(schema, reason):
    """The tool stays usable; that its values are not checked is not hidden."""
    check = compile_check(schema)

    assert reason in check.unchecked_reason
    assert check.accepts(object())
    assert check.problems(object()) == []


def test_a_pattern_that_looks_around_is_left_out_alone():
    """All else about the value is still checked, and what is not is said."""
    check = compile_check({"type": "string", "minLength": 2, "pattern": "^(?=a)b"})

    assert check.accepts("xyz")
    assert not check.accepts("x")
    assert (check.unchecked_reason, check.unchecked_patterns) == ("", ["^(?=a)b"])
    assert check.gap == "are checked without the patterns that look around or refer back: '^(?=a)b'"


DECISIVE = {
    "under not": {"not": {"pattern": "(?=a)"}},
    "under if": {"if": {"pattern": "(?=a)"}, "then": False},
    "under oneOf": {"oneOf": [{"pattern": "(?=a)"}, {"minLength": 1}]},
    "under contains": {"contains": {"pattern": "(?=a)"}, "maxContains": 1},
    "far below not": {"not": {"properties": {"a": {"items": {"pattern": "(?=a)"}}}}},
    "referred to under not": {"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"pattern": "(?=a)"}}},
    "of names beside a rest": {"patternProperties": {"(?=a)": {}}, "additionalProperties": False},
    "of names below a rest": {"allOf": [{"patternProperties": {"(?=a)": {}}}], "unevaluatedProperties": False},
}


@pytest.mark.parametrize("case", DECISIVE)
def test_a_pattern_whose_absence_could_refuse_more_leaves_all_unchecked(case):
    """A value that fits the schema as it is written is never refused."""
    assert "looks around" in compile_check(DECISIVE[case]).unchecked_reason


RELAXED = {
    "in a field": ({"properties": {"a": {"pattern": r"(a)\1"}, "b": {"type": "null"}}}, {"a": "x"}, {"b": 1}),
    "in then": ({"if": {"type": "string"}, "then": {"pattern": "(?=a)"}, "else": {"type": "null"}}, "x", 1),
    "in an alternative": ({"anyOf": [{"type": "string", "pattern": "(?!a)"}, {"const": 1}]}, "x", 2),
    "of names": ({"patternProperties": {"(?<!a)b": {"type": "null"}, "^c": {"type": "null"}}}, {"b": 1}, {"c": 1}),
    "beside a not": ({"not": {"const": 1}, "pattern": "(?=a)"}, "x", 1),
}


@pytest.mark.parametrize("case", RELAXED)
def test_leaving_a_pattern_out_accepts_more_and_checks_the_rest(case):
    """Wherever it stands, only what the pattern would have refused is let through."""
    schema, accepted, refused = RELAXED[case]
    check = compile_check(schema)

    assert check.unchecked_patterns
    assert check.accepts(accepted)
    assert not check.accepts(refused)


KNOWN = {
    "http://e/number.json": {"type": "integer"},
    "http://e/tree.json": {
        "$id": "http://e/tree.json",
        "$dynamicAnchor": "node",
        "properties": {"left": {"$dynamicRef": "#node"}, "size": {"$ref": "number.json"}},
    },
    "http://e/odd.json": {"not": {"$ref": "http://e/odd.json"}},
    "http://e/dialect": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "http://e/dialect",
        "$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/core": True},
        "$dynamicAnchor": "meta",
        "$ref": "https://json-schema.org/draft/2020-12/meta/core",
    },
}


@pytest.mark.parametrize(
    ("schema", "accepted", "refused"),
    [
        ({"$ref": "http://e/number.json"}, 1, "x"),
        ({"$id": "http://e/mine", "items": {"$ref": "tree.json"}}, [{"left": {"size": 1}}], [{"left": {"size": "x"}}]),
        ({"$ref": "http://e/tree.json", "$dynamicAnchor": "node", "maxProperties": 1}, {"left": {}}, {"a": 1, "b": 2}),
        ({"items": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}, [{"type": "null"}], [{"type": "nil"}]),
    ],
)
def test_references_lead_to_known_documents(schema, accepted, refused):
    """Documents given along, those they refer to in turn, and the metaschemas of the drafts."""
    check = compile_check(schema, KNOWN)

    assert check.gap == ""
    assert check.accepts(accepted)
    assert not check.accepts(refused)


def test_a_known_dialect_decides_which_keywords_count():
    """A metaschema of one's own without the validation keywords makes them mere remarks."""
    check = compile_check({"$schema": "http://e/dialect", "minimum": 10}, KNOWN)

    assert check.gap == ""
    assert check.accepts(1)


def test_known_documents_are_weighed_as_well():
    """A document given along is no way around the guard."""
    assert "circle" in compile_check({"$ref": "http://e/odd.json"}, KNOWN).unchecked_reason


@pytest.mark.parametrize(("formats", "accepted"), [(None, True), (True, False)])
def test_formats_are_remarks_unless_asked_for(formats, accepted):
    """In 2020-12 ``format`` says what is meant; whoever wants it checked says so."""
    assert compile_check({"format": "ipv4"}, formats=formats).accepts("x") is accepted


@pytest.fixture
def canary():
    """A listener on this machine that nobody may come to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.mark.parametrize("keyword", ["$ref", "$schema", "$dynamicRef", "$id"])
def test_nothing_is_ever_fetched(canary, keyword):
    """Whatever a schema names, compiling and checking opens no connection."""
    url = f"http://127.0.0.1:{canary.getsockname()[1]}/schema.json"

    for schema in ({keyword: url}, {"properties": {"a": {keyword: url}}}, {"$id": url, "items": {"$ref": "next.json"}}):
        compile_check(schema).problems({"a": 1})
        compile_check({"$ref": "http://e/known"}, {"http://e/known": schema}).problems({"a": 1})

    with pytest.raises(BlockingIOError):
        canary.accept()


def test_a_backtracking_bomb_is_matched_in_linear_time():
    """The classic ReDoS pattern is answered, since the engine never backtracks."""
    check = compile_check({"pattern": "^(a+)+$"})

    assert not check.accepts("a" * 50_000 + "!")


def recursive_value(levels):
    value = 2
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [3, 40, 120])
def test_explaining_a_failure_does_not_multiply_with_depth(levels):
    """Alternatives that recurse on the same field would make 2^depth errors; deep values get a plain answer."""
    back = {"properties": {"a": {"$ref": "#"}}}
    check = compile_check({"anyOf": [{**back, "const": 3}, {**back, "const": 4}]})

    assert not check.accepts(recursive_value(levels))
    assert len(check.problems(recursive_value(levels))) >= 1


@pytest.mark.parametrize("value", [[1] * 300_000, ["x" * 5_000_000] * 3, [{"a": 1}] * 100_000])
def test_explaining_a_large_failure_stays_within_bounds(value):
    """A large wrong value is answered with its first problem, or none in particular."""
    check = compile_check({"items": {"anyOf": [{"type": "null"}, {"const": "a"}, {"const": "b"}]}})

    assert 1 <= len(check.problems(value)) <= 50


def test_the_draft_is_the_one_the_schema_names():
    """``items`` as a list means positions in draft 7."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}

    assert compile_check(schema).accepts(["a", 1])
    assert not compile_check(schema).accepts([1])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(
    JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(["path", "limit", "mode", "after", "options", "x"], JSON))
)
def test_problems_are_found_exactly_when_a_value_is_not_accepted(value):
    """The quick answer and the telling one never differ, and the telling one is always the same."""
    check = compile_check(SEARCH)
    problems = check.problems(value)

    assert check.accepts(value) is (problems == [])
    assert describe(problems, SEARCH) == describe(check.problems(value), SEARCH)


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("memo://notes/{id}", "memo://notes/7", True),
        ("memo://notes/{id}", "memo://notes/7/8", False),
        ("memo://notes/{id}", "memo://notes/", False),
        ("memo://notes/{id}", "memoX//notes/7", False),
        ("memo://{+path}", "memo://a/b/c", True),
        ("memo://{path*}/end", "memo://a/b/end", True),
        ("memo://find{?q,page}", "memo://find", True),
        ("memo://find{?q,page}", "memo://find?q=1&page=2", True),
        ("memo://é.(x)/{id}", "memo://é.(x)/9", True),
        ("memo://plain", "memo://plain", True),
        ("memo://plain", "memo://plain2", False),
        ("memo://" + "{a}" * 33, "memo://" + "a" * 40, False),
        ("{+a}" * 32 + "!", "a" * 4000, False),
        ("memo://{id}", "memo://" + "a" * 5000, False),
    ],
)
def test_a_uri_fits_the_template_it_could_have_been_expanded_from(template, uri, fits):
    """In linear time, whatever the template: those with too many expressions stand for nothing."""
    assert fits_template(template, uri) is fits


@pytest.mark.parametrize(
    ("template", "uri", "may"),
    [
        ("memo://{a}/x{b}", "memo://1/x2", True),
        ("memo://{a}/x{b}", "memo://x/1", False),
        ("memo://{a}/x{b}", "note://1/x2", False),
        ("memo://{a}.md", "memo://1.md2", False),
        ("memo://{a}", "memo://" + "a" * 5000, False),
        ("memo://" + "{a}" * 33, "memo://aaa", False),
        ("memo://" + "a" * 5000 + "{b}", "memo://" + "a" * 4000, False),
        ("", "", True),
    ],
)
def test_a_uri_that_lacks_a_literal_of_a_template_is_none_of_it(template, uri, may):
    """They stand in it in their order, the first and the last at its ends."""
    assert may_fit(literals_of(template), uri) is may
