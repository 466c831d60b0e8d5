"""Parameter names: what a model writes in snake_case, sent under the name the server knows."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

_SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_CAMEL = re.compile(r"[a-z][a-zA-Z0-9]*[A-Z0-9][a-zA-Z0-9]*")


class Renamer:
    """Renames the arguments of one tool: fixed mappings first, then snake_case to the schema's camelCase."""

    __slots__ = ("_camel", "_declared", "_mapping")

    def __init__(self, mapping: Mapping[str, str], declared: frozenset[str], camel: Mapping[str, str]) -> None:
        self._mapping, self._declared, self._camel = mapping, declared, camel

    @classmethod
    def for_schema(cls, schema: Mapping[str, Any], mapping: Mapping[str, str]) -> Self | None:
        """The renamer of a tool; ``None`` when no argument of it can ever need another name."""
        properties = schema.get("properties")
        declared = frozenset(properties if isinstance(properties, Mapping) else ())
        camel = [name for name in declared if isinstance(name, str) and _CAMEL.fullmatch(name)]
        return cls(mapping, declared, _fold(camel)) if mapping or camel else None

    def apply(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """The arguments under the server's names, and which were renamed; a name already in use is not overwritten."""
        renames: dict[str, str] = {}
        taken = set(arguments)
        for name in arguments:
            target = self._target(name)
            if target not in taken:
                renames[name] = target
                taken.add(target)
        if not renames:
            return arguments, renames
        return {renames.get(name, name): value for name, value in arguments.items()}, renames

    def _target(self, name: str) -> str:
        if name in self._mapping:
            return self._mapping[name]
        if "_" not in name or name in self._declared or not _SNAKE.fullmatch(name):
            return name
        exact = to_camel(name)
        return exact if exact in self._declared else self._camel.get(exact.lower(), name)


def to_camel(name: str) -> str:
    """``device_name`` as ``deviceName``."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _fold(camel: list[str]) -> dict[str, str]:
    """Camel-case names by their lower case, so that ``device_id`` finds ``deviceID``; ambiguous ones are left out."""
    times = Counter(name.lower() for name in camel)
    return {name.lower(): name for name in camel if times[name.lower()] == 1}
