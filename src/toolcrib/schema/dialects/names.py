"""Names that every provider takes, by one table that leads back to the originals.

A name that is legal stays as it is. Any other is spelled with legal letters; where that would be too long, or be taken
for another name, it ends in a hash of the original. Nothing depends on the order in which names arrive.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from toolcrib.schema.dialects.reduce import ReducedSchema, reduce_schema
from toolcrib.schema.dialects.subset import Subset

_HASH = 8


class NameRule(msgspec.Struct, frozen=True):
    """What a name may look like."""

    legal: re.Pattern[str]
    """Fits a legal name of any length."""
    illegal: re.Pattern[str]
    """Fits each character that may not be in one."""
    limit: int = 64

    def within(self, limit: int) -> Self:
        """The same letters, at most ``limit`` of them."""
        return replace(self, limit=limit)

    def allows(self, name: str) -> bool:
        """Whether ``name`` can go out as it is."""
        return len(name) <= self.limit and self.legal.fullmatch(name) is not None

    def spell(self, name: str) -> str:
        """``name`` in legal letters, of any length."""
        spelled = self.illegal.sub("_", name)
        return spelled if self.legal.fullmatch(spelled) else f"t_{spelled}"

    def shorten(self, name: str, salt: int = 0) -> str:
        """``name`` in legal letters and with a hash of it at the end."""
        text = f"{name}\0{salt}" if salt else name
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH]
        return f"{self.spell(name)[: self.limit - _HASH - 1].rstrip('_-')}_{digest}"


TOOL_NAMES = NameRule(re.compile(r"[A-Za-z_][A-Za-z0-9_-]*"), re.compile(r"[^A-Za-z0-9_-]"))
"""What Anthropic, OpenAI, Gemini and Ollama all take."""
PARAMETER_NAMES = NameRule(re.compile(r"[A-Za-z0-9_.-]+"), re.compile(r"[^A-Za-z0-9_.-]"))


class NameTable(msgspec.Struct, frozen=True):
    """Names and what they are called outside, both ways."""

    aliases: Mapping[str, str] = {}
    """Original name → the name that goes out."""
    originals: Mapping[str, str] = {}
    """The name that went out → original name."""

    @classmethod
    def of(cls, names: Iterable[str], rule: NameRule = TOOL_NAMES) -> Self:
        """The table of a set of names."""
        aliases = _aliases(sorted(set(names)), rule)
        return cls(aliases, {alias: name for name, alias in aliases.items()})

    @property
    def is_plain(self) -> bool:
        """Whether every name goes out as it is."""
        return all(name == alias for name, alias in self.aliases.items())

    def alias(self, name: str) -> str:
        """What a known name is called outside."""
        return self.aliases[name]

    def original(self, alias: str) -> str:
        """Whose name that is; one that was never given out stays what it is, to be refused where it is used."""
        return self.originals.get(alias, alias)


def _aliases(names: list[str], rule: NameRule) -> dict[str, str]:
    legal = [name for name in names if rule.allows(name)]
    spelled = {name: rule.spell(name) for name in names if not rule.allows(name)}
    alike = Counter(map(_fold, [*legal, *spelled.values()]))
    aliases = {name: name for name in legal}
    crowded = {name: None for name, alias in spelled.items() if len(alias) > rule.limit or alike[_fold(alias)] > 1}
    aliases |= {name: alias for name, alias in spelled.items() if name not in crowded}
    taken = set(aliases.values())
    for name in crowded:
        aliases[name] = next(alias for salt in count() if (alias := rule.shorten(name, salt)) not in taken)
        taken.add(aliases[name])
    return aliases


def _fold(name: str) -> str:
    """What programs that tidy names up make of one: two that fold alike could be mixed up."""
    return re.sub(r"[_.-]+", "_", name.lower()).strip("_")


_BY_NAME = frozenset(
    {"propertyNames", "patternProperties", "dependentRequired", "dependentSchemas", "if", "then", "else"}
)
"""Where parameters have other names, rules about names do not hold."""


def view_with_names(
    schema: Mapping[str, Any], subset: Subset, rule: NameRule
) -> tuple[ReducedSchema, NameTable | None]:
    """The schema in the subset, with legal names of parameters; the table of them where any has another name."""
    view = reduce_schema(schema, subset)
    names = NameTable.of(view.schema.get("properties", ()), rule)
    if names.is_plain:
        return view, None
    without = subset.root_without | _BY_NAME
    if "patternProperties" in schema or "patternProperties" in view.schema:
        without |= {"additionalProperties"}  # without the patterns it would count for too many
    view = reduce_schema(schema, replace(subset, root_without=without))
    return replace(view, schema=_renamed(view.schema, names)), names


def _renamed(schema: dict[str, Any], names: NameTable) -> dict[str, Any]:
    properties = {names.alias(name): part for name, part in schema["properties"].items()}
    renamed = {**schema, "properties": properties}
    if "required" in schema:
        renamed["required"] = [names.aliases.get(name, name) for name in schema["required"]]
    return renamed
