"""Arguments that do not fit, put right where they can only have been meant one way; inside objects and lists, too.

A name is repaired if the schema refuses it, it is close to exactly one name of the schema, and that one is not given.
Text is read as JSON where the schema wants an object, an array, a number or a boolean and no text; 0 and 1 are booleans
where only those are taken, numbers are text where only that is. A word of an enumeration may be written in another
case. A ``null`` for what may be left out, and is never ``null``, is left out. Nothing that fits is ever touched.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

import msgspec

SHORTEST_TYPO = 4
"""In shorter names, one letter more or less makes another word."""
LONGEST_NAME = 100

_BETWEEN_WORDS = re.compile(r"[\s_.-]+")
_POINTER = re.compile(r"#/(\$defs|definitions)/([^/]+)")
_READ: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "string": (str,),
    "null": (type(None),),
}
_TRUTHS: Mapping[Any, bool] = {"true": True, "false": False, "1": True, "0": False, 1: True, 0: False}
_MOST_FORMS = 20
_MOST_COMPARISONS = 5_000
"""Of names: beyond that nobody made a slip."""
_DEEPEST = 20
_MOST_NOTES = 50
"""Whoever makes more slips than this is told what is wrong instead."""

_MOST_VALUES = 20_000
"""A text may hold far more values than it looks, written as JSON in JSON: beyond these nothing is looked at."""

Repaired = tuple[dict[str, Any], tuple[str, ...]]


def repair(schema: Mapping[str, Any], arguments: Mapping[str, Any], accepts: Callable[[Any], bool]) -> Repaired | None:
    """Arguments that fit, and what was changed in words; ``None`` where no certain repair makes them fit.

    Values that did not have to be changed are the very same objects.
    """
    if not isinstance(schema.get("properties"), Mapping):
        return None
    notes: list[str] = []
    repaired = _Repair(schema, notes).object(arguments, schema, "")
    is_little = 0 < len(notes) <= _MOST_NOTES
    return (repaired, tuple(notes)) if is_little and accepts(repaired) else None


class _Repair:
    """One pass over arguments; ``notes`` takes what was done, in words."""

    def __init__(self, root: Mapping[str, Any], notes: list[str]) -> None:
        self._root, self._notes, self._left = root, notes, _MOST_VALUES

    def object(self, given: Mapping[str, Any], schema: Mapping[str, Any], place: str, depth: int = 0) -> dict[str, Any]:
        """The object with its names, its values and its nulls put right."""
        declared = schema.get("properties")
        declared = declared if isinstance(declared, Mapping) else {}
        names = _renames(schema, given, declared)
        self._notes += [f"read {_at(place, old)!r} as {_at(place, new)!r}" for old, new in names.items()]
        repaired = {names.get(name, name): value for name, value in given.items()}
        for name, value in list(repaired.items()):
            if value is None and self._may_go(name, schema, declared):
                del repaired[name]
                self._notes.append(f"left out {_at(place, name)!r}, which is never null")
            else:
                part = declared.get(name, schema.get("additionalProperties"))
                repaired[name] = self._value(value, part, _at(place, name), depth + 1)
        is_same = len(repaired) == len(given) and all(repaired.get(name) is value for name, value in given.items())
        return given if is_same and isinstance(given, dict) else repaired

    def _may_go(self, name: str, schema: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
        """Whether the schema says what an argument is, that it is not ``null``, and not that it must be there."""
        required = schema.get("required", [])
        kinds = _kinds(declared.get(name), self._root)
        return bool(kinds) and "null" not in kinds and isinstance(required, list) and name not in required

    def _value(self, value: Any, schema: Any, place: str, depth: int) -> Any:
        """What was meant by a value; itself if that fits, or nobody can tell."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST or len(self._notes) > _MOST_NOTES:
            return value
        kinds = _kinds(schema, self._root)
        if kinds and not any(type(value) in _READ.get(kind, ()) for kind in kinds):
            value = self._converted(value, kinds, place)
        if type(value) is str:
            return self._word(value, _words(schema, self._root), place)
        if type(value) is dict and (inner := _form_of(schema, "object", self._root)) is not None:
            return self.object(value, inner, place, depth)
        if type(value) is list and (inner := _form_of(schema, "array", self._root)) is not None:
            return self._items(value, inner.get("items"), place, depth)
        return value

    def _items(self, given: list[Any], schema: Any, place: str, depth: int) -> list[Any]:
        items = [self._value(item, schema, f"{place}[{index}]", depth + 1) for index, item in enumerate(given)]
        return given if all(map(is_, items, given)) else items

    def _converted(self, value: Any, kinds: set[str], place: str) -> Any:
        """A value of the wrong kind as one that the schema takes."""
        if type(value) is str and (read := _as_json(value, kinds)) is not None:
            self._notes.append(f"read the text of {place!r} as JSON")
            return read
        if kinds - {"null"} == {"boolean"} and type(value) in (str, int):
            truth = _TRUTHS.get(value.strip().casefold() if isinstance(value, str) else value)
            if truth is not None:
                self._notes.append(f"read {place!r} as {'true' if truth else 'false'}")
                return truth
        if kinds - {"null"} == {"string"} and type(value) in (int, float):
            self._notes.append(f"read the number of {place!r} as text")
            return msgspec.json.encode(value).decode()
        return value

    def _word(self, given: str, words: Sequence[Any], place: str) -> str:
        """The word of an enumeration that was written in another case."""
        if not words or given in words:
            return given
        found = [word for word in words if isinstance(word, str) and word.casefold() == given.strip().casefold()]
        if len(found) != 1:
            return given
        self._notes.append(f"read {given[:LONGEST_NAME]!r} of {place!r} as {found[0]!r}")
        return str(found[0])


