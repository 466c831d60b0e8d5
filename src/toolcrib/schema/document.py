"""A schema document as a graph: its subschemas, what they may lead to, and where its references can end.

Reading is deliberately cautious. Which ``$id`` is in force at a reference is something validators disagree on, so a
reference is taken to lead to every place it could mean: in the document, in the further documents that were given
along with it, or to the metaschema of a draft. Nothing else can be reached; nothing is ever fetched.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any
from urllib.parse import unquote, urljoin

MAX_PROPERTIES = 2_000
MAX_PATTERNS = 50
MAX_PATTERN_TEXT = 8 * 1024
MAX_IDENTIFIERS = 10
MAX_BASES = 100
MAX_URL = 300
MAX_URLS = 50

_DIALECT = re.compile(r"https?://json-schema\.org/(draft-0[467]|draft/2019-09|draft/2020-12)/schema#?")
_BUNDLED = re.compile(r"https?://json-schema\.org/(draft-0[467]/schema|draft/20(19-09|20-12)/(schema|meta/[a-z-]+))")
_LATEST = "https://json-schema.org/draft/2020-12/schema"
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
_DECISIVE = frozenset({"not", "if", "oneOf", "contains"})
"""Keywords under which a schema that accepts more can make the whole accept less."""

Node = dict[str, Any]

_METASCHEMA: Node = {"allOf": [{}] * 100}
"""Stands for a draft's metaschema, which every validator brings along: about as much work, and leading nowhere."""


class SchemaDocument:
    """One schema with everything that its references can reach.

    ``given`` are further documents by their addresses; those that are reached end up in ``admitted``.
    """

    def __init__(self, root: Node, given: Mapping[str, Node] | None = None) -> None:
        self.root = root
        self.nodes: dict[int, Node] = {}
        self.references: list[str] = []
        self.admitted: dict[str, Node] = {}
        self.unsafe_patterns: dict[int, set[str]] = {}
        """Patterns that cannot be matched in linear time, by the node they stand in."""
        self._given = given or {}
        self._redirects_metaschema = False
        self._resources: list[tuple[str, Node]] = [("", root)]
        self._bases = [""]
        self._addresses: dict[str, set[str]] = {}
        self._called: dict[str, list[Node]] = {}
        self._anchors: dict[str, list[Node]] = {}
        self._targets: dict[str, list[Node]] = {}
        self._properties = 0
        self._required = 0
        self._patterns: set[str] = set()
        self._dialect = self._dialect_of(root)
        self._read_from(root)
        if self._given:
            self._admit_given()
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

    def decided_by(self, node: Node) -> Iterator[Node]:
        """Those schemas ``node`` leads to whose verdict may count the other way round."""
        for keyword in _DECISIVE.intersection(node):
            yield from _subschemas(keyword, node[keyword])

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

    def _admit_given(self) -> None:
        """Read the given documents that references may lead to, and those they lead to in turn."""
        before = -1
        while before != len(self.admitted):
            before = len(self.admitted)
            for url in {reference.partition("#")[0] for reference in self.references}:
                for name in (self._absolute(url) & self._given.keys()) - self.admitted.keys():
                    self._admit(name)

    def _admit(self, name: str) -> None:
        document = self.admitted[name] = self._given[name]
        self._add_resource(name, document)
        redirected = self._redirects_metaschema
        self._read_from(document)
        self._redirects_metaschema = redirected  # a metaschema of one's own has to do just that

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
        found: list[Any] = [_METASCHEMA] if url and not fragment and self._names_metaschema(url) else []
        if not resources and not found:
            raise UnsafeSchema(f"reference {reference[:80]!r} leads out of the schema")
        if not fragment or fragment.startswith("/"):
            found += [at_pointer(resource, fragment) for resource in resources]
        else:
            found += self._anchors.get(unquote(fragment), ())
        targets = [target for target in found if target is not NOWHERE]
        if not targets:
            raise UnsafeSchema(f"reference {reference[:80]!r} leads nowhere")
        return [target for target in targets if isinstance(target, dict)]

    def _names_metaschema(self, url: str) -> bool:
        if not any(_BUNDLED.fullmatch(name) for name in self._absolute(url)):
            return False
        if self._redirects_metaschema:
            raise UnsafeSchema("it redirects the metaschema it refers to")
        return True

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
        """What ``url`` may stand for, relative to any of the identifiers."""
        if len(url) > MAX_URL:
            raise UnsafeSchema(f"an address in it is longer than {MAX_URL} characters")
        if url not in self._addresses:
            self._addresses[url] = {urljoin(base, url) for base in self._bases}
            if len(self._addresses) > MAX_URLS:
                raise UnsafeSchema(f"it refers to more than {MAX_URLS} addresses")
        return self._addresses[url]

    def _read_reference(self, _node: Node, value: Any) -> None:
        if not isinstance(value, str):
            raise UnsafeSchema("a reference is not text")
        self.references.append(value)

    def _read_identifier(self, node: Node, value: Any) -> None:
        if not isinstance(value, str):
            return
        name, _, fragment = value.partition("#")
        if fragment:
            self._add_anchor(fragment, node)
        if name:
            self._add_resource(name, node)

    def _add_resource(self, name: str, node: Node) -> None:
        self._resources.append((name, node))
        self._bases = [*{*self._bases, *self._absolute(name)}]
        self._addresses.clear()
        if len(self._resources) > MAX_IDENTIFIERS or len(self._bases) > MAX_BASES:
            raise UnsafeSchema(f"it declares more than {MAX_IDENTIFIERS} identifiers")

    def _read_anchor(self, node: Node, value: Any) -> None:
        if isinstance(value, str):
            self._add_anchor(value, node)
            self._redirects_metaschema |= value == "meta"

    def _add_anchor(self, name: str, node: Node) -> None:
        named = self._anchors.setdefault(name, [])
        named.append(node)
        if len(named) > MAX_IDENTIFIERS:
            raise UnsafeSchema(f"it declares anchor {name[:80]!r} more than {MAX_IDENTIFIERS} times")

    def _read_recursive_anchor(self, _node: Node, _value: Any) -> None:
        self._redirects_metaschema = True

    def _read_properties(self, _node: Node, value: Any) -> None:
        self._properties += len(value) if isinstance(value, dict) else 0
        if self._properties > MAX_PROPERTIES:
            raise UnsafeSchema(f"it has more than {MAX_PROPERTIES} properties")

    def _read_required(self, _node: Node, value: Any) -> None:
        self._required += len(value) if isinstance(value, list) else 0
        if self._required > MAX_PROPERTIES:
            raise UnsafeSchema(f"it requires more than {MAX_PROPERTIES} properties")

    def _read_pattern(self, node: Node, value: Any) -> None:
        for pattern in value if isinstance(value, dict) else (value,):
            if isinstance(pattern, str) and not is_linear(pattern):
                self.unsafe_patterns.setdefault(id(node), set()).add(pattern)
            self._patterns.add(str(pattern))
        if len(self._patterns) > MAX_PATTERNS or sum(map(len, self._patterns)) > MAX_PATTERN_TEXT:
            raise UnsafeSchema(f"it has more than {MAX_PATTERNS} patterns or {MAX_PATTERN_TEXT} characters of them")

    def _read_dialect(self, node: Node, _value: Any) -> None:
        if self._dialect_of(node) != self._dialect:
            raise UnsafeSchema("it mixes dialects of JSON Schema")

    def _dialect_of(self, node: Node) -> str:
        """The draft a schema says it is written in; one that would have to be fetched is refused."""
        declared = node.get("$schema", _LATEST)
        if isinstance(declared, str) and declared in self._given:
            self.references.append(declared)
            declared = self._given[declared].get("$schema", _LATEST)
        known = _DIALECT.fullmatch(declared) if isinstance(declared, str) else None
        if known is None:
            raise UnsafeSchema(f"unknown dialect {str(declared)[:80]!r}")
        return known[1]


