"""The cost guard: decides, before anything is compiled, whether a schema can be checked safely.

A hostile schema can hang a validator that follows it. What is refused here: too big, too deep, references that leave
what is known or go in circles, and compositions whose work multiplies.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.schema.document import Edge, Node, SchemaDocument, UnsafeSchema
from toolcrib.schema.prices import FREE, VISIT, Price, own_price

MAX_BYTES = 256 * 1024
MAX_PARTS = 3_000
"""Of a schema: with more, reading it at a tool's first call would hold up the event loop for more than 50 ms."""
MAX_DEPTH = 64
MAX_COST = 2_000
_DEPTH_COUNTED = 64
"""Deeper values are not checked on the loop anyway, where a schema comes back to itself more than once."""

_TWICE = frozenset({"unevaluatedProperties", "unevaluatedItems"})
"""Keywords for which a validator goes through the composition a second time."""


class Weight(msgspec.Struct, frozen=True):
    """How much work a schema makes of one piece of a value."""

    cost: int = 1
    """Subschemas that may look at the same piece."""
    loops: int = 0
    """Ways in which the schema comes back to itself on the same piece; explaining a failure multiplies by it."""
    price: Price = VISIT
    """What checking a piece costs, in steps of the validator."""

    def work(self, pieces: int, size: int, depth: int) -> int:
        """The most steps that checking a value may take, by its pieces, its bytes of JSON and how deep it nests."""
        repeats = depth * self.loops ** min(depth, _DEPTH_COUNTED) if self.loops else 1
        return (self.price.piece * pieces + self.price.byte * size) * max(1, repeats)


LIGHT = Weight()


def refusal(schema: Mapping[str, Any] | bool) -> str | None:
    """Why a schema cannot be checked safely; ``None`` if it can."""
    try:
        weigh(schema)
    except UnsafeSchema as unsafe:
        return str(unsafe)
    return None


def weigh(schema: Mapping[str, Any] | bool) -> Weight:
    """The weight of a schema that can be checked safely; any other raises ``UnsafeSchema``."""
    return LIGHT if isinstance(schema, bool) else inspect(schema)[1]


def inspect(schema: Mapping[str, Any], given: Mapping[str, Node] | None = None) -> tuple[SchemaDocument, Weight]:
    """The schema as a graph and its weight; one that cannot be checked safely raises ``UnsafeSchema``.

    References may also lead to the ``given`` documents, which are weighed along with it.
    """
    root = dict(schema)
    refuse_oversize(root)
    document = SchemaDocument(root, given)
    if document.references:
        _refuse_empty_cycles(document)
    try:
        return document, _Scale(document).weigh_whole(root)
    except RecursionError:
        raise UnsafeSchema("its references form too long a chain") from None


def refuse_oversize(schema: Mapping[str, Any]) -> None:
    """Raise ``UnsafeSchema`` for a schema too big or too deep to be looked into."""
    try:
        encoded = msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise UnsafeSchema(f"it is not JSON: {error}") from None
    if len(encoded) > MAX_BYTES:
        raise UnsafeSchema(f"it has {len(encoded)} bytes; at most {MAX_BYTES} are looked into")
    if encoded.count(b"{") + encoded.count(b"[") > MAX_PARTS:
        raise UnsafeSchema(f"it has more than {MAX_PARTS} parts")
    if nesting(schema, MAX_DEPTH) > MAX_DEPTH:
        raise UnsafeSchema(f"it nests deeper than {MAX_DEPTH} levels")


def nesting(value: Any, limit: int) -> int:
    """How deep objects and arrays nest; counting stops beyond ``limit``."""
    depth, level = 0, [value] if isinstance(value, (dict, list)) else []
    while level and depth <= limit:
        depth += 1
        level = [
            part
            for whole in level
            for part in (whole.values() if isinstance(whole, dict) else whole)
            if isinstance(part, (dict, list))
        ]
    return depth


def _refuse_empty_cycles(document: SchemaDocument) -> None:
    """Refuse a schema that comes back to itself without having gone into the value: checking it never ends."""
    done: set[int] = set()
    for start in document.nodes.values():
        _walk_in_place(document, start, done)


