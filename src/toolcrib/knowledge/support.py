"""Whether what an answer says is in what it cites. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.search.tokens import STOP_WORDS, analyse

COVERED = 0.6
"""The share of a sentence's words that its citations must have."""
NEARLY_COVERED = 0.35
NEAR = 0.6
"""How near in meaning a sentence must be that is covered less."""

_MARKER = re.compile(r"\[(\d{1,3})\]")
_END = re.compile(r"(?<=[.!?…])[\"'’”)\]]*(?:\s*\[\d{1,3}\])*\s+(?=[^\s\[])|\n+")
_LEADING = re.compile(r"^(?:[-*•]|\d+[.)])\s+")

Similarity = Callable[[str, Sequence[str]], float]
"""How near a sentence is in meaning to the nearest of some texts, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Support:
    """One sentence, and what its citations say to it."""

    sentence: str
    markers: tuple[int, ...]
    score: float
    is_supported: bool


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text; markers behind a full stop belong to the sentence before."""
    start = 0
    for gap in _END.finditer(text):
        yield from _some(text[start : gap.end()])
        start = gap.end()
    yield from _some(text[start:])


def _some(piece: str) -> Iterator[str]:
    if any(char.isalnum() for char in piece):
        yield piece.strip()


def markers_in(text: str) -> tuple[int, ...]:
    """The numbers cited, each once, in order."""
    return tuple(dict.fromkeys(int(found) for found in _MARKER.findall(text)))


def without_markers(text: str) -> str:
    """The words alone."""
    return _LEADING.sub("", _MARKER.sub("", text)).strip()


def check(answer: str, cited: Mapping[int, str], similarity: Similarity | None = None) -> list[Support]:
    """Each sentence of an answer, held against the passages it cites."""
    return [_check(sentence, cited, similarity) for sentence in sentences(answer)]


def _check(sentence: str, cited: Mapping[int, str], similarity: Similarity | None) -> Support:
    numbers = markers_in(sentence)
    passages = [cited[number] for number in numbers if number in cited]
    if not passages:
        return Support(sentence, numbers, 0.0, is_supported=False)
    plain = without_markers(sentence)
    covered = coverage(plain, passages)
    near = similarity(plain, passages) if similarity is not None and covered < COVERED else 0.0
    is_supported = covered >= COVERED or (covered >= NEARLY_COVERED and near >= NEAR)
    return Support(sentence, numbers, round(max(covered, min(near, covered + 0.2)), 3), is_supported)


def coverage(sentence: str, passages: Sequence[str]) -> float:
    """The share of a sentence's words that stand in the passages; numbers count three times."""
    said = {term for term in analyse(sentence) if term not in STOP_WORDS}
    if not said:
        return 0.0
    there = {term for passage in passages for term in analyse(passage)}
    weights = {term: 3.0 if any(char.isdigit() for char in term) else 1.0 for term in said}
    return sum(weight for term, weight in weights.items() if term in there) / sum(weights.values())
