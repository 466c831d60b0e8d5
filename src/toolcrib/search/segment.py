"""Segments: entries indexed together, written and read as one frame of bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.lexical import Postings
from toolcrib.search.pack import pack, unpack
from toolcrib.search.vectors import Vectors

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

KIND = "segment"


@dataclass(frozen=True, slots=True)
class Entry:
    """What is indexed of one passage: its texts by field, such as title, headings, text."""

    fields: Mapping[str, str]


class Segment:
    """Entries 0 to n-1 with their words and, perhaps, vectors; built once, never changed."""

    def __init__(self, postings: Postings, vectors: Vectors | None) -> None:
        self.postings = postings
        self.vectors = vectors

    def __len__(self) -> int:
        return len(self.postings)

    @classmethod
    def build(cls, entries: Sequence[Entry], vectors: Floats | None = None) -> "Segment":
        """``vectors`` has a row for each entry, as an embedder made them."""
        if vectors is not None and len(vectors) != len(entries):
            raise ValueError(f"{len(entries)} entries and {len(vectors)} vectors do not belong together")
        fields = list(dict.fromkeys(name for entry in entries for name in entry.fields))
        postings = Postings.build((entry.fields for entry in entries), fields)
        return cls(postings, None if vectors is None else Vectors.build(vectors))

    @classmethod
    def merge(cls, segments: Sequence["Segment"], keeps: Sequence[Mask | None]) -> "Segment":
        """One segment of the kept entries, in order; without vectors if one of the segments has none."""
        postings = Postings.merge([segment.postings for segment in segments], keeps)
        vectors = [segment.vectors for segment in segments if segment.vectors is not None]
        return cls(postings, Vectors.merge(vectors, keeps) if len(vectors) == len(segments) else None)

    @classmethod
    def from_bytes(cls, buffer: bytes | memoryview) -> "Segment":
        """A segment whose arrays are views into ``buffer``."""
        parts, _ = unpack(KIND, buffer)
        vectors = parts.get("vectors")
        return cls(
            Postings.from_bytes(parts["postings"].data, is_checked=True),
            None if vectors is None else Vectors.from_bytes(vectors.data, is_checked=True),
        )

    def to_bytes(self) -> bytes:
        """A frame that ``from_bytes`` reads, of the same bytes for the same entries."""
        frames = {"postings": self.postings.to_bytes()}
        if self.vectors is not None:
            frames["vectors"] = self.vectors.to_bytes()
        return pack(KIND, {name: np.frombuffer(frame, np.uint8) for name, frame in frames.items()}, {})
