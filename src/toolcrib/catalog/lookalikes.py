"""Names that imitate another tool's: other case, other width, other letters that look the same.

Two servers that call a tool exactly alike are an everyday thing; what is flagged differs and yet looks the same.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest

from toolcrib.catalog.catalog import Route

MOST_NAMED = 5
"""How many names one name is said to resemble: a thousand spellings of one name make no million pairs."""

_LOOKS_LIKE = {
    "a": "аɑα",
    "b": "ьƅв",
    "c": "сϲᴄ",
    "d": "ԁɗ",
    "e": "еєҽε",
    "f": "ғſ",
    "g": "ɡց",
    "h": "һнհ",
    "j": "јϳ",
    "k": "кκᴋ",
    "l": "1i|!ıіιӏןاł",
    "m": "мᴍ",
    "n": "пոɴη",
    "o": "0оοօσဝ๐০ø",
    "p": "рρ",
    "q": "ԛգ",
    "r": "гᴦɾ",
    "s": "ѕꜱς",
    "t": "тτᴛ",
    "u": "υսцᴜ",
    "v": "ѵνᴠ",
    "w": "ԝѡωᴡш",
    "x": "хχ",
    "y": "уүγʏ",
    "z": "ᴢʐ",
    "_": "-. /:·‐‑‒–—−",
}
_PLAIN = str.maketrans({other: letter for letter, others in _LOOKS_LIKE.items() for other in others})
_PLAIN_ASCII = bytes(ord(chr(code).lower().translate(_PLAIN)) if code < 128 else code for code in range(256))
"""The same for names of plain letters, which nearly all are; many times faster."""


def skeleton(text: str) -> str:
    """What is left of a name when all that looks alike is the same."""
    if text.isascii():
        plain = text.encode().translate(_PLAIN_ASCII).decode()
    else:
        plain = _bare(text).casefold().translate(_PLAIN)
    plain = plain.replace("rn", "m").replace("vv", "w")
    while "__" in plain:
        plain = plain.replace("__", "_")
    return plain


def _bare(text: str) -> str:
    """Full-width and other compatible forms as plain letters, without accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def find_lookalikes(routes: Iterable[Route]) -> dict[str, tuple[str, ...]]:
    """The exposed names that resemble others, and which: by their whole, their own name or their title."""
    return LookalikeIndex().follow({}, {route.name: route for route in routes})


def pairs(lookalikes: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """Each two names that resemble one another, once."""
    return sorted({(min(name, other), max(name, other)) for name, others in lookalikes.items() for other in others})


def new_pairs(old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The pairs among ``new`` that were not among ``old``."""
    changed = {name: others for name, others in new.items() if others != old.get(name)}
    return [(one, two) for one, two in pairs(changed) if two not in old.get(one, ()) and one not in old.get(two, ())]


Spelling = Callable[[Route], str]
Group = dict[str, set[str]]
"""Exposed names by spelling, of spellings that look the same."""


def _whole(route: Route) -> str:
    return route.name


def _own(route: Route) -> str:
    return route.original_name


def _title(route: Route) -> str:
    """People write titles in one case or another without meaning anything by it."""
    return route.tool.title.casefold()


SPELLINGS: tuple[Spelling, ...] = (_whole, _own, _title)


class LookalikeIndex:
    """Which names resemble which; follows the routes as they change, at the cost of what changed."""

    def __init__(self) -> None:
        self._by_spelling = [_Groups() for _ in SPELLINGS]
        self._found: dict[str, tuple[str, ...]] = {}

    def follow(self, old: Mapping[str, Route], new: Mapping[str, Route]) -> dict[str, tuple[str, ...]]:
        """What resembles what among ``new``; ``old`` are the routes of the last time."""
        changed = [name for name, route in new.items() if old.get(name) is not route]
        come = [new[name] for name in changed if name not in old or not _is_spelled_alike(old[name], new[name])]
        gone = [old[name] for name in (*(old.keys() - new.keys()), *(route.name for route in come)) if name in old]
        touched = set[str]()
        for spelling, groups in zip(SPELLINGS, self._by_spelling, strict=True):
            touched |= groups.change(_spelled(gone, spelling), _spelled(come, spelling))
        for name in touched:
            self._look_at(name)
        return dict(self._found)

    def _look_at(self, name: str) -> None:
        others = dict.fromkeys(other for groups in self._by_spelling for other in groups.others.get(name, ()))
        if others:
            self._found[name] = tuple(others)[:MOST_NAMED]
        else:
            self._found.pop(name, None)


def _is_spelled_alike(route: Route, other: Route) -> bool:
    """Of two routes with one exposed name."""
    return route.original_name == other.original_name and route.tool.title == other.tool.title


def _spelled(routes: Iterable[Route], spelling: Spelling) -> list[tuple[str, str]]:
    """Exposed names with how they are spelled, of those that are."""
    return [(route.name, spelled) for route in routes if (spelled := spelling(route))]


class _Groups:
    """Exposed names by one kind of spelling, in groups that look the same."""

    def __init__(self) -> None:
        self.others: dict[str, tuple[str, ...]] = {}
        """By exposed name, the first few it resembles."""
        self._looks: dict[str, Group] = {}
        self._crowded: set[str] = set()
        """The looks that several spellings have."""

    def change(self, gone: Iterable[tuple[str, str]], come: Iterable[tuple[str, str]]) -> set[str]:
        """Take names out and in; returns those that may resemble others than before."""
        changed: dict[str, None] = {}
        touched = set()
        for name, spelled in gone:
            look = skeleton(spelled)
            _take_out(self._looks[look], name, spelled)
            changed[look] = None
            if self.others.pop(name, None) is not None:
                touched.add(name)
        for name, spelled in come:
            look = skeleton(spelled)
            self._looks.setdefault(look, {}).setdefault(spelled, set()).add(name)
            changed[look] = None
        for look in changed:
            touched |= self._look_at(look)
        return touched

    def _look_at(self, look: str) -> set[str]:
        """Find out anew what the names of one group resemble."""
        group = self._looks[look]
        if len(group) > 1:
            self._crowded.add(look)
            found = _others(group)
            self.others.update(found)
            return set(found)
        if not group:
            del self._looks[look]
        if look not in self._crowded:
            return set()
        self._crowded.discard(look)
        return {name for names in group.values() for name in names if self.others.pop(name, None) is not None}


def _take_out(group: Group, name: str, spelled: str) -> None:
    names = group[spelled]
    names.discard(name)
    if not names:
        del group[spelled]


def _others(group: Group) -> dict[str, tuple[str, ...]]:
    """What each name of a group resembles, looking only as far as will be told: first names first."""
    firsts = nsmallest(MOST_NAMED + 1, group, key=lambda spelled: min(group[spelled]))
    shown = [(spelled, name) for spelled in firsts for name in nsmallest(MOST_NAMED, group[spelled])]
    usual = tuple(name for _, name in shown)[:MOST_NAMED]
    own = {spelled: tuple(name for other, name in shown if other != spelled)[:MOST_NAMED] for spelled in firsts}
    return {name: own.get(spelled, usual) for spelled, names in group.items() for name in names}
