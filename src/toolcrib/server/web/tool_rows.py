"""The tools somebody may see, and those that fit what they look for."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import quote, urlencode

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.disorder import Path, show_path
from toolcrib.core.access import NATIVE
from toolcrib.core.offers import OfferKind
from toolcrib.schema.text import printable
from toolcrib.server.answers import not_found
from toolcrib.server.rest.tools import has_words
from toolcrib.server.views.caller import CallerView
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.schema_parts import brief

PAGE = 100
MEANT = 20
"""Tools shown at most where none holds the very words."""
HELD = "held"


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """What is looked for."""

    q: str = ""
    server: str = ""
    level: str = ""
    policy: str = ""
    """A policy, or ``held`` for what is in quarantine."""

    @classmethod
    def of(cls, visit: PageRequest) -> "ToolFilter":
        """From an address."""
        return cls(*map(visit.word, cls.__slots__))

    @property
    def is_anything(self) -> bool:
        """Whether nothing in particular is looked for."""
        return self == ToolFilter()

    def address(self, page: int = 1) -> str:
        """Where this is shown."""
        found = {name: value for name, value in asdict(self).items() if value}
        return place_with("/tools", found | ({"page": str(page)} if page > 1 else {}))

    def fits(self, route: Route, words: Sequence[str]) -> bool:
        """Whether a tool is wanted."""
        if self.server and self.server != (route.server or NATIVE):
            return False
        if self.level and self.level != route.tool.security_level:
            return False
        if self.policy and self.policy != (HELD if route.held else route.policy):
            return False
        return has_words(route, words)


def place_with(path: str, query: Mapping[str, str]) -> str:
    """An address, with a query if there is one."""
    return f"{path}?{urlencode(query)}" if query else path


CHOSEN = "tool:"
"""Before the name of a tool that is ticked in a form."""


def chosen_tools(visit: PageRequest) -> list[str]:
    """The tools that are ticked in a form, as far as they are there."""
    named = [field.removeprefix(CHOSEN) for field in visit.form() if field.startswith(CHOSEN)]
    return [name for name in named if visit.view.tool(name) is not None]


def tool_address(name: str) -> str:
    """The page of a tool."""
    return f"/tools/{quote(name, safe='')}"


def offer_address(key: str) -> str:
    """The page of an offer of any kind, by its key."""
    kind, _, name = key.partition(" ")
    if not name:
        return tool_address(key)
    return f"/{'prompts' if kind == OfferKind.PROMPT else 'resources'}/{quote(name, safe='')}"


def known_tool(visit: PageRequest) -> Route:
    """The tool an address names, if its visitor may know of it."""
    route = visit.view.tool(visit.params["name"])
    if route is None:
        raise not_found("tool", visit.params["name"], "Look for it in the list of tools.")
    return route


async def find_tools(view: CallerView, routes: Sequence[Route], wanted: ToolFilter) -> list[Route]:
    """What holds all the words, names that begin with the first one before others; if nothing does, what is meant."""
    words = wanted.q.casefold().split()
    found = [route for route in routes if wanted.fits(route, words)]
    if not words:
        return found
    if not found:
        others = [route for route in routes if wanted.fits(route, ())]
        return [hit.route for hit in await view.find(wanted.q, MEANT, others)]
    return sorted(found, key=lambda route: (*_rank(route.name.casefold(), route.original_name.casefold(), words[0]),))


def _rank(name: str, original: str, word: str) -> tuple[bool, bool, str]:
    return not (name.startswith(word) or original.startswith(word)), word not in name, name


MOST_CHANGES = 100
MOST_WORDS = 600
LONGEST = 20_000
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text, changed or not."""

    text: str
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """One place of the definition that is different."""

    place: str
    before: tuple[Piece, ...] = ()
    """Empty if it was not there."""
    after: tuple[Piece, ...] = ()
    """Empty if it is gone."""

    @property
    def words(self) -> str:
        """What happened to it."""
        return "changed" if self.before and self.after else "new" if self.after else "gone"


def changes_between(old: Any, new: Any) -> list[DefinitionChange]:
    """Every place that is different, in the order of the new definition, then what is gone."""
    before, after = dict(_places(old)), dict(_places(new))
    places = [*after, *(place for place in before if place not in after)]
    different = [place for place in places if before.get(place) != after.get(place)]
    return [_change(place, before.get(place), after.get(place)) for place in different[:MOST_CHANGES]]


def _places(value: Any, path: Path = ()) -> Iterator[tuple[str, str]]:
    """The single values of a definition, by where they stand."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _places(inner, (*path, str(key)))
    elif value is not None or path:
        text = value if isinstance(value, str) else "\n".join(value) if _is_lines(value) else brief(value)
        yield printable(show_path(path)), printable(text)[:LONGEST]


def _is_lines(value: Any) -> bool:
    """Whether it is a text in lines, as apps are kept."""
    return isinstance(value, list) and len(value) > 1 and all(isinstance(line, str) for line in value)


def _change(place: str, before: str | None, after: str | None) -> DefinitionChange:
    if before is None or after is None:
        return DefinitionChange(place, _whole(before), _whole(after))
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return DefinitionChange(place, _whole(before), _whole(after))
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return DefinitionChange(
        place,
        _pieces((old[a:b], tag != "equal") for tag, a, b, _, _ in steps),
        _pieces((new[c:d], tag != "equal") for tag, _, _, c, d in steps),
    )


def _whole(text: str | None) -> tuple[Piece, ...]:
    return () if text is None else (Piece(text or "(empty)", is_changed=True),)


def _pieces(runs: Iterator[tuple[list[str], bool]]) -> tuple[Piece, ...]:
    found = tuple(Piece("".join(words), is_changed) for words, is_changed in runs if words)
    return found or (Piece("(empty)", is_changed=True),)
