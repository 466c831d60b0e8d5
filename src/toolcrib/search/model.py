"""The meaning of texts without a neural network at run time: one vector for each piece of a word, averaged.

The table is made by ``bench/make_embedding.py`` from all-MiniLM-L6-v2 (see ``data/README.md``); words are cut into
pieces by the rule of its vocabulary: WordPiece, longest match first.
"""

import re
import unicodedata
from collections.abc import Sequence
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.pack import unpack

Floats = NDArray[np.float32]

KIND = "embedding"
BUNDLED = "english.bin"
LONGEST_WORD = 100  # characters; longer ones say nothing
MOST_REMEMBERED = 1 << 16  # words whose pieces are kept at hand
BATCH = 256  # texts averaged at once
SPLIT = re.compile(r"[^\s!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
IDEOGRAPHS = (("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0002ceaf"))


class WordPieces:
    """Cuts text into the pieces of a vocabulary, as the uncased BERT tokenizer does."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = self._ids["[UNK]"]
        self._known: dict[str, list[int]] = {}

    def cut(self, text: str) -> list[int]:
        """The numbers of the pieces, in order."""
        known, pieces = self._known, []
        for word in SPLIT.findall(_plain(text)):
            found = known.get(word)
            pieces += self._remember(word) if found is None else found
        return pieces

    def _remember(self, word: str) -> list[int]:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        pieces = self._known[word] = self._cut_word(word)
        return pieces

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
        cut = [self._pieces.cut(text) for text in texts]
        sums = np.zeros((len(texts), self.dimensions), np.float32)
        for at, pieces in enumerate(cut):
            if pieces:
                rows = np.array(pieces, np.intp)
                sums[at] = self._scales.take(rows) @ self._table.take(rows, axis=0).astype(np.float32)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        result: Floats = sums / np.maximum(lengths, np.float32(1e-9))
        return result


def bundled() -> StaticEmbedder:
    """The embedder that comes with the package: English, offline, a few megabytes."""
    return StaticEmbedder.from_bytes((resources.files("toolcrib.search") / "data" / BUNDLED).read_bytes())
