"""Schemas from functions: what is written in the signature is what a model sees, and what the function gets."""

import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import DefinitionError, InvalidArguments
from toolcrib.core.requests import Request
from toolcrib.schema.arguments import apply_defaults
from toolcrib.schema.check import compile_check
from toolcrib.schema.from_signature import signature_schema


@dataclass
class Found:
    path: Path
    inner: "Found | None" = None


ABSENT = object()


class Row(TypedDict):
    id: int


def search(
    query: Annotated[str, "What to look for."],
    limit: int = 10,
    root: Path = Path("."),
    tags: set[str] | None = None,
) -> Found:
    """Look for things
    in files.

    Args:
        query: Not used, the annotation says it.
        limit: How many.
    """


def test_a_function_becomes_a_schema():
    """Types, defaults, descriptions, what is required; nothing else is allowed."""
    read = signature_schema(search)

    assert read.description == "Look for things in files."
    assert read.call_parameter is None
    assert read.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"type": "integer", "description": "How many.", "default": 10},
            "root": {"type": "string", "format": "path", "default": "."},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}, "uniqueItems": True}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_returned_object_becomes_an_output_schema():
    """The object stands at the top, what it refers to is there."""
    output = signature_schema(search).output_schema

    assert output is not None
    assert output["type"] == "object"
    assert compile_check(output).unchecked_reason == ""
    assert compile_check(output).accepts({"path": "a", "inner": {"path": "b"}})
    assert not compile_check(output).accepts({"path": "a", "inner": {}})


def returning(annotation):
    def function():
        pass

    function.__annotations__["return"] = annotation
    return signature_schema(function).output_schema


@pytest.mark.parametrize("annotation", [int, str, list[int], None, Any, Found | None, AsyncIterator[int], object])
def test_only_objects_have_an_output_schema(annotation):
    """Text, lists and whatever JSON cannot express are left to rendering."""
    assert returning(annotation) is None


def test_mappings_and_typed_dicts_have_an_output_schema():
    """They are objects too, and carry no definitions that nobody refers to."""
    assert returning(dict[str, int]) == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert returning(Row) == {
        "title": "Row",
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
    }


def test_arguments_are_bound_as_the_types_asked_for():
    """Converted where given, left to the function's own defaults where not."""
    bound = signature_schema(search).bind({"query": "a", "root": "src", "tags": ["x", "x"]})

    assert bound == {"query": "a", "root": Path("src"), "tags": {"x"}}


def test_what_does_not_fit_is_named():
    """The error says which parameter, and which it may have been."""
    read = signature_schema(search)

    with pytest.raises(InvalidArguments, match="limit: Expected `int`, got `str`"):
        read.bind({"query": "a", "limit": "ten"})
    with pytest.raises(InvalidArguments, match=r"no parameter 'limt'\. Did you mean 'limit'"):
        read.bind({"query": "a", "limt": 1})


def test_the_call_itself_is_not_an_argument():
    """A parameter annotated ``Request`` is not in the schema and cannot be sent."""

    def whoami(call: Request, loud: bool = False):
        pass

    read = signature_schema(whoami)

    assert read.call_parameter == "call"
    assert list(read.input_schema["properties"]) == ["loud"]
    with pytest.raises(InvalidArguments):
        read.bind({"call": {}})


def test_further_keyword_arguments_are_typed():
    """``**values: int`` allows any further field, of that type."""

    def add(call: Request, **values: int):
        pass

    read = signature_schema(add)

    assert read.input_schema["additionalProperties"] == {"type": "integer"}
    assert read.bind({"a": 1, "b": 2.0}) == {"a": 1, "b": 2}
    with pytest.raises(InvalidArguments):
        read.bind({"call": 1})


def test_a_parameter_that_defaults_to_none_takes_null():
    """However it is annotated: its default has to be a legal value."""

    def find(limit: int = None):  # noqa: RUF013 - what careless authors write
        pass

    read = signature_schema(find)

    assert compile_check(read.input_schema).accepts(apply_defaults(read.input_schema, {}))
    assert read.bind({"limit": None}) == {"limit": None}


def test_a_default_without_a_json_form_stays_out_of_the_schema():
    """It is neither required nor shown."""

    def find(limit=ABSENT):
        pass

    assert signature_schema(find).input_schema["properties"] == {"limit": {}}


def positional(path, /):
    pass


def variadic(*paths):
    pass


def untranslatable(path: "re.Pattern"):  # noqa: F821
    pass


def impossible(path: complex):
    pass


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (positional, "positional-only"),
        (variadic, "any number of positional"),
        (untranslatable, "cannot be resolved"),
        (impossible, "complex has no JSON form"),
    ],
)
def test_a_signature_json_cannot_express_is_refused(function, reason):
    """The error names the tool, the parameter and the reason."""
    with pytest.raises(DefinitionError, match=reason) as refused:
        signature_schema(function)

    assert refused.value.tool == function.__name__


def test_two_types_of_one_name_are_refused():
    """Which one a reference means would be a guess."""

    def make(fields):
        return dataclass(type("Same", (), {"__annotations__": fields}))

    def both(a, b):
        pass

    both.__annotations__.update(a=make({"x": int}), b=make({"y": int}))

    with pytest.raises(DefinitionError, match="two different types are called 'Same'"):
        signature_schema(both)


class Adder:
    """Adds."""

    def __call__(self, a: int) -> int:
        return a

    def method(self, a: int) -> int:
        return a


@pytest.mark.parametrize(
    "function", [Adder(), Adder().method, functools.partial(Adder().method), functools.partial(Adder())]
)
def test_methods_and_callable_objects_are_functions_too(function):
    """``self`` is not a parameter."""
    assert signature_schema(function).input_schema["properties"] == {"a": {"type": "integer"}}


@given(st.fixed_dictionaries({"query": st.text()}, optional={"limit": st.integers(-(2**53), 2**53), "tags": st.none()}))
def test_whatever_the_schema_accepts_can_be_bound(arguments):
    """With defaults filled in from the schema or by the function, it is the same call."""
    read = signature_schema(search)
    filled = apply_defaults(read.input_schema, arguments)

    assert compile_check(read.input_schema).accepts(filled)
    assert search.__defaults__ is not None
    defaults = dict(zip(("limit", "root", "tags"), search.__defaults__, strict=True))
    assert defaults | read.bind(arguments) == read.bind(filled)
