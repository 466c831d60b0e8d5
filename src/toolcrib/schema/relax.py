"""Schemas without the patterns that cannot be matched safely, where leaving them out can only accept more."""

from typing import Any

from toolcrib.schema.document import Document, UnsafeSchema


def drop_unsafe_patterns(document: Document) -> list[str]:
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


def _decisive_nodes(document: Document) -> set[int]:
    """Every schema that is looked at under ``not`` and the like, however far below."""
    pending = [target for node in document.nodes.values() for target in document.decided_by(node)]
    found: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found.add(id(node))
            pending.extend(target for _, target in document.edges(node))
    return found


def _has_unsafe_names_beside_a_rest(document: Document) -> bool:
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
