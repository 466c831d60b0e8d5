"""A tool in one line, and what a text costs a model."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from toolcrib.schema.text import clean_text

DEEPEST = 3  # levels of nested objects and lists that are spelled out
MOST_VALUES = 8  # of one enumeration
MOST_MEMBERS = 12  # of one nested object
MOST_ABOUT = 100  # characters of what it is for
_WORDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n\s*\n|\n\s*[-*#]")
_POINTER = "#/"


def signature(name: str, schema: Mapping[str, Any], description: str = "") -> str:
    """``name(needed: str, optional?: [int]) - What it does``; a question mark stands behind what may be left out."""
    told = about(description)
    return f"{name}({_Writer(schema).members(schema, DEEPEST)}){f' - {told}' if told else ''}"


def about(description: str) -> str:
    """The first sentence of a description in one line, cut at a word if it is long."""
    first = _SENTENCE.split(clean_text(description).strip(), maxsplit=1)[0]
    line = " ".join(first.split()).rstrip(".")
    return line if len(line) <= MOST_ABOUT else f"{line[:MOST_ABOUT].rsplit(' ', 1)[0]} ..."


class _Writer:
    """Writes the parts of one schema; knows the definitions that its references point to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def members(self, schema: Mapping[str, Any], depth: int, most: int | None = None) -> str:
        """The properties of an object, needed ones first."""
        properties, required = schema.get("properties"), schema.get("required")
        found = properties if isinstance(properties, Mapping) else {}
        needed = set(map(str, required)) if isinstance(required, list) else set()
        names = sorted(found, key=lambda name: name not in needed)
        marked = [(name, name if name in needed else f"{name}?") for name in names[:most]]
        written = [f"{shown}: {self.type_of(found[name], depth)}" for name, shown in marked]
        more = [] if len(written) == len(names) else ["..."]
        return ", ".join([*written, *more, *self._others(schema, depth)])

    def _others(self, schema: Mapping[str, Any], depth: int) -> list[str]:
        """Members of any name, where the schema says what they are."""
        others = schema.get("additionalProperties")
        return [f"*: {self.type_of(others, depth)}"] if isinstance(others, Mapping) and others else []

    def type_of(self, schema: object, depth: int) -> str:
        """The type of a value, as short as it can be written."""
        if not isinstance(schema, Mapping):
            return "any"
        if "$ref" in schema:
            return self._referred(schema["$ref"], depth)
        if isinstance(values := [schema["const"]] if "const" in schema else schema.get("enum"), list):
            return _choices(values)
        parts = next((schema[key] for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list)), None)
        if parts is not None:
            return _union([self.type_of(part, depth) for part in parts])
        if isinstance(schema.get("allOf"), list) and schema["allOf"]:
            return self.type_of(schema["allOf"][0], depth)
        return self._plain(schema, depth)

    def _plain(self, schema: Mapping[str, Any], depth: int) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union([self._plain({**schema, "type": each}, depth) for each in kind])
        if kind == "array" or (kind is None and "items" in schema):
            return f"[{self.type_of(schema.get('items'), depth - 1)}]" if depth and "items" in schema else "[any]"
        if kind == "object" or (kind is None and "properties" in schema):
            return f"{{{self.members(schema, depth - 1, MOST_MEMBERS) if depth else '...'}}}"
        return _WORDS.get(str(kind), "any")

    def _referred(self, reference: object, depth: int) -> str:
        """What a reference within the schema points to; each costs a level, so that none goes on for ever."""
        if not isinstance(reference, str) or not reference.startswith(_POINTER) or not depth:
            return "any"
        found: Any = self._root
        for part in reference.removeprefix(_POINTER).split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return self.type_of(found, depth - 1)


