"""Names that imitate another tool's: other case, other width, other letters that look the same.

Two servers that call a tool exactly alike are an everyday thing; what is flagged differs and yet looks the same.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

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
    known = list(routes)
    found: dict[str, dict[str, None]] = {}
    for spelling in (_whole, _own, _title):
        for group in _groups(known, spelling):
            _note(group, found)
    return {name: tuple(others)[:MOST_NAMED] for name, others in found.items()}


def pairs(lookalikes: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """Each two names that resemble one another, once."""
    return sorted({(min(name, other), max(name, other)) for name, others in lookalikes.items() for other in others})


_PLAIN_ASCII = bytes(ord(chr(code).lower().translate(_PLAIN)) if code < 128 else code for code in range(256))
"""The same for names of plain letters, which nearly all are; many times faster."""


Spelling = Callable[[Route], str]


def _whole(route: Route) -> str:
    return route.name


def _own(route: Route) -> str:
    return route.original_name


def _title(route: Route) -> str:
    """People write titles in one case or another without meaning anything by it."""
    return route.tool.title.casefold()


def _groups(routes: Iterable[Route], spelling: Spelling) -> Iterator[dict[str, list[str]]]:
    """The exposed names by spelling, for spellings that differ and look the same."""
    looks: dict[str, dict[str, list[str]]] = {}
    for route in routes:
        if spelled := spelling(route):
            looks.setdefault(skeleton(spelled), {}).setdefault(spelled, []).append(route.name)
    return (group for group in looks.values() if len(group) > 1)


def _note(group: Mapping[str, list[str]], found: dict[str, dict[str, None]]) -> None:
    """Enter into ``found`` what the names of one group resemble, looking only as far as will be told."""
    firsts = [
        (spelled, name) for spelled, names in islice(group.items(), MOST_NAMED + 1) for name in names[:MOST_NAMED]
    ]
    for spelled, names in group.items():
        others = dict.fromkeys(name for other, name in firsts if other != spelled)
        for name in names:
            found.setdefault(name, {}).update(others)
