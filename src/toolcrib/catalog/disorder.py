"""Differences that are no change: a list of words in another order, and fields whose changes a person ignores.

A server that writes a Python set into a schema shows it in another order at each start. The same words, none of them
twice, may stand in any order in a ``default`` (a list, or a text with commas), and in a description where a default or
``enum`` of the same definition is a list of just these words: then the description says nothing in that order that the
list itself could not. ``required``, ``enum`` and lists of types are sets by the rules of JSON Schema and never had an
order. Everywhere else order counts: ``examples`` and ``const`` are data, ``prefixItems`` are positions, and the words
of a text make its meaning. Whatever is in doubt is a change.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORDS_MAX = 500
"""Of one list; a longer one is no default anybody reads."""
TEXT_MAX = 32_000
UNTRUSTED = frozenset({"name", "uri", "uriTemplate", "inputSchema", "outputSchema", "arguments"})
"""What a person cannot trust as a whole: it would be the same as no pin at all."""
PATHS_MAX = 100
"""Fields of one definition."""
_DATA = frozenset({"examples", "const", "enum"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"default", "enum"})
_GLUE = _split(
    "a all also always an and any are as at be before but by can do does dont first for from has have ignore if in"
    " instead instruction instructions into is it its let make me must my never no not of on only or other otherwise"
    " our please previous prompt reveal secret secrets send shall should so some system tell than that the their them"
    " then there these they this those to unless until user use was we were when where which who will with without"
    " you your"
)
"""Words that make a sentence of a list: with one of them it says something, and in another order something else."""
_WORD = r"[A-Za-z0-9_*](?:[A-Za-z0-9_.*-]{0,62}[A-Za-z0-9_*])?"
_ITEM = rf"(?:'{_WORD}'|\"{_WORD}\"|`{_WORD}`|{_WORD})"
_PLAIN = re.compile(_WORD)
_BRACKETS = {"[": "]", "{": "}", "(": ")"}
_KEY = re.compile(r"[\w$-]+")

Path = tuple[str | int, ...]
Definition = Mapping[str, Any]


@cache
def _run() -> re.Pattern[str]:
    """Words with commas between them; compiled when first needed, for that takes half a millisecond of a start."""
    return re.compile(rf"(?<![\w.*'\"`-]){_ITEM}(?:, ?{_ITEM})+(?![\w*'\"`-])")


def show_path(path: Path) -> str:
    """A place in a definition as people write it; no two places are written the same."""
    shown = ""
    for step in path:
        if isinstance(step, int):
            shown += f"[{step}]"
        else:
            key = step if _KEY.fullmatch(step) else msgspec.json.encode(step).decode()
            shown += f".{key}" if shown else key
    return shown


def has_field(definition: Definition, field: str) -> bool:
    """Whether a definition has something at a place."""
    return any(show_path(path) == field for path, _ in _walk(definition))


def disorder_between(accepted: Definition, shown: Definition) -> tuple[str, ...]:
    """The places that hold the same words in another order; whether anything else is different is not looked at."""
    before, after = _Calm(accepted), _Calm(shown)
    found = [
        show_path(path)
        for path, old, new in _differences(accepted, shown)
        if (calm := before.of(path, old)) is not None and calm == after.of(path, new)
    ]
    return tuple(sorted(found[:PATHS_MAX]))


def different_fields(old: Definition, new: Definition) -> list[str]:
    """The places whose value is another, or that only one of them has; of a list and all below, just the list."""
    before, after = dict(_fields(old)), dict(_fields(new))
    return [place for place in dict.fromkeys((*before, *after)) if before.get(place) != after.get(place)][:PATHS_MAX]


def _fields(value: Any, path: Path = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _fields(item, (*path, key))
    elif path:
        yield show_path(path), value


def relieve(definition: Definition, disorder: Collection[str], ignored: Collection[str]) -> dict[str, Any]:
    """The definition without what is ignored, and with the lists at the places of ``disorder`` in one fixed order."""
    calm = _Calm(definition)

    def at(path: Path, value: Any) -> Any:
        place = show_path(path)
        if place in ignored:
            return msgspec.UNSET
        found = calm.of(path, value) if place in disorder else None
        return value if found is None else found

    return dict(_rebuilt(definition, at, ()))


def _rebuilt(value: Any, at: Callable[[Path, Any], Any], path: Path) -> Any:
    """The value with what ``at`` puts in place of each of its parts; it is not looked for within those."""
    if path and (put := at(path, value)) is not value:
        return put
    if isinstance(value, Mapping):
        parts = {key: _rebuilt(item, at, (*path, key)) for key, item in value.items()}
        return {key: item for key, item in parts.items() if item is not msgspec.UNSET}
    if isinstance(value, list | tuple):
        items = [_rebuilt(item, at, (*path, index)) for index, item in enumerate(value)]
        return [item for item in items if item is not msgspec.UNSET]
    return value


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every place of a definition, with what stands there."""
    steps = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for step, item in steps:
        yield (*path, step), item
        yield from _walk(item, (*path, step))


