"""Ollama: the few keywords its server keeps, everything else in words, references replaced by what they mean."""

from toolcrib.core.tool import Tool
from toolcrib.schema.dialects.names import NameTable
from toolcrib.schema.dialects.offer import Definition, Dialect, Options, Shown, one_by_one
from toolcrib.schema.dialects.reduce import ReducedSchema, reduce_schema
from toolcrib.schema.dialects.subset import Subset

SUBSET = Subset(
    keywords=frozenset({"type", "description", "enum", "items", "properties", "required", "anyOf"}),
    inlines=True,
    most_parts=3_000,
)


def _view(tool: Tool, _options: Options) -> tuple[ReducedSchema, NameTable | None]:
    return reduce_schema(tool.input_schema, SUBSET), None


def _define(shown: Shown, _options: Options) -> Definition:
    function = {"name": shown.name, "description": shown.description, "parameters": shown.view.schema}
    return {"type": "function", "function": function}


OLLAMA = Dialect("ollama", _view, _define, one_by_one)
