"""Python types as JSON: what an annotation accepts, and what a value becomes."""

import dataclasses
import datetime
import enum
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.schema.check import compile_check
from toolcrib.schema.from_signature import json_type, to_json


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: Annotated[int, "Upwards."] = 3
    inner: Optional["Point"] = None


class Size(msgspec.Struct):
    width: Annotated[int, msgspec.Meta(ge=1, description="Across.")]


class Row(TypedDict):
    id: int
    where: NotRequired[Annotated[Point, "Its place."]]


class Model:
    """What a pydantic model looks like from outside."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Model) and self.number == other.number

    __hash__ = None

    @classmethod
    def model_json_schema(cls):
        return {
            "type": "object",
            "properties": {"number": {"$ref": "#/$defs/Number"}},
            "required": ["number"],
            "$defs": {"Number": {"type": "integer"}},
        }

    @classmethod
    def model_validate(cls, value):
        if not isinstance(value.get("number"), int):
            raise ValueError("number has to be an integer")  # noqa: TRY004 - as pydantic does
        return cls(value["number"])

    def model_dump(self, mode):
        return {"number": self.number}


NOON = datetime.datetime(2026, 11, 3, 12, tzinfo=datetime.UTC)
ID = uuid.UUID(int=7)

CASES = [
    (int, 3, 3),
    (int, 3.0, 3),
    (float, 3, 3.0),
    (str, "a", "a"),
    (bool, True, True),
    (Any, {"a": [1.0]}, {"a": [1.0]}),
    (dict, {"a": 1}, {"a": 1}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (Mapping[str, int], {"a": 1}, {"a": 1}),
    (Sequence[int], [1, 2], [1, 2]),
    (list[int], [1.0, 2], [1, 2]),
    (set[str], ["a", "b"], {"a", "b"}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (Colour, "red", Colour.RED),
    (Literal["a", "b"], "b", "b"),
    (datetime.datetime, "2026-11-03T12:00:00Z", NOON),
    (datetime.date, "2026-11-03", NOON.date()),
    (uuid.UUID, str(ID), ID),
    (Decimal, "1.50", Decimal("1.50")),
    (Path, "a/b", Path("a/b")),
    (list[Path], ["a"], [Path("a")]),
    (Path | None, None, None),
    (Path | str, "a", Path("a")),
    (str | Path, "a", "a"),
    (int | str | None, "a", "a"),
    (datetime.datetime | str, "soon", "soon"),
    (Point, {"x": 1, "inner": {"x": 2, "y": 4}}, Point(1, 3, Point(2, 4))),
    (Point | Size, {"width": 2}, Size(2)),
    (list[Point], [{"x": 1}], [Point(1)]),
    (Row, {"id": 1, "where": {"x": 2}}, {"id": 1, "where": Point(2)}),
    (Model, {"number": 1}, Model(1)),
    (Model | None, {"number": 1}, Model(1)),
    (list[Model], [{"number": 1}], [Model(1)]),
    (Annotated[int, "A number.", msgspec.Meta(ge=3)], 3, 3),
]


def full_schema(annotation):
    found = json_type(annotation)
    return {**found.schema, "$defs": found.definitions}


def name_of(case: object) -> str:
    return str(sorted(case) if isinstance(case, set) else case)[:40]


@pytest.mark.parametrize(("annotation", "value", "converted"), CASES, ids=name_of)
def test_a_json_value_becomes_what_the_annotation_says(annotation, value, converted):
    """The schema accepts the value, and conversion gives the Python type."""
    check = compile_check(full_schema(annotation))

    assert check.unchecked_reason == ""
    assert check.accepts(value)
    assert json_type(annotation).convert(value) == converted
    assert type(json_type(annotation).convert(value)) is type(converted)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "3"),
        (int, 3.5),
        (Colour, "green"),
        (Path, 3),
        (Point, {"y": 1}),
        (Point | Size, {}),
        (Model, {"number": "x"}),
        (Annotated[int, msgspec.Meta(ge=3)], 2),
        (tuple[int, str], [1]),
    ],
)
def test_a_wrong_value_is_not_converted(annotation, value):
    """Conversion is as strict as the schema."""
    with pytest.raises(msgspec.ValidationError):
        json_type(annotation).convert(value)


def test_descriptions_reach_the_schema():
    """Plain texts in ``Annotated`` describe parameters and fields, as ``Meta`` does."""
    schema = full_schema(Annotated[list[Row], "Rows.", msgspec.Meta(max_length=3)])

    assert schema["description"] == "Rows."
    assert schema["maxItems"] == 3
    assert schema["$defs"]["Row"]["properties"]["where"]["description"] == "Its place."
    assert schema["$defs"]["Point"]["properties"]["y"]["description"] == "Upwards."
    assert full_schema(Size)["$defs"]["Size"]["properties"]["width"]["description"] == "Across."


def test_moments_have_a_format():
    """A model is told how to write a date and time."""
    assert json_type(datetime.datetime).schema == {"type": "string", "format": "date-time"}


@pytest.mark.parametrize("annotation", [object, Callable[[], int], re.Pattern, list[complex], int | re.Pattern])
def test_a_type_without_a_json_form_is_refused(annotation):
    """Nothing is guessed for types that JSON cannot express."""
    with pytest.raises(TypeError):
        json_type(annotation)


@given(
    st.builds(Point, st.integers(-(2**53), 2**53), st.integers(-9, 9), st.none() | st.builds(Point, st.integers(0, 9)))
)
def test_values_survive_the_way_to_json_and_back(point):
    """What was written as JSON converts to what it was."""
    assert json_type(Point).convert(to_json(point)) == point


@pytest.mark.parametrize("value", [Path("a/b"), Colour.RED, NOON, ID, (1, "a"), Model(3), None])
def test_defaults_have_a_json_form(value):
    """Custom types are written the way they are read."""
    assert compile_check(True).accepts(to_json(value))


def test_a_value_without_a_json_form_is_refused():
    """A sentinel cannot be shown as a default."""
    with pytest.raises(TypeError):
        to_json(object())