def _differences(old: Any, new: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """What stands at places of both and is not the same, as far as its order may not count."""
    if path and path[-1] == "default" and not _is_named(path):
        if old != new:
            yield path, old, new
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key, item in old.items():
            if key in new and (_is_names(path) or key not in _DATA):
                yield from _differences(item, new[key], (*path, key))
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        for index, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _differences(one, other, (*path, index))
    elif old != new:
        yield path, old, new


def _is_names(path: Path) -> bool:
    """Whether the keys of what stands there are names of the author's choice."""
    return bool(path) and path[-1] in _NAMED and not _is_named(path)


def _is_named(path: Path) -> bool:
    """Whether the last step is such a name."""
    return len(path) > 1 and _is_names(path[:-1])


class _Calm:
    """Brings what stands in a definition into the one order that all orders of it have in common."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._known: set[frozenset[str]] | None = None

    def of(self, path: Path, value: Any) -> Any:
        """The value with its words in order; ``None`` if its order counts."""
        if _is_named(path):
            return None
        if path[-1] == "default":
            return _in_order(value)
        if path[-1] == "description" and isinstance(value, str):
            return _run().sub(self._ordered_run, value)
        return None

    def _ordered_run(self, run: re.Match[str]) -> str:
        words = _words_of(run[0])
        if self._known is None:
            self._known = set(_lists_in(self._definition))
        return run[0] if words is None or frozenset(words) not in self._known else _sorted_text(run[0])


def _lists_in(definition: Definition) -> Iterator[frozenset[str]]:
    for path, value in _walk(definition):
        if path[-1] in _LISTS and not _is_named(path):
            words = _words_of(value)
            if words is not None:
                yield frozenset(words)


def _in_order(value: Any) -> Any:
    """A default with its words in order; ``None`` if it is no list of words."""
    if _words_of(value) is None:
        return None
    if not isinstance(value, str):
        return sorted(value)
    opening, inner, closing = _frame(value)
    return opening + _sorted_text(inner) + closing


def _sorted_text(run: str) -> str:
    return ",".join(sorted(item.strip() for item in run.split(",")))


def _frame(text: str) -> tuple[str, str, str]:
    """A text that may be a list, without the brackets around it, and these."""
    closing = _BRACKETS.get(text[:1], "")
    return (text[0], text[1:-1], closing) if closing and text.endswith(closing) else ("", text, "")


def _words_of(value: Any) -> list[str] | None:
    """The words of a list, or of a text that is nothing but a list; ``None`` if it is none, or says something."""
    if isinstance(value, str):
        inner = _frame(value)[1] if len(value) <= TEXT_MAX else ""
        items = [item.strip().strip("'\"`") for item in inner.split(",")] if _run().fullmatch(inner) else []
    elif isinstance(value, list | tuple):
        items = [item for item in value if isinstance(item, str) and _PLAIN.fullmatch(item)]
        items = items if len(items) == len(value) else []
    else:
        items = []
    is_set = 1 < len(items) <= WORDS_MAX and len(set(items)) == len(items)
    return items if is_set and not any(item.lower() in _GLUE for item in items) else None
