"""The client side of MCP: what toolcrib asks, as bytes."""

import json

import pytest

from toolcrib.wire import eras, messages

INFO = {"name": "toolcrib", "version": "1"}
META = {eras.META_VERSION: "2026-07-28", eras.META_CLIENT_INFO: INFO, eras.META_CLIENT_CAPABILITIES: {"roots": {}}}


def test_the_handshake_offers_the_newest_handshake_revision():
    """Not a stateless one: those have no handshake."""
    assert json.loads(messages.initialize_params(INFO, {"roots": {}})) == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": INFO,
    }


def test_stateless_requests_carry_who_asks():
    """In each request anew."""
    assert messages.modern_meta(INFO, {"roots": {}}) == META


def test_a_page_is_asked_for_by_its_cursor():
    """The first one without, and meta only in the stateless era; an empty cursor is a cursor."""
    assert [
        json.loads(messages.list_params(cursor, meta)) for cursor, meta in ((None, None), ("", None), ("c", META))
    ] == [
        {},
        {"cursor": ""},
        {"cursor": "c", "_meta": META},
    ]


def test_a_call_carries_what_it_was_given():
    """Further request fields beside name and arguments, and meta if there is any."""
    assert json.loads(messages.call_params("add", b'{"a":1}', {}, None)) == {"name": "add", "arguments": {"a": 1}}
    assert json.loads(messages.call_params("add", b"{}", {"requestState": "s"}, META)) == {
        "name": "add",
        "arguments": {},
        "requestState": "s",
        "_meta": META,
    }


@pytest.mark.parametrize("meta", [None, META])
def test_the_quick_way_writes_the_same_as_the_thorough_one(meta):
    """A call with nothing special to say is put together from parts."""
    encoded = b"" if meta is None else json.dumps(meta).encode()

    plain = messages.plain_call_params('a"dd', b'{"a":[1]}', encoded)

    assert json.loads(plain) == json.loads(messages.call_params('a"dd', b'{"a":[1]}', {}, meta))
