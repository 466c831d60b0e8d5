"""A schema document as a graph: its subschemas, what they may lead to, and where its references can end.

Reading is deliberately cautious. Which ``$id`` is in force at a reference is something validators disagree on, so a
reference is taken to lead to every place in the document it could mean.
"""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any
from urllib.parse import unquote, urljoin

MAX_PROPERTIES = 2_000
MAX_PATTERNS = 50
MAX_IDENTIFIERS = 10
MAX_URL = 300

_DIALECT = re.compile(r"https?://json-schema\.org/(draft-0[467]|draft/2019-09|draft/2020-12)/schema#?")
_LATEST = "draft/2020-12"
_HARMLESS = re.compile(r"\\[^1-9k]|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_NOT_LINEAR = re.compile(r"\\|\(\?<?[=!]")


class UnsafeSchema(ValueError):
    """The schema cannot be checked safely; the message is the reason."""


class Edge(Enum):
    """How a subschema is reached, seen from the value being checked."""

    IN_PLACE = "applies to the same value"
    CHILD = "applies to one part of the value"
    OVERLAP = "applies to a part that another subschema may look at as well"
    DEFINITION = "applies only where it is referred to"


_EDGES = (
    dict.fromkeys(("allOf", "anyOf", "oneOf", "not", "if", "then", "else"), Edge.IN_PLACE)
    | dict.fromkeys(("dependentSchemas", "dependencies"), Edge.IN_PLACE)
    | dict.fromkeys(("properties", "additionalProperties", "unevaluatedProperties"), Edge.CHILD)
    | dict.fromkeys(("items", "prefixItems", "additionalItems", "unevaluatedItems"), Edge.CHILD)
    | dict.fromkeys(("patternProperties", "propertyNames", "contains"), Edge.OVERLAP)
    | dict.fromkeys(("$defs", "definitions", "contentSchema"), Edge.DEFINITION)
)
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_IDENTIFIERS = ("$id", "id")

Node = dict[str, Any]


class Document:
    """One schema with everything in it that a reference can reach."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.nodes: dict[int, Node] = {}
        self.references: list[str] = []
        self._resources: list[tuple[str, Node]] = [("", root)]
        self._called: dict[str, list[Node]] = {}
        self._anchors: dict[str, list[Node]] = {}
        self._targets: dict[str, list[Node]] = {}
        self._properties = 0
        self._patterns: set[str] = set()
        self._dialect = dialect(root)
        self._read_from(root)
        self._follow_references()

    def edges(self, node: Node) -> Iterator[tuple[Edge, Node]]:
        """Every schema that ``node`` leads to, and how."""
        for keyword, value in node.items():
            if (edge := _EDGES.get(keyword)) is not None:
                for child in _subschemas(keyword, value):
                    yield edge, child
            elif keyword in _REFERENCES:
                for target in self._targets[value]:
                    yield Edge.IN_PLACE, target

    def _read_from(self, start: Node) -> None:
        pending = [start]
        while pending:
            node = pending.pop()
            if id(node) in self.nodes:
                continue
            self.nodes[id(node)] = node
            for keyword, value in node.items():
                if keyword in _EDGES:
                    pending.extend(_subschemas(keyword, value))
                if (read := _READERS.get(keyword)) is not None:
                    read(self, node, value)

    def _follow_references(self) -> None:
        """Resolve every reference, reading on where one ends outside of what was read."""
        declared = len(self._resources), len(self._anchors)
        for reference in self.references:
            if reference not in self._targets:
                self._targets[reference] = targets = self._resolve(reference)
                for target in targets:
                    self._read_from(target)
        if declared != (len(self._resources), len(self._anchors)):
            raise UnsafeSchema("it declares identifiers in a place where no schema belongs")

    def _resolve(self, reference: str) -> list[Node]:
        url, _, fragment = reference.partition("#")
        resources = self._resources_called(url)
        if not resources:
            raise UnsafeSchema(f"reference {reference[:80]!r} leads out of the schema")
        if not fragment or fragment.startswith("/"):
            found = [_at_pointer(resource, fragment) for resource in resources]
        else:
            found = [*self._anchors.get(unquote(fragment), ())]
        targets = [target for target in found if target is not _NOWHERE]
        if not targets:
            raise UnsafeSchema(f"reference {reference[:80]!r} leads nowhere")
        return [target for target in targets if isinstance(target, dict)]

    def _resources_called(self, url: str) -> list[Node]:
        """The parts of the document that ``url`` may name, whichever identifier it is relative to."""
        if not self._called:
            self._called[""] = [resource for _, resource in self._resources]
            for identifier, resource in self._resources[1:]:
                for name in self._absolute(identifier):
                    self._called.setdefault(name, []).append(resource)
        if not url:
            return self._called[""]
        return [resource for name in self._absolute(url) for resource in self._called.get(name, ())]

    def _absolute(self, url: str) -> set[str]:
        if len(url) > MAX_URL:
            raise UnsafeSchema(f"an address in it is longer than {MAX_URL} characters")
        return {urljoin(base, url) for base, _ in self._resources}

    def _read_reference(self, _node: Node, value: Any) -> None:
        if not isinstance(value, str):
            raise UnsafeSchema("a reference is not text")
        self.references.append(value)

    def _read_identifier(self, node: Node, value: Any) -> None:
        if not isinstance(value, str):
            return
        name, _, fragment = value.partition("#")
        if fragment:
            self._anchors.setdefault(fragment, []).append(node)
        if name:
            self._resources.append((name, node))
        if len(self._resources) > MAX_IDENTIFIERS:
            raise UnsafeSchema(f"it declares more than {MAX_IDENTIFIERS} identifiers")

    def _read_anchor(self, node: Node, value: Any) -> None:
        if isinstance(value, str):
            self._anchors.setdefault(value, []).append(node)

    def _read_properties(self, _node: Node, value: Any) -> None:
        self._properties += len(value) if isinstance(value, dict) else 0
        if self._properties > MAX_PROPERTIES:
            raise UnsafeSchema(f"it has more than {MAX_PROPERTIES} properties")

    def _read_pattern(self, _node: Node, value: Any) -> None:
        for pattern in value if isinstance(value, dict) else (value,):
            if isinstance(pattern, str) and not is_linear(pattern):
                raise UnsafeSchema(f"pattern {pattern[:80]!r} looks around or refers back")
            self._patterns.add(str(pattern))
        if len(self._patterns) > MAX_PATTERNS:
            raise UnsafeSchema(f"it has more than {MAX_PATTERNS} patterns")

    def _read_dialect(self, node: Node, _value: Any) -> None:
        if dialect(node) != self._dialect:
            raise UnsafeSchema("it mixes dialects of JSON Schema")


_READERS = (
    dict.fromkeys(_REFERENCES, Document._read_reference)
    | dict.fromkeys(_IDENTIFIERS, Document._read_identifier)
    | dict.fromkeys(_ANCHORS, Document._read_anchor)
    | dict.fromkeys(("properties", "$defs", "definitions"), Document._read_properties)
    | dict.fromkeys(("pattern", "patternProperties"), Document._read_pattern)
    | {"$schema": Document._read_dialect}
)


def dialect(root: Node) -> str:
    """The draft a schema says it is written in; one that would have to be fetched is refused."""
    declared = root.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    known = _DIALECT.fullmatch(declared) if isinstance(declared, str) else None
    if known is None:
        raise UnsafeSchema(f"unknown dialect {str(declared)[:80]!r}")
    return known[1]


def is_linear(pattern: str) -> bool:
    """Whether a pattern can be matched without backtracking: no look-around, no reference back to a group."""
    return _NOT_LINEAR.search(_HARMLESS.sub("", pattern)) is None


def _subschemas(keyword: str, value: Any) -> list[Node]:
    parts: Iterable[Any] = (value,)
    if keyword in _MAPS:
        parts = value.values() if isinstance(value, dict) else ()
    elif isinstance(value, list):
        parts = value
    return [part for part in parts if isinstance(part, dict)]


_NOWHERE = object()


def _at_pointer(resource: Any, fragment: str) -> Any:
    place = resource
    for step in unquote(fragment).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and key in place:
            place = place[key]
        elif isinstance(place, list) and key.isdecimal() and int(key) < len(place):
            place = place[int(key)]
        else:
            return _NOWHERE
    return place
