"""Ollama: the few keywords its server keeps, everything else in words, references replaced by what they mean."""

from toolcrib.schema.dialects.offer import Definition, Dialect, Options, Shown, one_by_one, view_in
from toolcrib.schema.dialects.subset import Subset

SUBSET = Subset(
    keywords=frozenset({"type", "description", "enum", "items", "properties", "required", "anyOf"}),
    inlines=True,
    most_parts=3_000,
)


def _define(shown: Shown, _options: Options) -> Definition:
    function = {"name": shown.name, "description": shown.description, "parameters": shown.view.schema}
    return {"type": "function", "function": function}


OLLAMA = Dialect("ollama", view_in(SUBSET), _define, one_by_one)