def _walk_in_place(document: SchemaDocument, start: Node, done: set[int]) -> None:
    path = {id(start): _in_place(document, start)}
    while path:
        here = next(reversed(path))
        following = None if here in done else next(path[here], None)
        if following is None:
            done.add(here)
            path.popitem()
        elif id(following) in path:
            raise UnsafeSchema("its references go in a circle")
        else:
            path[id(following)] = _in_place(document, following)


def _in_place(document: SchemaDocument, node: Node) -> Any:
    return iter([target for edge, target in document.edges(node) if edge is Edge.IN_PLACE])


class _Scale:
    """Weighs every schema of a document once, however many references lead to it."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._known: dict[int, Weight | None] = {}

    def weigh_whole(self, root: Node) -> Weight:
        """The weight of a whole schema; where it comes back to itself, a piece may meet all of it at each level."""
        weight = self.weigh(root)
        if not any(known.loops for known in self._known.values() if known is not None):
            return weight
        together = sum((known.price for known in self._known.values() if known is not None), FREE)
        return msgspec.structs.replace(weight, loops=max(1, weight.loops), price=weight.price | together)

    def weigh(self, node: Node) -> Weight:
        key = id(node)
        if key in self._known:
            return self._known[key] or Weight(1, 1)
        self._known[key] = None
        weight = self._known[key] = self._add_up(node)
        if weight.cost > MAX_COST:
            raise UnsafeSchema(f"checking it may take more than {MAX_COST} steps for one piece of a value")
        return weight

    def _add_up(self, node: Node) -> Weight:
        here, loops_here, deepest, loops_below = 0, 0, 0, 0
        price, price_below = own_price(node), FREE
        times = 1 if _TWICE.isdisjoint(node) else 2
        for edge, target in self._document.edges(node):
            if edge is Edge.DEFINITION:
                continue
            weight = self.weigh(target)
            if edge is Edge.CHILD:
                deepest, loops_below = max(deepest, weight.cost), max(loops_below, weight.loops)
                price_below |= weight.price
            else:
                here, loops_here = here + weight.cost * times, loops_here + weight.loops * times
                price += weight.price * (times * times)
        return Weight(1 + here + deepest, loops_here + loops_below, price + price_below)


def drop_unsafe_patterns(document: SchemaDocument) -> list[str]:
    """Leave out what ``document.unsafe_patterns`` names, in copies of its parts; the patterns that are gone.

    Where a pattern's absence could make a value fit less than before, ``UnsafeSchema`` is raised instead.
    """
    unsafe = document.unsafe_patterns
    if not unsafe:
        return []
    patterns = sorted(set().union(*unsafe.values()))
    if not _decisive_nodes(document).isdisjoint(unsafe) or _has_unsafe_names_beside_a_rest(document):
        raise UnsafeSchema(f"pattern {patterns[0][:80]!r} looks around or refers back")
    document.root = _rebuilt(document.root, unsafe)
    document.admitted = {name: _rebuilt(admitted, unsafe) for name, admitted in document.admitted.items()}
    return patterns


def _decisive_nodes(document: SchemaDocument) -> set[int]:
    """Every schema that is looked at under ``not`` and the like, however far below."""
    pending = [target for node in document.nodes.values() for target in document.decided_by(node)]
    found: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found.add(id(node))
            pending.extend(target for _, target in document.edges(node))
    return found


def _has_unsafe_names_beside_a_rest(document: SchemaDocument) -> bool:
    """Whether leaving out a pattern of names would leave more for the keywords that look at all other names."""
    names = [
        (document.nodes[key].get("patternProperties"), patterns) for key, patterns in document.unsafe_patterns.items()
    ]
    return any(isinstance(declared, dict) and not unsafe.isdisjoint(declared) for declared, unsafe in names) and any(
        "additionalProperties" in node or "unevaluatedProperties" in node for node in document.nodes.values()
    )


def _rebuilt(value: Any, unsafe: dict[int, set[str]]) -> Any:
    if isinstance(value, list):
        return [_rebuilt(part, unsafe) for part in value]
    if not isinstance(value, dict):
        return value
    gone = unsafe.get(id(value), set())
    rebuilt = {key: _rebuilt(part, unsafe) for key, part in value.items() if key != "pattern" or part not in gone}
    if gone and isinstance(names := rebuilt.get("patternProperties"), dict):
        rebuilt["patternProperties"] = {name: part for name, part in names.items() if name not in gone}
    return rebuilt
