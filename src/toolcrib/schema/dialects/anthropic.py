"""Anthropic's Messages: nearly all of JSON Schema, but no unions at the top and only plain names of parameters."""

from collections.abc import Sequence

from toolcrib.schema.dialects.names import PARAMETER_NAMES
from toolcrib.schema.dialects.offer import Definition, Dialect, Options, Shown, view_in
from toolcrib.schema.dialects.subset import Subset

MOST_TO_SEARCH = 10_000

SUBSET = Subset()


def _define(shown: Shown, _options: Options) -> Definition:
    definition: Definition = {
        "name": shown.name,
        "description": shown.description,
        "input_schema": shown.view.schema,
    }
    return definition | {"defer_loading": True} if shown.is_deferred else definition


def _wrap(pairs: Sequence[tuple[Shown, Definition]], options: Options) -> list[Definition]:
    definitions = [definition for _, definition in pairs]
    if not any(shown.is_deferred for shown, _ in pairs):
        return definitions
    search = f"tool_search_tool_{options.search}"
    return [{"type": f"{search}_20251119", "name": search}, *definitions]


ANTHROPIC = Dialect("anthropic", view_in(SUBSET, PARAMETER_NAMES), _define, _wrap, defers=True)
