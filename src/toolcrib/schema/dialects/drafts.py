"""One schema object made plain: older drafts' forms as 2020-12 writes them, what is malformed set aside."""

from collections.abc import Mapping
from typing import Any

from toolcrib.schema.dialects.merge import ALSO
from toolcrib.schema.dialects.wellformed import is_well_formed

_NEVER_FOLLOWED = ("$dynamicRef", "$recursiveRef", "dependencies")
_HEADS = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


_NEWER = frozenset({"prefixItems", "dependentRequired", "dependentSchemas", "minContains", "maxContains"})
"""Keywords that drafts before 2019-09 do not know."""


def make_plain(schema: Any, *, is_old: bool = False) -> dict[str, Any]:
    """The schema object with only keywords that mean something, and the others under ``ALSO``."""
    if not isinstance(schema, Mapping):
        return {} if schema is not False else {ALSO: [("never", "")]}
    unknown = [(keyword, value) for keyword, value in schema.items() if is_old and keyword in _NEWER]
    node = _modern({keyword: value for keyword, value in schema.items() if not is_old or keyword not in _NEWER})
    aside = [word for word in node if word in _NEVER_FOLLOWED or not is_well_formed(word, node[word])]
    lost = unknown + [(keyword, node.pop(keyword)) for keyword in aside]
    for keyword, head in _HEADS.items():
        if head not in node:
            node.pop(keyword, None)
    return node | {ALSO: [*node.get(ALSO, ()), *lost]} if lost else node


def _modern(node: dict[str, Any]) -> dict[str, Any]:
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node["additionalItems"]
    node.pop("additionalItems", None)
    for keyword, bound in _BOUNDS.items():
        if isinstance(node.get(keyword), bool) and node.pop(keyword) and bound in node:
            node[keyword] = node.pop(bound)
    if isinstance(names := node.get("required"), list) and all(isinstance(name, str) for name in names):
        node["required"] = [*dict.fromkeys(names)]
    return node
