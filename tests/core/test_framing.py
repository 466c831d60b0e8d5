"""The line framer: the same messages, however the bytes arrive."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.framing import HEAD_BYTES, PIECES_MAX, LineFramer

LINES = st.lists(st.binary(min_size=1, max_size=40).filter(lambda line: b"\n" not in line))
CUTS = st.lists(st.integers(1, 50), min_size=1)
LIMIT = 20


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    """``stream`` in pieces of the given sizes, over and over."""
    pieces = []
    for size in itertools.cycle(sizes):
        if not stream:
            return pieces
        pieces.append(stream[:size])
        stream = stream[size:]
    return pieces


def feed_all(pieces: list[bytes], limit: int) -> tuple[list[bytes], list[bytes]]:
    """The lines that came out, and the heads of those that were too long."""
    heads: list[bytes] = []
    framer = LineFramer(limit, heads.append)
    return [line for piece in pieces for line in framer.feed(piece)], heads


@given(LINES, CUTS)
def test_messages_survive_any_way_the_stream_is_cut(lines, sizes):
    """However the bytes are split into reads, the same non-blank lines come out, without their line ends."""
    stream = b"".join(line + b"\n" for line in lines)

    received, overlong = feed_all(cut(stream, sizes), limit=1000)

    assert received == [line.removesuffix(b"\r") for line in lines if line.strip(b" \t\n\r\x0b\x0c")]
    assert overlong == []


@given(LINES, CUTS)
def test_an_overlong_line_is_dropped_the_same_way_however_it_is_cut(lines, sizes):
    """Lines over the limit are reported by their first bytes, all others arrive, and order does not matter."""
    stream = b"".join(line + b"\n" for line in lines)

    assert feed_all(cut(stream, sizes), LIMIT) == feed_all([stream], LIMIT)
    assert feed_all([stream], LIMIT)[1] == [line[:LIMIT] for line in lines if len(line) > LIMIT]


def test_both_kinds_of_line_end_are_taken_off():
    """A server on another system may end its lines with carriage return and newline."""
    assert LineFramer().feed(b'{"a":1}\r\n{"b":2}\n') == [b'{"a":1}', b'{"b":2}']


def test_blank_lines_are_no_messages():
    """Empty lines and lines of white space are skipped."""
    assert LineFramer().feed(b"\n \t\n\r\n{}\n\n") == [b"{}"]


def test_an_unfinished_line_waits_for_its_end():
    """Nothing comes out before the newline."""
    framer = LineFramer()

    assert framer.feed(b'{"a":') == []
    assert framer.feed(b"1}") == []
    assert framer.feed(b"\n") == [b'{"a":1}']


def test_bytes_that_are_not_utf8_pass_unchanged():
    """Decoding is somebody else's business."""
    assert LineFramer().feed(b'{"a":"\xff\xfe"}\n') == [b'{"a":"\xff\xfe"}']


def test_an_overlong_line_is_reported_before_it_ends():
    """A line that never ends is known at once, with enough of its head to tell which answer it was."""
    heads: list[bytes] = []
    framer = LineFramer(1000, heads.append)
    start = b'{"jsonrpc":"2.0","id":7,"result":'

    framer.feed(start + b"x" * 1000)
    framer.feed(b"x" * 5000)

    assert heads == [(start + b"x" * 1000)[:HEAD_BYTES]]
    assert framer.feed(b"\n{}\n") == [b"{}"]


def test_a_line_of_exactly_the_limit_is_taken():
    """The limit itself is allowed."""
    assert feed_all([b"x" * LIMIT + b"\n"], LIMIT) == ([b"x" * LIMIT], [])


def test_a_long_line_costs_time_linear_to_its_length():
    """Copying the line for each piece would copy terabytes here, and be ended as hanging."""
    framer, chunk, count = LineFramer(1 << 30), b"x" * 128, 1 << 18
    for _ in range(count):
        framer.feed(chunk)

    assert len(framer.feed(b"\n")[0]) == count * len(chunk)


def test_a_line_that_drips_is_whole_at_its_end():
    """A byte at a time, however many they are: nothing of it is lost where the pieces are put together."""
    framer = LineFramer()
    line = bytes(97 + number % 26 for number in range(3 * PIECES_MAX + 5))

    received = [found for byte in line + b"\n" for found in framer.feed(bytes([byte]))]

    assert received == [line]