def _literal(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _choices(values: Sequence[object]) -> str:
    shown = [_literal(value) for value in values[:MOST_VALUES]]
    return "|".join(shown if len(values) <= MOST_VALUES else [*shown, "..."])


def _union(types: Sequence[str]) -> str:
    """The alternatives, each once; that a value may also be null says little that is not said by its question mark."""
    each = list(dict.fromkeys(types))
    return "|".join([one for one in each if one != "null"] or each)


_PIECE = re.compile(
    r"[ -/:-@\[-`{-~\t]?(?:[a-z]{1,99}+|[A-Z]{1,99}+[a-z]{0,99}+)(?![^\x00-\x7f\W\d_])(?:'(?:s|t|re|ve|m|ll|d)\b)?"
    r"|[^\w\r\n]?[^\W\d_]{1,99}"  # the same in other alphabets: a word, with the sign before it
    r"|\d{1,3}"
    r"| ?(?:[!-/:-@\[-`{-~]|[^\w\s]){1,99}[\r\n/]{0,99}"  # signs
    r"|\s{0,99}[\r\n]{1,99}|\s{1,99}(?!\S)|\s{1,99}"
)
"""Nothing without an end: the pieces are remembered."""
_TOKEN_WORDS = {
    "plain lower": (100, 100, 102, 102, 103, 112, 117, 116, 133, 132, 142, 135, 191, 241, 281, 340),
    "plain title": (100, 100, 102, 103, 104, 106, 107, 111, 126, 133, 134, 134, 172, 190, 201, 239),
    "plain upper": (100, 100, 131, 144, 154, 145, 148, 211, 208, 216, 258, 283, 308, 333, 358, 383),
    "space lower": (100, 100, 100, 100, 101, 101, 102, 103, 108, 106, 105, 109, 107, 116, 126, 143),
    "space title": (100, 100, 102, 104, 108, 117, 111, 123, 129, 154, 154, 138, 139, 136, 185, 210),
    "space upper": (100, 100, 114, 114, 129, 131, 173, 201, 161, 251, 336, 318, 343, 368, 393, 418),
    "under lower": (100, 101, 110, 103, 110, 107, 128, 137, 160, 164, 152, 212, 201, 259, 290, 315),
    "under title": (100, 100, 164, 182, 227, 273, 266, 306, 294, 313, 315, 340, 365, 390, 415, 440),
    "under upper": (100, 106, 122, 129, 137, 144, 247, 177, 202, 256, 286, 311, 336, 361, 386, 411),
    "other lower": (100, 108, 110, 131, 168, 124, 169, 181, 179, 181, 215, 205, 244, 283, 340, 340),
    "other title": (106, 132, 170, 179, 218, 238, 265, 293, 309, 319, 401, 390, 468, 493, 518, 543),
    "other upper": (100, 126, 206, 222, 238, 250, 218, 289, 319, 318, 369, 394, 419, 444, 469, 494),
}
"""Hundredths of a token by the number of letters: for each sign before a word, and each way to write it."""
_SIGNS = (100, 100, 102, 129, 199, 284, 336, 351, 434, 522, 533, 602)
_MORE_LETTERS, _MORE_SIGNS, _FOREIGN_BYTE = 40, 55, 27
_SCHEMA_WORDS = frozenset(
    {
        "type",
        "string",
        "description",
        "properties",
        "required",
        "object",
        "input",
        "schema",
        "name",
        "integer",
        "number",
        "boolean",
        "array",
        "items",
        "enum",
        "default",
        "title",
        "additional",
    }
)
"""What every definition is full of; each is one token."""
_BEFORE = {" ": "space", "_": "under"}


def count_tokens(text: str) -> int:
    """About how many tokens a model reads for this text."""
    return (sum(map(_cost, _PIECE.findall(text))) + 50) // 100


@lru_cache(maxsize=1 << 14)
def _cost(piece: str) -> int:
    """Hundredths of a token."""
    if not piece.isascii():
        return max(100, _FOREIGN_BYTE * len(piece.encode(errors="replace")))
    if piece[-1].isalpha():
        return _word_cost(piece)
    return 100 if piece[-1].isdigit() or piece.isspace() else _by_length(_SIGNS, len(piece.strip()), _MORE_SIGNS)


def _word_cost(piece: str) -> int:
    is_plain = piece[0].isalpha()
    letters = piece if is_plain else piece[1:]
    if is_plain and letters.lower() in _SCHEMA_WORDS:
        return 100
    case = "lower" if letters.islower() else "upper" if len(letters) > 1 and letters.isupper() else "title"
    before = "plain" if is_plain else _BEFORE.get(piece[0], "other")
    return _by_length(_TOKEN_WORDS[f"{before} {case}"], len(letters), _MORE_LETTERS)


def _by_length(costs: tuple[int, ...], length: int, more: int) -> int:
    return costs[min(length, len(costs)) - 1] + more * max(0, length - len(costs))
