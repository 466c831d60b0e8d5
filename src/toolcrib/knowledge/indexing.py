"""From passages to a segment of the index, and from several segments to one. CPU work: run beside the event loop.

``serve`` is the program of the process beside an addition: passages come in, the index of their words goes out; parts
of an index come in, the merged one goes out. So this imports next to nothing, because the addition waits for it.
"""

import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolcrib.core.knowledge import Arrival, PassageSpan, SegmentRows
from toolcrib.search.hybrid import Segment
from toolcrib.search.vectors import Floats, Vectors

Fields = dict[str, str]
"""The texts of a passage, by what they are."""


Owners = tuple[tuple[int, int], ...]
"""Whose passages they are, as (document key, ordinal)."""


class MergePart(NamedTuple):
    """A segment that is to be merged: which of its positions are alive, or nothing if all are."""

    encoded: bytes
    size: int
    alive: list[int] | None


def build_segment(arrivals: Iterable[Arrival], vectors: Floats | None) -> bytes:
    """The index of the arrivals' passages, in order, with a vector for each or with none; empty if there are none."""
    return _index(indexed_fields(arrivals), vectors)


def index_words(fields: Sequence[Fields]) -> bytes:
    """The index of passages of which these are the fields, without vectors; empty if there are none."""
    return _index(fields, None)


def _index(fields: Sequence[Fields], vectors: Floats | None) -> bytes:
    if not fields:
        return b""

    return Segment.build(fields, vectors).to_bytes()


def join_vectors(words: bytes, vectors: Floats | None) -> bytes:
    """What ``build_segment`` makes of the same passages, from the index of their words."""
    if vectors is None:
        return words

    return Segment(Segment.from_bytes(words).postings, Vectors.build(vectors)).to_bytes()


def indexed_fields(arrivals: Iterable[Arrival]) -> list[Fields]:
    """What is indexed of the arrivals' passages, in order."""
    return [fields_of(arrival.document.title, arrival.text, place) for arrival in arrivals for place in arrival.places]


def fields_of(title: str, text: str, place: PassageSpan) -> Fields:
    """What is indexed of a passage."""
    return {"title": title, "headings": " · ".join(place.headings), "text": text[place.start : place.end]}


def text_to_embed(title: str, text: str, place: PassageSpan) -> str:
    """What is embedded of a passage."""
    fields = fields_of(title, text, place)
    return f"{fields['title']}\n{fields['headings']}\n{fields['text']}"


def texts_to_embed(arrivals: Iterable[Arrival]) -> list[str]:
    """What is embedded of the arrivals' passages, in order."""
    return [
        text_to_embed(arrival.document.title, arrival.text, place) for arrival in arrivals for place in arrival.places
    ]


def merge_segments(parts: Sequence[MergePart]) -> bytes:
    """One segment of what is alive in several; empty if nothing is."""

    keeps = [_mask(part) for part in parts]
    if not any(part.size if keep is None else keep.any() for part, keep in zip(parts, keeps, strict=True)):
        return b""
    segments = [Segment.from_bytes(part.encoded) for part in parts]
    sizes = {segment.vectors.dimensions for segment in segments if segment.vectors is not None}
    segments = even_out(segments, sizes.pop()) if len(sizes) == 1 else segments
    return Segment.merge(segments, keeps).to_bytes()


def part_of(encoded: bytes, size: int, rows: SegmentRows) -> MergePart:
    """A segment of which these rows are alive."""
    return MergePart(encoded, size, None if len(rows.positions) == size else list(rows.positions))


def owners_of(rows: Iterable[SegmentRows]) -> Owners:
    """Whose passages these are, in order."""
    return tuple(owner for each in rows for owner in zip(each.documents, each.ordinals, strict=True))


def _mask(part: MergePart) -> NDArray[np.bool_] | None:
    if part.alive is None:
        return None
    keep = np.zeros(part.size, np.bool_)
    keep[part.alive] = True
    return keep


def even_out(segments: Sequence[Segment], size: int) -> list[Segment]:
    """Segments without vectors of this length get some that say nothing, so that the others are found by theirs."""

    return [
        segment
        if segment.vectors is not None and segment.vectors.dimensions == size
        else Segment(segment.postings, Vectors.build(np.zeros((len(segment), size), np.float32)))
        for segment in segments
    ]


def with_vectors(
    part: tuple[bytes, int, SegmentRows], staged: Mapping[tuple[int, int], bytes], dimensions: int, *, is_whole: bool
) -> tuple[bytes, Owners]:
    """A segment whose words stay as they are, without the dead, and whose vectors are the staged ones.

    Where that is not the whole of it, passages without a staged vector keep what they have.
    """

    merged, owners = merge_segments([part_of(*part)]), owners_of([part[2]])
    if not merged:
        return b"", ()
    segment = Segment.from_bytes(merged)
    rows = np.zeros((len(owners), dimensions), np.float32)
    if not is_whole and segment.vectors is not None:
        rows = segment.vectors.to_floats()
    for at, owner in enumerate(owners):
        if owner in staged:
            rows[at] = np.frombuffer(staged[owner], np.float32)
    return Segment(segment.postings, Vectors.build(rows) if dimensions else None).to_bytes(), owners


HEAD = 8  # bytes that tell a length


def serve() -> None:
    """Do what comes in, until nothing more does."""
    with suppress(EOFError, BrokenPipeError):
        while True:
            write(sys.stdout.buffer, _do(*receive(sys.stdin.buffer)))


def _do(fields: list[Fields], parts: list[MergePart]) -> bytes:
    return merge_segments(parts) if parts else index_words(fields)


def send(pipe: IO[bytes], fields: Sequence[Fields], parts: Sequence[MergePart]) -> None:
    """Ask for the index of passages, or for one of several parts, whose bytes go as they are."""
    write(pipe, pickle.dumps((fields, [part._replace(encoded=b"") for part in parts]), pickle.HIGHEST_PROTOCOL))
    for part in parts:
        write(pipe, part.encoded)


def receive(pipe: IO[bytes]) -> tuple[list[Fields], list[MergePart]]:
    """What is asked for."""
    fields, parts = pickle.loads(read(pipe))  # noqa: S301, who started it sends it
    return fields, [part._replace(encoded=read(pipe)) for part in parts]


def write(pipe: IO[bytes], value: bytes) -> None:
    """Send one value."""
    pipe.write(len(value).to_bytes(HEAD, "big"))
    pipe.write(value)
    pipe.flush()


def read(pipe: IO[bytes]) -> bytes:
    """One value; raises ``EOFError`` if there is none, or not the whole of it."""
    head = pipe.read(HEAD)
    size = int.from_bytes(head, "big")
    value = pipe.read(size) if len(head) == HEAD else b""
    if not size or len(value) < size:
        raise EOFError
    return value
