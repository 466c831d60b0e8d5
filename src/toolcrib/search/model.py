"""The meaning of texts without a neural network at run time: one vector for each piece of a word, averaged.

The table is made by ``bench/make_embedding.py`` from all-MiniLM-L6-v2 (see ``data/README.md``); words are cut into
pieces by the rule of its vocabulary: WordPiece, longest match first.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Sequence
from importlib import resources
from itertools import pairwise
from string import punctuation

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.pack import unpack
from toolcrib.search.pieces import Pieces, is_new, joined

Floats = NDArray[np.float32]
Cut = tuple[NDArray[np.uint32], NDArray[np.int64]]

KIND = "embedding"
BUNDLED = "english.bin"
LONGEST_WORD = 100  # characters; longer ones say nothing
MOST_REMEMBERED = 1 << 16  # words whose pieces are kept at hand
FEW = 4  # texts that are cut word by word
BATCH = 256  # texts averaged at once
SPACE, LETTER, MARK = range(3)
KINDS = np.array(
    [SPACE if chr(at).isspace() and at < 128 else MARK if chr(at) in punctuation else LETTER for at in range(256)],
    np.uint8,
)
SPLIT = re.compile(r"[^\s!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
DROPPED = bytes(at for at in range(128) if CONTROL.match(chr(at)))
LOWER = bytes(ord(" ") if at in b"\t\n\r" else at for at in range(256)).lower()
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
IDEOGRAPHS = (("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0002ceaf"))


class WordPieces:
    """Cuts text into the pieces of a vocabulary, as the uncased BERT tokenizer does."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = self._ids["[UNK]"]
        self._idle: deque[Pieces] = deque(maxlen=2)
        """Words that were met, and that nobody looks up now: several threads may be at it."""

    def cut(self, texts: Sequence[str]) -> Cut:
        """The numbers of the pieces of all texts, in order, and how many there are up to the end of each text."""
        words = self._take_idle()
        cut = _cut_few(texts, words) if len(texts) <= FEW else _cut_many(texts, words)
        if len(words) < MOST_REMEMBERED:
            self._idle.append(words)
        return cut

    def _take_idle(self) -> Pieces:
        try:
            return self._idle.pop()
        except IndexError:
            return Pieces(lambda word: self._cut_word(word.decode()))

    def _cut_word(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        pieces, start = [], 0
        while start < len(word):
            end, mark = len(word), "##" if start else ""
            while end > start and mark + word[start:end] not in self._ids:
                end -= 1
            if end == start:
                return [self._unknown]
            pieces.append(self._ids[mark + word[start:end]])
            start = end
        return pieces


def _cut_few(texts: Sequence[str], known: Pieces) -> Cut:
    """As ``_cut_many``, and sooner done with a query."""
    cut = [[known.meaning(word.encode(errors="replace")) for word in SPLIT.findall(_plain(text))] for text in texts]
    pieces = [piece for words in cut for word in words for piece in word]
    return np.array(pieces, np.uint32), np.cumsum([sum(map(len, words)) for words in cut])


def _cut_many(texts: Sequence[str], words: Pieces) -> Cut:
    buffer, past = joined([_plain_bytes(text) for text in texts])
    kinds = KINDS[np.frombuffer(buffer, np.uint8)]
    is_edge = (kinds[1:] != kinds[:-1]) | (kinds[1:] == MARK)  # a mark is a word of its own
    edges = np.flatnonzero(is_edge) + 1
    is_word = kinds[edges] != SPACE
    starts, ends = edges[is_word], np.append(edges[1:], len(buffer))[is_word]
    pieces, before = words.meant(words.look_up(buffer, starts, ends))
    return pieces, before[np.searchsorted(starts, past)]


def _plain_bytes(text: str) -> bytes:
    """Lower case and without control characters; all white space is a space."""
    if text.isascii():
        return text.encode().translate(LOWER, DROPPED)
    return " ".join(_plain(text).split()).encode(errors="replace")


def _plain(text: str) -> str:
    """Lower case, without accents and control characters; marks and ideographs are words of their own."""
    text = CONTROL.sub("", text)
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", BEYOND_ASCII.sub(_spaced, text))
    return BEYOND_ASCII.sub(_bare, decomposed).lower()


def _bare(found: re.Match[str]) -> str:
    return "" if unicodedata.category(found[0]) == "Mn" else found[0]


def _spaced(found: re.Match[str]) -> str:
    character = found[0]
    category = unicodedata.category(character)
    if category.startswith("P") or any(first <= character <= last for first, last in IDEOGRAPHS):
        return f" {character} "
    return "" if category in ("Cf", "Co", "Cn", "Cc") else character


class StaticEmbedder:
    """Averages the vectors of a text's pieces; the table already weighs rare pieces more than frequent ones."""

    def __init__(self, name: str, table: NDArray[np.int8], scales: Floats, vocabulary: Sequence[str]) -> None:
        self._name = name
        self._table = table
        self._scales = scales
        self._pieces = WordPieces(vocabulary)

    @classmethod
    def from_bytes(cls, buffer: bytes | memoryview) -> "StaticEmbedder":
        """The embedder of a file that ``bench/make_embedding.py`` wrote."""
        arrays, about = unpack(KIND, buffer)
        vocabulary = arrays["vocabulary"].tobytes().decode().split("\n")
        return cls(about["name"], arrays["table"], arrays["scales"], vocabulary)

    @property
    def name(self) -> str:
        """Which table this is."""
        return self._name

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        return int(self._table.shape[1])

    def embed(self, texts: Sequence[str]) -> Floats:
        """One row of length 1 for each text; zeros for a text without a known piece."""
        batches = [self._embed(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
        return np.concatenate(batches) if batches else np.zeros((0, self.dimensions), np.float32)

    def _embed(self, texts: Sequence[str]) -> Floats:
        pieces, weights, past = _counted(*self._pieces.cut(texts), len(self._table))
        weights *= self._scales[pieces]
        sums = np.zeros((len(texts), self.dimensions), np.float32)
        for at, (start, end) in enumerate(pairwise([0, *past.tolist()])):
            if end > start:
                rows = self._table.take(pieces[start:end], axis=0)
                sums[at] = weights[start:end] @ rows.astype(np.float32)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        result: Floats = sums / np.maximum(lengths, np.float32(1e-9))
        return result


def _counted(
    pieces: NDArray[np.uint32], past: NDArray[np.int64], known: int
) -> tuple[NDArray[np.intp], Floats, NDArray[np.intp]]:
    """The different pieces of each text, how often it has each, and how many there are up to the end of each text."""
    texts = np.arange(len(past) + 1, dtype=np.uint32) * np.uint32(known)  # a batch is small enough for that
    held = texts[np.searchsorted(past, np.arange(len(pieces)), "right")] + pieces
    held.sort()
    firsts = np.flatnonzero(is_new(held))
    counts = np.append(firsts[1:], len(held))[: len(firsts)] - firsts
    held = held[firsts]
    return (held % known).astype(np.intp), counts.astype(np.float32), np.searchsorted(held, texts[1:])


def bundled() -> StaticEmbedder:
    """The embedder that comes with the package: English, offline, a few megabytes."""
    return StaticEmbedder.from_bytes((resources.files("toolcrib.search") / "data" / BUNDLED).read_bytes())
