"""What a provider takes of JSON Schema, as a table, and the rewriting that makes more of it fit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib.schema.dialects.merge import ALSO, REMARKS, is_self_contained, is_valid

ROOT_UNIONS = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "const"})
"""What must not stand at the top of the arguments."""

WORD_FOR_WORD = frozenset({"not", "if", "then", "else", "contains", "propertyNames"}) | {
    "dependentSchemas",
    "patternProperties",
}
"""Under these, a schema that accepts more can make the whole accept less: they stay as they are or go."""
_HEADS = {"if": ("then", "else"), "contains": ("minContains", "maxContains")}


class Subset(msgspec.Struct, frozen=True):
    """One provider's part of JSON Schema."""

    keywords: frozenset[str] | None = None
    """The keywords that may be used; ``None``: all, and unknown ones too."""
    without: frozenset[str] = frozenset()
    """Keywords that may not be used, where all others may."""
    formats: frozenset[str] | None = None
    choices: frozenset[type] | None = None
    """Types the values of ``enum`` may have; ``None``: any."""
    inlines: bool = False
    """Whether references have to be replaced by what they mean."""
    lone_references: bool = False
    """Whether nothing may stand beside a reference."""
    lone_unions: bool = False
    """Whether nothing but remarks may stand beside ``anyOf``."""
    needs_items: bool = False
    """Whether an array must say what its items are."""
    needs_properties: bool = False
    """Whether the arguments must say which they are, even if none."""
    root_without: frozenset[str] = ROOT_UNIONS
    most_parts: int = 20_000

    def keeps(self, keyword: str) -> bool:
        """Whether a keyword may be used."""
        return keyword not in self.without if self.keywords is None else keyword in self.keywords

    @property
    def for_old_drafts(self) -> "Subset":
        """The same without the keywords that stay word for word or not at all: old drafts mean other things by them."""
        return replace(self, without=self.without | WORD_FOR_WORD | {"oneOf"})


def may_stay(keyword: str, value: Any) -> bool:
    """Whether a rule can be passed on word for word."""
    return is_self_contained(value) and is_valid({keyword: value})


def _aside(node: dict[str, Any], keyword: str, value: Any) -> None:
    node[ALSO] = [*node.get(ALSO, ()), (keyword, value)]


def _set_aside(node: dict[str, Any], keyword: str) -> None:
    if keyword in node:
        _aside(node, keyword, node.pop(keyword))


def fit_one_of(node: dict[str, Any], subset: Subset) -> None:
    """``oneOf`` as ``anyOf``, unless it can stay word for word: of forms that accept more, two may fit at once."""
    if "oneOf" not in node or (subset.keeps("oneOf") and may_stay("oneOf", node["oneOf"])):
        return
    if "anyOf" in node:
        _set_aside(node, "oneOf")
    else:
        node["anyOf"] = node.pop("oneOf")
        _aside(node, "one", "")


def fit_names(node: dict[str, Any], subset: Subset) -> None:
    """Without the patterns of names, the rule for all other names would count for too many."""
    if "patternProperties" not in node:
        return
    if not subset.keeps("patternProperties") or not may_stay("patternProperties", node["patternProperties"]):
        _set_aside(node, "patternProperties")
        _set_aside(node, "additionalProperties")


def fit_groups(node: dict[str, Any], subset: Subset) -> None:
    """Keywords that mean nothing without another one go with it."""
    for head, others in _HEADS.items():
        if head in node and not (subset.keeps(head) and may_stay(head, node[head])):
            for keyword in (head, *others):
                _set_aside(node, keyword)


def fit_places(node: dict[str, Any], subset: Subset) -> None:
    """Items by their places as items that may be any of them."""
    if node.get("items") is False and "prefixItems" not in node and not subset.keeps("prefixItems"):
        node["items"], node["maxItems"] = {}, 0
    if "prefixItems" not in node or subset.keeps("prefixItems"):
        return
    first, rest = node["prefixItems"], node.pop("items", True)
    _set_aside(node, "prefixItems")
    if rest is False:
        node["items"] = {"anyOf": first} if len(first) > 1 else first[0]
        node["maxItems"] = min(node.get("maxItems", len(first)), len(first))
    elif rest is not True:
        node["items"] = {"anyOf": [*first, rest]}


def fit_choices(node: dict[str, Any], subset: Subset) -> None:
    """``const`` as the only choice; choices of types the provider does not take as those types."""
    if "const" in node and not subset.keeps("const"):
        if "enum" in node:
            _set_aside(node, "const")
        else:
            node["enum"] = [node.pop("const")]
    if subset.choices is None or "enum" not in node:
        return
    choices = node["enum"]
    taken = [choice for choice in choices if type(choice) in subset.choices]
    if len(taken) < len(choices):
        _split_choices(node, taken, {_SIMPLE.get(type(choice), "") for choice in choices if choice not in taken})
    elif "type" not in node and {type(choice) for choice in choices} == {str}:
        node["type"] = "string"


def _split_choices(node: dict[str, Any], taken: list[Any], others: set[str]) -> None:
    if others != {"null"} or not taken or "anyOf" in node:
        _set_aside(node, "enum")
    if taken and "" not in others and "anyOf" not in node:
        node.pop("type", None)
        node.pop("enum", None)
        node["anyOf"] = [{"enum": taken}, *({"type": kind} for kind in sorted(others))]


_SIMPLE: Mapping[type, str] = {type(None): "null", bool: "boolean"}


def fit_formats(node: dict[str, Any], subset: Subset) -> None:
    """Formats the provider knows; another is only a remark anyway."""
    if subset.formats is not None and node.get("format", "") not in subset.formats:
        _set_aside(node, "format")


def fit_unions(node: dict[str, Any], subset: Subset) -> None:
    """A union alone: either it goes, because the rest says more, or the rest does."""
    if not subset.lone_unions or "anyOf" not in node:
        return
    if not node.keys().isdisjoint({"properties", "items", "prefixItems", "enum"}):
        _set_aside(node, "anyOf")
        return
    node.pop("type", None)
    for keyword in [keyword for keyword in node if keyword not in REMARKS and keyword not in ("anyOf", ALSO)]:
        _set_aside(node, keyword)


FITS: Sequence[Callable[[dict[str, Any], Subset], None]] = (
    fit_one_of,
    fit_names,
    fit_groups,
    fit_places,
    fit_choices,
    fit_formats,
    fit_unions,
)
"""What is done to each part, in this order."""
