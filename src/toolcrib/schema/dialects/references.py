"""Where the references of one schema lead. Nothing outside of it is ever looked at."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from toolcrib.schema.cost import refusal
from toolcrib.schema.document import NOWHERE, at_pointer

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_OLD_DRAFT = re.compile(r"https?://json-schema\.org/draft-0[1-7]/schema#?")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")


class References:
    """The references of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.is_old = isinstance(said := root.get("$schema"), str) and _OLD_DRAFT.fullmatch(said) is not None
        """Whether the schema is of a draft in which nothing counts beside a reference."""
        marks = ("$id", "id") if "draft-04" in str(said) else ("$id",)
        self._is_rebased = any(_is_address(part.get(mark)) for part in _inner(root) for mark in marks)
        self.are_safe = not _has_references(root) or refusal(dict(root)) is None
        """Whether following them comes to an end."""

    def find(self, reference: Any) -> Any:
        """The schema a reference means; ``NOWHERE`` if it leads out, or which one is meant is not certain."""
        if not isinstance(reference, str) or not reference.startswith("#") or self._is_rebased:
            return NOWHERE
        fragment = reference[1:]
        if not fragment:
            return self._root
        found = at_pointer(self._root, fragment) if fragment.startswith("/") else self._anchored(fragment)
        return found if isinstance(found, Mapping | bool) else NOWHERE

    def _anchored(self, name: str) -> Any:
        called = self._anchors.get(name, ())
        return called[0] if len(called) == 1 else NOWHERE

    @cached_property
    def _anchors(self) -> Mapping[str, list[Mapping[str, Any]]]:
        """The parts that have names, by these."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for part in _parts(self._root):
            for name in _names_of(part):
                found.setdefault(name, []).append(part)
        return found


def name_of(reference: str) -> str:
    """A name for what a reference means, in letters that do no harm in another reference."""
    return _NOT_PLAIN.sub("_", reference.rpartition("/")[2].lstrip("#"))[:48] or "root"


def is_self_contained(value: Any) -> bool:
    """Whether nothing in a piece of a schema refers to, or is referred to from, elsewhere."""
    marks = {*REFERENCES, "$id", "$schema", "$anchor", "$dynamicAnchor", "id"}
    return all(not isinstance(part.get(mark), str) for part in _parts(value) for mark in marks)


def _has_references(root: Mapping[str, Any]) -> bool:
    return any(mark in part for part in _parts(root) for mark in REFERENCES)


def _names_of(part: Mapping[str, Any]) -> set[str]:
    marks = (part.get("$anchor"), part.get("$id"))
    is_named = (isinstance(marks[0], str), isinstance(marks[1], str) and marks[1].startswith("#"))
    return {str(mark).removeprefix("#" * at) for at, mark in enumerate(marks) if is_named[at]}


def _is_address(identifier: Any) -> bool:
    return isinstance(identifier, str) and not identifier.startswith("#")


def _inner(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (part for part in _parts(root) if part is not root)


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
