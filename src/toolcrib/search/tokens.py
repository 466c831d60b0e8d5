"""From text to terms: what documents are indexed by and queries are read as.

A word gives one term, its stem. An identifier (``get_user``, ``getUser``, ``IL-6``) gives the terms of its parts and
the joined whole (``getuser``), so that either way of writing finds the other. Numbers and versions stay whole.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from toolcrib.search.stem import stem

WORD = re.compile(r"[^\W_]+(?:[._'’\-]+[^\W_]+)*")
NUMBER = re.compile(r"[0-9]+(?:[.\-][0-9]+)*")
SEPARATOR = re.compile(r"[._\-]+")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")
QUOTED = re.compile(r"[\"“”]([^\"“”]{3,200})[\"“”]")
IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
BREAKS = bytes(
    code if code > 127 or chr(code).isalnum() or chr(code) in "._'-" else ord(" ") for code in range(256)
)  # none of what becomes a space is part of a WORD
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
MARKS = re.compile(r"[^\x00-\x7f\w’]+")
LONGEST = 64  # characters of a term: longer ones (hashes, base64) are cut

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about above after again all also am an and any are as at be because been before being below
        between both but by can could did do does doing down during each few for from further had has have
        having he her here hers him his how i if in into is it its itself just let me more most my no nor
        not now of off on once only or other our ours out over own please same she should so some such than
        that the their theirs them then there these they this those through to too under until up us very
        was we were what when where which while who whom why will with would you your yours s t don im id
        ive""",
    )
)


@dataclass(frozen=True, slots=True)
class Query:
    """What a query asks for: its terms in order, with stop words dropped, and the phrases it quotes."""

    text: str
    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    wholes: frozenset[str] = frozenset()  # the terms that stand for an identifier or a number


def fold(text: str) -> str:
    """Without accents and compatibility forms; case stays, because it shows where an identifier's parts begin."""
    if text.isascii():
        return text
    return BEYOND_ASCII.sub(_uncombined, unicodedata.normalize("NFKD", text))


def _uncombined(found: re.Match[str]) -> str:
    return "" if unicodedata.combining(found[0]) else found[0]


def analyse(text: str) -> list[str]:
    """The terms of a text, in order; an identifier's whole comes after its parts."""
    terms: list[str] = []
    for piece in pieces_of(text):
        terms += terms_in(piece)
    return terms


def pieces_of(text: str) -> list[bytes]:
    """A text in small pieces, none of which cuts a word in two: made quickly, and mostly the same ones again."""
    return plain_bytes(text).translate(BREAKS).split()


def plain_bytes(text: str) -> bytes:
    """A text without accents and compatibility forms; beyond ASCII, marks that end a word are spaces already."""
    return text.encode() if text.isascii() else MARKS.sub(" ", fold(text)).encode(errors="replace")


@lru_cache(maxsize=1 << 17)
def terms_in(piece: bytes) -> tuple[str, ...]:
    """The terms of a piece, in order."""
    return tuple(term for word in WORD.findall(piece.decode()) for term in _terms_of(word))


def read_query(text: str) -> Query:
    """Stop words are dropped, unless there is nothing else."""
    words = WORD.findall(fold(text))
    kept = [word for word in words if word.lower() not in STOP_WORDS] or words
    grouped = [_terms_of(word) for word in kept]
    terms = tuple(term for group in grouped for term in group)
    wholes = frozenset(group[-1] for group in grouped if len(group) > 1 or group[-1][:1].isdigit())
    return Query(text, terms, tuple(_phrases(text)), wholes)


def share_of_phrases(query: Query, text: str) -> float:
    """How many of the phrases a query quotes stand in a text, 0 to 1; 1 when it quotes none."""
    spoken = f" {' '.join(analyse(text))} "
    met = sum(f" {' '.join(phrase)} " in spoken for phrase in query.phrases)
    return met / len(query.phrases) if query.phrases else 1.0


def places(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where each word stands in a text, and its terms; character positions are those of ``text`` itself."""
    for found in WORD.finditer(text):
        yield found.start(), found.end(), _terms_of(fold(found[0]))


def _phrases(text: str) -> Iterator[tuple[str, ...]]:
    for found in QUOTED.finditer(text):
        terms = tuple(analyse(found[1]))
        if len(terms) > 1:
            yield terms


@lru_cache(maxsize=1 << 17)
def _terms_of(word: str) -> tuple[str, ...]:
    if word.isalpha() and word.isascii() and (word.islower() or word.istitle() or word.isupper()):
        return (stem(word.lower()[:LONGEST]),)
    return tuple(part[:LONGEST] for part in _split(word))


def _split(word: str) -> list[str]:
    word = re.sub(r"['’](?:s|S)?(?=$|[._\-])|['’]", "", word) or word
    if NUMBER.fullmatch(word):
        return [word]
    pieces = [piece for part in SEPARATOR.split(word) for piece in CAMEL.split(part) if piece]
    if len(pieces) == 1:
        return _single(pieces[0].lower())
    parts = [term for piece in pieces for term in _single(piece.lower())]
    return [*parts, SEPARATOR.sub("", word).lower()]


def _single(word: str) -> list[str]:
    if not word.isascii() and IDEOGRAPHS.fullmatch(word):
        return [word[at : at + 2] for at in range(len(word) - 1)] or [word]
    return [stem(word)]
