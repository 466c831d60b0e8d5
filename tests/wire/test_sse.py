"""Server-sent events: the same events, however the network cuts the stream."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import ProtocolError
from toolcrib.wire.http import PING, SseParser, encode_event

DATA = st.binary(min_size=1, max_size=30).filter(lambda data: not set(data) & set(b"\r\n"))
CUTS = st.lists(st.integers(1, 20), min_size=1)


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    """``stream`` in pieces of the given sizes, over and over."""
    pieces = []
    for size in itertools.cycle(sizes):
        if not stream:
            return pieces
        pieces.append(stream[:size])
        stream = stream[size:]
    return pieces


def feed_all(parser: SseParser, pieces: list[bytes]) -> list[bytes]:
    """The events that come out."""
    return [event for piece in pieces for event in parser.feed(piece)]


@given(st.lists(DATA), CUTS)
def test_events_survive_any_way_the_network_cuts_them(events, sizes):
    """However the bytes are split into reads, the same events come out."""
    parser = SseParser()
    stream = b"".join(encode_event(event) for event in events)

    received = feed_all(parser, cut(stream, sizes))

    assert received == events


@given(st.lists(DATA), CUTS)
def test_both_line_ends_and_pings_change_nothing(events, sizes):
    """Carriage returns before newlines and comment lines between events are no part of the data."""
    parser = SseParser()
    stream = b"".join(PING + b"data: %b\r\n\r\n" % event for event in events)

    received = feed_all(parser, cut(stream, sizes))

    assert received == events


def test_data_lines_of_one_event_are_joined_by_newlines():
    """As the format says, with or without the space after the colon."""
    assert SseParser().feed(b"event: message\ndata: one\ndata:two\ndata\n\n") == [b"one\ntwo\n"]


def test_an_event_without_data_is_nothing():
    """Comments, names and empty data alone make no event."""
    assert SseParser().feed(b": hello\n\nevent: ping\n\ndata:\n\n") == []


def test_the_last_id_and_the_retry_time_are_kept():
    """Both are needed to open a stream again; a retry time that is no number is ignored."""
    parser = SseParser()

    parser.feed(b"id: 7\nretry: 1500\ndata: x\n\nid: 8\nretry: soon\n\n")

    assert (parser.last_id, parser.retry_ms) == ("8", 1500)


def test_an_absurd_retry_time_is_ignored():
    """A number of thousands of digits is no time to wait, and no reason to fail."""
    parser = SseParser()

    assert parser.feed(b"retry: " + b"9" * 10_000 + b"\ndata: x\n\n") == [b"x"]
    assert parser.retry_ms is None


@pytest.mark.parametrize("endless", [b"x" * 11, b"data: x\n"])
def test_an_event_beyond_the_limit_is_a_protocol_error(endless):
    """A stream without an end never fills the memory, with or without line breaks."""
    parser = SseParser(limit=64)

    with pytest.raises(ProtocolError, match="64 bytes"):
        feed_all(parser, [endless] * 10)


@given(st.lists(st.binary(min_size=1, max_size=8).filter(lambda data: b"\n" not in data and b"\r" not in data)), CUTS)
def test_any_number_of_small_events_is_within_the_limit(events, sizes):
    """The limit is one event's, not the stream's."""
    parser = SseParser(limit=80)
    stream = b"".join(encode_event(event) for event in events)

    received = feed_all(parser, cut(stream, sizes))

    assert received == events
