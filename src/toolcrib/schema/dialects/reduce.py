"""Schemas reduced to what a provider takes, never to less than what the tool takes.

Each step leaves a schema that accepts at least what the original accepts; rules that have no place are put into words,
for the description. Calls are checked against the original, so what the reduced schema lets through is caught there.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.schema.dialects.merge import (
    ALSO,
    REMARKS,
    SchemaReferences,
    both,
    fields_of_forms,
    make_plain,
    name_of,
    types_of,
)
from toolcrib.schema.dialects.subset import FITS, WORD_FOR_WORD, Subset, may_stay
from toolcrib.schema.dialects.words import LONGEST, add_words, in_words, shorten
from toolcrib.schema.document import NOWHERE

DEEPEST = 64
"""Levels below each other; what is deeper is left open."""

_DROPPED = object()
_LISTS = frozenset({"anyOf", "allOf", "prefixItems"})
_ALWAYS_LOST = frozenset(
    {"unevaluatedProperties", "unevaluatedItems", "$defs", "definitions", "$schema", "$id", "id"}
) | {
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$vocabulary",
}


class Irreducible(ValueError):
    """There is nothing a provider would take; the message is the reason."""


class ReducedSchema(msgspec.Struct, frozen=True):
    """A schema as a provider gets it."""

    schema: dict[str, Any]
    rules: tuple[str, ...] = ()
    """What holds for the arguments as a whole and is not in the schema, in words."""
    is_strict: bool = False
    """Whether a model may be held to it."""


def reduce_schema(schema: Mapping[str, Any], subset: Subset) -> ReducedSchema:
    """The schema of a tool's arguments in a provider's subset; one that is not of an object is ``Irreducible``."""
    return _Reduction(schema, subset).run()


class _Place(msgspec.Struct, frozen=True):
    """How deep a part is, and which references it was reached through."""

    trail: frozenset[str] = frozenset()
    depth: int = 0

    def below(self) -> "_Place":
        return _Place(self.trail, self.depth + 1)

    def along(self, reference: str) -> "_Place":
        return _Place(self.trail | {reference}, self.depth + 1)


class _Reduction:
    """One schema on its way into a subset."""

    def __init__(self, root: Mapping[str, Any], subset: Subset) -> None:
        self._root = root
        self._references = SchemaReferences(root)
        self._subset = subset.for_old_drafts if self._references.is_old else subset
        self._inlines = subset.inlines or not self._references.are_safe
        self._names: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}
        self._parts = 0

    def run(self) -> ReducedSchema:
        whole, place = self._flat(self._root, _Place())
        kinds = types_of(whole)
        if kinds and "object" not in kinds:
            raise Irreducible(f"its arguments are not an object but {' or '.join(kinds)}")
        schema, said = self._split(self._without_unions(whole, place), place, is_root=True)
        least = {"type": "object", "properties": {}} if self._subset.needs_properties else {"type": "object"}
        schema = least | schema | {"type": "object"}
        if definitions := self._reduced_definitions():
            schema["$defs"] = definitions
        return ReducedSchema(schema, tuple(filter(None, said)))

    def _reduced_definitions(self) -> dict[str, Any]:
        """The definitions that are referred to, and those that they refer to in turn."""
        while pending := [reference for reference, name in self._names.items() if name not in self._definitions]:
            for reference in pending:
                target = self._references.find(reference)
                self._definitions[self._names[reference]] = self._node(target, _Place())
        return self._definitions

    def _without_unions(self, whole: dict[str, Any], place: _Place) -> dict[str, Any]:
        """The arguments with the fields of all their forms, where the forms themselves have no place."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in whole and keyword in self._subset.root_without:
                forms = whole.pop(keyword)
                fields = fields_of_forms([self._flat(form, place)[0] for form in forms], whole.get("properties", {}))
                whole = both(whole, fields)
                whole[ALSO] = [*whole.get(ALSO, ()), (keyword, forms)]
        return whole

    def _flat(self, schema: Any, place: _Place) -> tuple[dict[str, Any], _Place]:
        """A schema with what it refers to and all it is composed of in one object."""
        node = self._plain(schema)
        if (reference := node.pop("$ref", None)) is not None:
            if self._references.is_old:
                node = _remarks(node)
            target, place = self._follow(reference, place)
            flat, place = self._flat(target, place)
            node = both(node, flat)
        for part in node.pop("allOf", ()):
            flat, place = self._flat(part, place)
            node = both(node, flat)
        return node, place

    def _plain(self, schema: Any) -> dict[str, Any]:
        return make_plain(schema, is_old=self._references.is_old)

    def _follow(self, reference: str, place: _Place) -> tuple[Any, _Place]:
        target = self._references.find(reference)
        if target is NOWHERE:
            return {ALSO: [("$ref", reference)]}, place
        if reference in place.trail or self._is_exhausted(place):
            return _opened(self._plain(target)) | {ALSO: [("again", name_of(reference))]}, place
        return target, place.along(reference)

    def _is_exhausted(self, place: _Place) -> bool:
        return place.depth > DEEPEST or self._parts > self._subset.most_parts

    def _node(self, schema: Any, place: _Place) -> dict[str, Any]:
        """One part of the schema, reduced, with what it loses in its description."""
        self._parts += 1
        node = self._plain(schema)
        if self._is_exhausted(place):
            return _described(_opened(node), [in_words("unsaid", "")])
        has_composition = "allOf" in node and not self._subset.keeps("allOf")
        if "$ref" in node and not self._inlines and not has_composition:
            return self._referring(node, place)
        if "$ref" in node or has_composition:
            node, place = self._flat(node, place)
        return _described(*self._split(node, place))

    def _referring(self, node: dict[str, Any], place: _Place) -> dict[str, Any]:
        """A part that refers to a definition, and goes on to do so."""
        reference = node.pop("$ref")
        if self._references.find(reference) is NOWHERE:
            return _described(*self._split(both(node, {ALSO: [("$ref", reference)]}), place))
        beside = _remarks(node) if self._references.is_old else node
        if self._subset.lone_references and beside.keys() - REMARKS:
            return _described(*self._split(self._flat({**beside, "$ref": reference}, place)[0], place))
        referring = {"$ref": f"#/$defs/{self._define(reference)}"}
        rest = _described(*self._split(beside, place))
        if rest and self._subset.lone_references:
            return {"anyOf": [referring], **rest}
        return referring | rest

    def _define(self, reference: str) -> str:
        if reference not in self._names:
            name, taken = name_of(reference), set(self._names.values())
            number = next(n for n in range(len(taken) + 1) if (f"{name}_{n}" if n else name) not in taken)
            self._names[reference] = f"{name}_{number}" if number else name
        return self._names[reference]

    def _split(self, node: dict[str, Any], place: _Place, *, is_root: bool = False) -> tuple[dict[str, Any], list[str]]:
        """What of a part the provider takes, and what it does not, in words."""
        node = self._fitted(node)
        said = [in_words(*pair) for pair in node.pop(ALSO, ())]
        kept: dict[str, Any] = {}
        for keyword, value in node.items():
            lost = keyword in _ALWAYS_LOST or not self._subset.keeps(keyword)
            lost = lost or (is_root and keyword in self._subset.root_without)
            reduced = _DROPPED if lost else self._reduced(keyword, value, place.below())
            if reduced is _DROPPED:
                said.append(in_words(keyword, value))
            else:
                kept[keyword] = reduced
        return self._completed(kept), said

    def _reduced(self, keyword: str, value: Any, place: _Place) -> Any:
        if keyword in WORD_FOR_WORD:
            return value if may_stay(keyword, value) else _DROPPED
        if keyword == "properties":
            return {name: self._node(part, place) for name, part in value.items()}
        if keyword in _LISTS:
            return [self._node(part, place) for part in value]
        if keyword in ("items", "additionalProperties"):
            return value if isinstance(value, bool) else self._node(value, place)
        return value

    def _fitted(self, node: dict[str, Any]) -> dict[str, Any]:
        """A part in the provider's way of saying the same, or a little less."""
        node = dict(node)
        for fit in FITS:
            fit(node, self._subset)
        return node

    def _completed(self, kept: dict[str, Any]) -> dict[str, Any]:
        if self._subset.needs_items and "array" in types_of(kept):
            kept.setdefault("items", {})
        return kept


def _remarks(node: Mapping[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in node.items() if keyword in REMARKS}


def _opened(node: Mapping[str, Any]) -> dict[str, Any]:
    """Only what a part is called and of which type it is."""
    opened = {keyword: node[keyword] for keyword in ("type", "description") if keyword in node}
    if "description" in opened:
        opened["description"] = shorten(opened["description"], LONGEST)
    return opened


def _described(kept: dict[str, Any], said: list[str]) -> dict[str, Any]:
    text = add_words(kept.get("description", ""), said)
    return kept | {"description": text} if text else kept