_READERS = (
    dict.fromkeys(_REFERENCES, SchemaDocument._read_reference)
    | dict.fromkeys(_IDENTIFIERS, SchemaDocument._read_identifier)
    | dict.fromkeys(_ANCHORS, SchemaDocument._read_anchor)
    | dict.fromkeys(("properties", "$defs", "definitions"), SchemaDocument._read_properties)
    | dict.fromkeys(("pattern", "patternProperties"), SchemaDocument._read_pattern)
    | {"required": SchemaDocument._read_required}
    | {"$schema": SchemaDocument._read_dialect, "$recursiveAnchor": SchemaDocument._read_recursive_anchor}
)


def is_linear(pattern: str) -> bool:
    """Whether a pattern can be matched without backtracking: no look-around, no reference back to a group."""
    return _NOT_LINEAR.search(_HARMLESS.sub("", pattern)) is None


_REPEATED_REPEAT = re.compile(r"\((?:[^()]|\([^()]*\))*[+*}][^()]*\)[+*{]")


def is_unsafe_pattern(pattern: str) -> bool:
    """Whether a matcher that backtracks, as most clients have one, may need for ever: it looks around, refers back, or
    repeats what repeats itself."""
    plain = _HARMLESS.sub("", pattern)
    return _NOT_LINEAR.search(plain) is not None or _REPEATED_REPEAT.search(plain) is not None


def _subschemas(keyword: str, value: Any) -> list[Node]:
    parts: Iterable[Any] = (value,)
    if keyword in _MAPS:
        parts = value.values() if isinstance(value, dict) else ()
    elif isinstance(value, list):
        parts = value
    return [part for part in parts if isinstance(part, dict)]


NOWHERE = object()
"""What a pointer that leads nowhere leads to."""


def at_pointer(resource: Any, fragment: str) -> Any:
    """The part of ``resource`` that a JSON pointer (a reference behind its ``#``) names, or ``NOWHERE``."""
    place = resource
    for step in unquote(fragment).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and key in place:
            place = place[key]
        elif isinstance(place, list) and key.isdecimal() and int(key) < len(place):
            place = place[int(key)]
        else:
            return NOWHERE
    return place
