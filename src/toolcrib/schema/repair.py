"""Arguments that do not fit, put right where they can only have been meant one way.

A name is repaired if the schema refuses it, it is close to exactly one name of the schema, and that one is not given.
Text is read as JSON where the schema wants an object, an array or a number. A ``null`` for what may be left out, and
is never ``null``, is left out. Nothing that fits is ever touched.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

SHORTEST_TYPO = 4
"""In shorter names, one letter more or less makes another word."""
LONGEST_NAME = 100

_BETWEEN_WORDS = re.compile(r"[\s_.-]+")
_POINTER = re.compile(r"#/(\$defs|definitions)/([^/]+)")
_READ: Mapping[str, tuple[type, ...]] = {"object": (dict,), "array": (list,), "number": (int, float), "integer": (int,)}
_MOST_FORMS = 20
_MOST_COMPARISONS = 5_000
"""Of names: beyond that nobody made a slip."""

Repaired = tuple[dict[str, Any], tuple[str, ...]]


def repair(schema: Mapping[str, Any], arguments: Mapping[str, Any], accepts: Callable[[Any], bool]) -> Repaired | None:
    """Arguments that fit, and what was changed in words; ``None`` where no certain repair makes them fit."""
    declared = schema.get("properties")
    if not isinstance(declared, Mapping):
        return None
    names = _renames(schema, arguments, declared)
    notes = [f"read {old[:LONGEST_NAME]!r} as {new!r}" for old, new in names.items()]
    repaired = {names.get(name, name): value for name, value in arguments.items()}
    for name, value in repaired.items():
        if (
            isinstance(value, str)
            and name in declared
            and (read := _as_json(value, declared[name], schema)) is not None
        ):
            repaired[name] = read
            notes.append(f"read the text of {name!r} as JSON")
    for name in [name for name, value in repaired.items() if value is None and _may_go(name, schema, declared)]:
        del repaired[name]
        notes.append(f"left out {name!r}, which is never null")
    return (repaired, tuple(notes)) if notes and accepts(repaired) else None


def _renames(schema: Mapping[str, Any], arguments: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, str]:
    """Which names mean which: each only if nothing else is near, and nobody else means the same."""
    is_closed = schema.get("additionalProperties") is False or schema.get("unevaluatedProperties") is False
    if not is_closed or "patternProperties" in schema:
        return {}
    strange = [name for name in arguments if name not in declared]
    if len(strange) * len(declared) > _MOST_COMPARISONS:
        return {}
    meant = {name: near_name(name, declared) for name in strange}
    wanted = [target for target in meant.values() if target]
    return {
        name: target
        for name, target in meant.items()
        if target and target not in arguments and wanted.count(target) == 1
    }


def near_name(name: str, known: Mapping[str, Any]) -> str:
    """The one known name that ``name`` is a spelling of; nothing if there is none, or more than one."""
    if len(name) > LONGEST_NAME:
        return ""
    same = [other for other in known if _plain(other) == _plain(name)]
    found = same or [other for other in known if _is_typo(_plain(name), _plain(other))]
    return found[0] if len(found) == 1 else ""


def _plain(name: str) -> str:
    return _BETWEEN_WORDS.sub("", name).casefold()


def _is_typo(given: str, meant: str) -> bool:
    """Whether one letter is too many, missing, another, or in its neighbour's place; digits are never typos."""
    if len(meant) < SHORTEST_TYPO or abs(len(given) - len(meant)) > 1:
        return False
    start = next((i for i, pair in enumerate(zip(given, meant, strict=False)) if pair[0] != pair[1]), None)
    start = min(len(given), len(meant)) if start is None else start
    rest, wanted = given[start:], meant[start:]
    is_near = rest[1:] == wanted[1:] or rest[1:] == wanted or rest == wanted[1:] or _is_swap(rest, wanted)
    return is_near and not any(letter.isdigit() for letter in rest[:1] + wanted[:1])


def _is_swap(rest: str, wanted: str) -> bool:
    return len(rest) > 1 and rest[1::-1] + rest[2:] == wanted


def _may_go(name: str, schema: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
    """Whether the schema says what an argument is, that it is not ``null``, and nothing of that it must be there."""
    required = schema.get("required", [])
    kinds = _kinds(declared.get(name), schema)
    return bool(kinds) and "null" not in kinds and isinstance(required, list) and name not in required


def _as_json(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """What the text says, if the schema takes such values and no text."""
    kinds = _kinds(schema, root)
    if not kinds or "string" in kinds:
        return None
    wanted = {kind for name in kinds for kind in _READ.get(name, ())}
    try:
        read = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return read if type(read) in wanted else None


def _kinds(schema: Any, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """The types a schema takes; none if it does not say."""
    if not isinstance(schema, Mapping) or depth > _MOST_FORMS:
        return set()
    if isinstance(reference := schema.get("$ref"), str) and (place := _POINTER.fullmatch(reference)):
        target = root.get(place[1])
        return _kinds(target.get(place[2]), root, depth + 1) if isinstance(target, Mapping) else set()
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return {kind for kind in kinds if isinstance(kind, str)}
    forms = schema.get("anyOf", schema.get("oneOf"))
    found = [_kinds(form, root, depth + 1) for form in forms] if isinstance(forms, list) else []
    return set().union(*found) if found and all(found) else set()
