"""Forms of schemas: what a browser sends back is what was meant, and what cannot be meant is said by field."""

import json
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Environment, PackageLoader
from tests.server.web.stand_ins import EVERYTHING, HOSTILE

from toolcrib.server.web.schema_form import (
    first_values,
    make_form,
    read_form,
    read_object,
    refill,
    with_problems,
    with_row,
    with_suggestions,
)
from toolcrib.server.web.schema_parts import parameter_rows

JINJA = Environment(
    loader=PackageLoader("toolcrib.server.web", "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
FORM = JINJA.from_string('{% import "form.html" as form %}{{ form.all(fields) }}')


class Browser(HTMLParser):
    """What a browser would send of a form nobody has touched."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[str, str] = {}
        self._area = self._select = ""
        self._text = ""

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "input" and (found["type"] != "checkbox" or "checked" in found):
            self.sent[found["name"]] = found["value"].replace("\n", "").replace("\r", "")
        elif tag == "textarea":
            self._area, self._text = found["name"], ""
        elif tag == "select":
            self._select = found["name"]
        elif tag == "option" and (self._select not in self.sent or "selected" in found):
            self.sent[self._select] = found["value"]

    def handle_data(self, data):
        self._text += data if self._area else ""

    def handle_endtag(self, tag):
        if tag == "textarea":
            text = self._text.removeprefix("\n").replace("\r\n", "\n").replace("\r", "\n")
            self.sent[self._area] = text.replace("\n", "\r\n")
            self._area = ""


def send(schema, values) -> dict[str, str]:
    browser = Browser()
    browser.feed(FORM.render(fields=make_form(schema, values)))
    return browser.sent


def read(schema, sent):
    return read_form(refill(make_form(schema, {}), sent))


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=8)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["", " ", "\n", "a\nb", "\r\n", HOSTILE])
WHOLE = st.integers(-(10**20), 10**20)
NUMBERS = WHOLE | st.floats(allow_nan=False, allow_infinity=False)
ANYTHING = st.recursive(
    st.none() | st.booleans() | WHOLE | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def choices(draw):
    found = draw(
        st.lists(st.none() | st.booleans() | st.integers(0, 3) | TEXTS, min_size=1, max_size=5, unique_by=repr)
    )
    return {"enum": found}, st.sampled_from(found)


@st.composite
def objects(draw, inner):
    parts = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=4))
    required = draw(st.lists(st.sampled_from(sorted(parts)), unique=True))
    optional = {name: values for name, (_, values) in parts.items() if name not in required}
    needed = {name: values for name, (_, values) in parts.items() if name in required}
    schema = {"type": "object", "properties": {name: part for name, (part, _) in parts.items()}, "required": required}
    return schema, st.fixed_dictionaries(needed, optional=optional)


SCALARS = st.sampled_from(
    [
        ({"type": "string"}, TEXTS),
        ({"type": "integer"}, WHOLE),
        ({"type": "number"}, NUMBERS),
        ({"type": "boolean"}, st.booleans()),
    ]
)
NULLABLE = SCALARS.map(lambda found: ({"anyOf": [found[0], {"type": "null"}]}, found[1] | st.none()))
LISTS = (SCALARS | choices()).map(lambda found: ({"type": "array", "items": found[0]}, st.lists(found[1], max_size=4)))


def with_lists(inner):
    """Objects, and lists of them."""
    found = objects(inner)
    return found | found.map(lambda one: ({"type": "array", "items": one[0]}, st.lists(one[1], max_size=3)))


PARTS = st.recursive(SCALARS | NULLABLE | choices() | LISTS | st.just(({}, ANYTHING)), with_lists, max_leaves=6)


@settings(deadline=None)
@given(objects(PARTS), st.data())
def test_arguments_survive_the_way_through_a_form(found, data):
    """Whatever fits a schema can be put into its form, and comes back from a browser as it was."""
    schema, values = found
    arguments = data.draw(values)

    again, problems = read(schema, send(schema, arguments))

    assert problems == {}
    assert json.dumps(again, sort_keys=True) == json.dumps(arguments, sort_keys=True)


@settings(deadline=None)
@given(objects(PARTS), st.dictionaries(NAMES.map("a/{}".format) | NAMES.map("j/{}".format), TEXTS, max_size=6))
def test_whatever_is_sent_is_read_or_refused_by_field(found, sent):
    """No field brings the page down, and what is wrong is never passed on."""
    schema, _ = found

    form = refill(make_form(schema, {}), sent)
    arguments, problems = read_form(form)

    assert isinstance(arguments, dict)
    assert all(isinstance(words, str) and words for words in problems.values())
    FORM.render(fields=with_problems(form, problems))


def test_each_field_says_what_is_wrong_with_it():
    """By its path, in words a person can act on; the others are read all the same."""
    sent = {
        "a/title": "Tea",
        "a/count": "many",
        "a/weight": "1e999",
        "a/urgent": "perhaps",
        "j/extra": "{oops",
        "a/place/floor": "1.5",
        "a/place/city": "Ulm",
    }

    arguments, problems = read(EVERYTHING, sent)

    assert arguments == {"title": "Tea", "place": {"city": "Ulm"}}
    assert problems[("count",)] == "'many' is not a whole number."
    assert problems[("weight",)] == "This number is too large."
    assert problems[("urgent",)] == "Choose true or false."
    assert problems[("place", "floor")] == "'1.5' is not a whole number."
    assert problems[("extra",)].startswith("This is not JSON")


def test_what_was_sent_wrong_is_shown_again():
    """Nobody has to type it twice."""
    sent = {"a/title": "Tea", "a/count": "many", "a/days/1": "on", "a/labels": "one\r\ntwo"}

    form = {field.path: field for field in refill(make_form(EVERYTHING, {}), sent)}

    assert form[("count",)].text == "many"
    assert form[("labels",)].text == "one\ntwo"
    assert [option.is_chosen for option in form[("days",)].options] == [False, True, False]


def test_an_object_nobody_filled_in_is_left_out():
    """Its required fields only count once something stands in it."""
    assert read(EVERYTHING, {"a/title": "Tea"}) == ({"title": "Tea"}, {})


def test_defaults_stand_in_the_form_at_first():
    """As the schema has them."""
    assert first_values(EVERYTHING) == {"priority": "normal", "count": 3}


def test_names_cannot_break_out_of_the_form():
    """A parameter may be called anything."""
    schema = {"type": "object", "properties": {HOSTILE: {"type": "string", "description": HOSTILE, "enum": [HOSTILE]}}}

    page = FORM.render(fields=make_form(schema, {}))

    assert "<script>" not in page
    assert "<img" not in page


def test_the_json_editor_takes_objects_only():
    """And says what it wants."""
    assert read_object('{"a": 1}') == ({"a": 1}, "")
    assert read_object("") == ({}, "")
    assert read_object("[1]")[1].startswith("Write a JSON object")
    assert read_object("{")[1].startswith("This is not JSON")
    assert read_object('{"a": NaN}')[1].startswith("This is not JSON")
    assert read_object("[" * 100_000)[1]


def test_parameters_are_told_with_their_limits_and_what_is_inside_them():
    """What must be given comes first, what belongs to an object stands below it."""
    rows = [
        (row.name, row.depth, row.type, row.limits, row.required, row.default) for row in parameter_rows(EVERYTHING)
    ]

    assert rows[0] == ("title", 0, "string", "at least 2 characters, at most 80 characters", True, "")
    assert ("count", 0, "integer", "at least 1, at most 10", False, "3") in rows
    assert ("city", 1, "string", "", True, "") in rows
    assert ("weight", 0, "number or null", "", False, "") in rows


def test_a_schema_that_refers_to_itself_ends():
    """At some depth JSON has to do."""
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "name": {"type": "string"}}}
    schema = {"$defs": {"tree": tree}, "$ref": "#/$defs/tree"}

    arguments, problems = read(schema, send(schema, {"left": {"left": {"left": {"left": {"left": {"name": "x"}}}}}}))

    assert problems == {}
    assert arguments == {"left": {"left": {"left": {"left": {"left": {"name": "x"}}}}}}
    assert len(parameter_rows(schema)) < 20


def test_a_schema_that_multiplies_is_asked_for_as_json():
    """Sixty fields, each with sixty inside, four times over, would be a page nobody can load."""
    part = {"type": "string"}
    for _ in range(4):
        part = {"type": "object", "properties": {f"p{number}": part for number in range(60)}}

    [field] = make_form(part, {"p1": {"p2": {}}})

    assert field.kind == "json"
    assert read(part, {"j": '{"p1": {}}'}) == ({"p1": {}}, {})


WORDS = st.sampled_from(
    ["type", "properties", "required", "enum", "const", "items", "default", "description", "title", "anyOf", "$ref"]
) | st.sampled_from(
    ["examples", "minimum", "maxLength", "pattern", "string", "object", "array", "null", "#/properties/a", "a"]
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(WORDS, ODD, max_size=6))
def test_no_schema_is_too_odd_for_a_page(schema):
    """Servers send what they like; a form and a table come of it all the same."""
    form = make_form(schema, first_values(schema))

    FORM.render(fields=form)
    parameter_rows(schema)
    read(schema, send(schema, {}))


ORDER = {
    "type": "object",
    "properties": {
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "article": {"type": "string"},
                    "kind": {"enum": ["a", "b"]},
                    "number": {"type": "integer"},
                },
                "required": ["article"],
            },
        }
    },
    "required": ["lines"],
}


def test_a_list_of_objects_is_filled_in_row_by_row():
    """A row is added by its button; an empty one is left out, and those behind it move up."""
    form = with_row(with_row(make_form(ORDER, {"lines": [{"article": "tea", "kind": "b"}]}), "a/lines"), "a/lines")
    browser = Browser()
    browser.feed(FORM.render(fields=form))
    sent = browser.sent | {"a/lines/2/article": "cup", "a/lines/2/number": "3"}

    arguments, problems = read(ORDER, sent)

    assert problems == {}
    assert arguments == {"lines": [{"article": "tea", "kind": "b"}, {"article": "cup", "number": 3}]}
    assert [row.label for row in refill(make_form(ORDER, {}), sent)[0].fields] == ["lines 1", "lines 2"]


def test_what_is_wrong_in_a_row_is_said_there():
    sent = {"a/lines/0/article": "tea", "a/lines/0/number": "three"}
    form = refill(make_form(ORDER, {}), sent)

    _, problems = read_form(form)

    assert problems == {("lines", "0", "number"): "'three' is not a whole number."}
    assert "three" in FORM.render(fields=with_problems(form, problems))


def test_a_text_field_offers_what_the_author_suggests():
    """By the browser's own list, beside which anything else may still be written."""
    schema = {"type": "object", "properties": {"place": {"type": "string"}}}

    shown = FORM.render(fields=make_form(with_suggestions(schema, {"place": ["Berlin", "<b>"], "none": ["x"]}), {}))

    assert 'list="l:' in shown
    assert '<option value="Berlin"></option><option value="&lt;b&gt;"></option></datalist>' in shown
    assert "datalist" not in FORM.render(fields=make_form(schema, {}))
