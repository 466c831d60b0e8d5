"""Packing: only for those who can read it, and only where it is worth it."""

import pytest

from toolcrib.core.access import Caller
from toolcrib.server.answers import HTML, HttpAnswer
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.static_files import PACK_FROM, accepts_gzip, finish
from toolcrib.transports.http.message import HttpRequest


def visit(accepted: bytes | None) -> PageRequest:
    headers = {} if accepted is None else {b"accept-encoding": accepted}
    return PageRequest(HttpRequest(b"GET", b"/", headers, None), None, Caller("x"), is_known=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (b"gzip", True),
        (b"br, GZIP;q=0.8", True),
        (b"*", True),
        (b"br", False),
        (b"gzip;q=0", False),
        (b"gzip; q=0.0", False),
        (None, False),
    ],
)
def test_packing_is_asked_for(accepted, expected):
    assert accepts_gzip(visit(accepted)) is expected


def test_small_bodies_and_packed_ones_stay_as_they_are():
    """Packing twice helps nobody."""
    small = finish(visit(b"gzip"), HttpAnswer(200, b"x" * PACK_FROM, HTML))
    large = finish(visit(b"gzip"), HttpAnswer(200, b"x" * (PACK_FROM + 1), HTML))
    packed = finish(visit(b"gzip"), HttpAnswer(200, b"x" * 9_000, HTML, ((b"content-encoding", b"gzip"),)))

    assert len(small.body) == PACK_FROM
    assert (b"content-encoding", b"gzip") in large.headers
    assert len(large.body) < 100
    assert len(packed.body) == 9_000