def _at(place: str, name: str) -> str:
    return f"{place}.{name[:LONGEST_NAME]}" if place else name[:LONGEST_NAME]


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


def _as_json(text: str, kinds: set[str]) -> Any:
    """What the text says, if values of such kinds are taken and no text."""
    wanted = {kind for name in kinds - {"string", "null"} for kind in _READ.get(name, ())}
    try:
        read = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return read if type(read) in wanted else None


def _kinds(schema: Any, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """The types a schema takes; none if it does not say."""
    if not isinstance(schema, Mapping) or depth > _MOST_FORMS:
        return set()
    if (target := _target(schema, root)) is not None:
        return _kinds(target, root, depth + 1)
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return {kind for kind in kinds if isinstance(kind, str)}
    if "enum" in schema or "const" in schema:
        return {_KIND_OF.get(type(word), "null") for word in _own_words(schema)}
    found = [_kinds(form, root, depth + 1) for form in _forms(schema)]
    return set().union(*found) if found and all(found) else set()


_KIND_OF: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def _target(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """What a reference stands for, or the only part of ``allOf``; ``None`` for any other schema."""
    reference, parts = schema.get("$ref"), schema.get("allOf")
    if isinstance(reference, str) and (place := _POINTER.fullmatch(reference)):
        definitions = root.get(place[1])
        return definitions.get(place[2], {}) if isinstance(definitions, Mapping) else {}
    return parts[0] if isinstance(parts, list) and len(parts) == 1 and "type" not in schema else None


def _forms(schema: Mapping[str, Any]) -> list[Any]:
    forms = schema.get("anyOf", schema.get("oneOf"))
    return forms if isinstance(forms, list) else []


def _form_of(schema: Any, kind: str, root: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any] | None:
    """The one form of a schema that takes values of a kind; ``None`` if there is none, or more than one."""
    if not isinstance(schema, Mapping) or depth > _MOST_FORMS:
        return None
    if (target := _target(schema, root)) is not None:
        return _form_of(target, kind, root, depth + 1)
    if not _forms(schema):
        return schema if kind in _kinds(schema, root) else None
    fitting = [form for form in _forms(schema) if kind in _kinds(form, root)]
    return _form_of(fitting[0], kind, root, depth + 1) if len(fitting) == 1 else None


def _words(schema: Any, root: Mapping[str, Any], depth: int = 0) -> list[Any]:
    """The words that a schema enumerates, in all its forms; none where one of them takes any text."""
    if not isinstance(schema, Mapping) or depth > _MOST_FORMS:
        return []
    if (target := _target(schema, root)) is not None:
        return _words(target, root, depth + 1)
    if not _forms(schema):
        return _own_words(schema)
    texts = [form for form in _forms(schema) if "string" in (_kinds(form, root) or {"string"})]
    found = [_words(form, root, depth + 1) for form in texts]
    return [word for words in found for word in words] if all(found) else []


def _own_words(schema: Mapping[str, Any]) -> list[Any]:
    words = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return words if isinstance(words, list) else []
