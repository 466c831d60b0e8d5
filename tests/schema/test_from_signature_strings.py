"""Annotations kept as strings are resolved in the module they were written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from toolcrib.core.requests import Request
from toolcrib.schema.from_signature import signature_schema


@dataclass
class Place:
    name: str
    near: list[Place] | None = None


def go(call: Request, to: Annotated[Place, "Where to."]) -> Place:
    """Go there."""
    return to


def test_string_annotations_mean_what_they_say():
    """Types, descriptions and the call parameter are found behind the strings."""
    read = signature_schema(go)

    assert read.call_parameter == "call"
    assert read.input_schema["properties"] == {"to": {"$ref": "#/$defs/Place", "description": "Where to."}}
    assert read.bind({"to": {"name": "a", "near": [{"name": "b"}]}}) == {"to": Place("a", [Place("b")])}
    assert read.output_schema is not None
    assert read.output_schema["properties"]["name"] == {"type": "string"}
