"""From passages to a segment of the index, and from several segments to one. CPU work: run beside the event loop."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolcrib.core.knowledge import Arrival, Place, SegmentRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from toolcrib.search.vectors import Embedder

EMBEDDED_AT_ONCE = 256


def build_segment(arrivals: Iterable[Arrival], embedder: "Embedder | None") -> bytes:
    """The index of the arrivals' passages, in order; empty if there are none."""
    passages = [(arrival, place) for arrival in arrivals for place in arrival.places]
    if not passages:
        return b""
    from toolcrib.search.hybrid import Entry, Segment

    entries = [Entry(fields_of(arrival.document.title, arrival.text, place)) for arrival, place in passages]
    vectors = None if embedder is None else _embed([entry.fields for entry in entries], embedder)
    return Segment.build(entries, vectors).to_bytes()


def fields_of(title: str, text: str, place: Place) -> dict[str, str]:
    """What is indexed of a passage."""
    return {"title": title, "headings": " · ".join(place.headings), "text": text[place.start : place.end]}


def _embed(entries: Sequence[Mapping[str, str]], embedder: "Embedder") -> "NDArray[np.float32]":
    import numpy as np

    texts = [f"{fields['title']}\n{fields['headings']}\n{fields['text']}" for fields in entries]
    starts = range(0, len(texts), EMBEDDED_AT_ONCE)
    return np.concatenate([embedder.embed(texts[start : start + EMBEDDED_AT_ONCE]) for start in starts])


def merge_segments(parts: Sequence[tuple[bytes, int, SegmentRows]]) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """One segment of what is alive in several (their bytes, sizes and rows), and whose passages it holds."""
    import numpy as np

    from toolcrib.search.hybrid import Segment

    keeps = []
    for _, size, rows in parts:
        keep = np.zeros(size, np.bool_)
        keep[list(rows.positions)] = True
        keeps.append(keep)
    owners = tuple(
        (int(document), int(ordinal))
        for _, _, rows in parts
        for document, ordinal in zip(rows.documents, rows.ordinals, strict=True)
    )
    if not owners:
        return b"", ()
    return Segment.merge([Segment.from_bytes(encoded) for encoded, _, _ in parts], keeps).to_bytes(), owners
