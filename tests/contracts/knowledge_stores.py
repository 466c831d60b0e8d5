"""What the suites over knowledge stores share: a collection, documents for it, and their index."""

import numpy as np

from toolcrib.core.knowledge import (
    Arrival,
    Collection,
    CollectionChange,
    DocumentInfo,
    Embedding,
    Heading,
    Outline,
    PassageSpan,
    Stamp,
    document_id,
    text_check,
)
from toolcrib.knowledge.indexing import build_segment

NOTES = Collection("notes", "Notes", "What was noted.", {"team": "a"}, "words", 8, "2026-01-01T00:00:00Z")
BETTER = Embedding("better", "openai:large", 16)


def arrival(source, text="one two\n\nthree four", **said):
    middle = len(text) // 2
    places = (PassageSpan(0, middle, 1, ("Top",)), PassageSpan(middle, len(text), 2, ("Top", "Sub")))
    outline = Outline((0, middle), (Heading(0, 1, "Top"), Heading(middle, 2, "Sub")))
    fields = {"date": "2026-05-01T00:00:00Z", "type": "text", "added": "2026-06-01T00:00:00Z"} | said
    document = DocumentInfo(
        document_id("notes", source), "notes", source, source.upper(), stamp=Stamp(f"h{text_check(text)}"), **fields
    )
    return Arrival(document, text, places, outline)


def indexed(*arrivals, is_lacking=False):
    """The index of these arrivals, as it is made when they come in."""
    count = sum(len(each.places) for each in arrivals)
    return build_segment(arrivals, None if is_lacking else np.full((count, 8), 0.25, np.float32))


def vector(value, size=16):
    """A vector that no rounding changes."""
    return np.full(size, value, np.float32).tobytes()


async def add(store, *arrivals, segment=None):
    encoded = indexed(*arrivals) if segment is None else segment
    return await store.apply(CollectionChange("notes", tuple(arrivals), segment=encoded))


async def two(notes, *, is_lacking=False):
    """The keys of two documents with two passages each."""
    arrivals = (arrival("a"), arrival("b"))
    segment = indexed(*arrivals, is_lacking=is_lacking)
    await notes.apply(CollectionChange("notes", arrivals, segment=segment, is_lacking=is_lacking))
    return [each.key for each in await notes.documents("notes")]
