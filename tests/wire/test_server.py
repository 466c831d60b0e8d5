"""The server side of MCP: who asks, and what toolcrib says of itself."""

import json
from dataclasses import replace

import pytest
from msgspec import UNSET

from toolcrib.wire import eras, http, messages
from toolcrib.wire.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION, Inbound, RpcError
from toolcrib.wire.messages import Asker, Greeting, ListHints

MODERN = "2026-07-28"
META = {
    eras.META_VERSION: MODERN,
    eras.META_CLIENT_CAPABILITIES: {"elicitation": {}},
    eras.META_CLIENT_INFO: {"name": "client"},
}


def stated(version: str = MODERN, method: str = "tools/list") -> http.Header:
    return {http.VERSION: version.encode(), http.METHOD: method.encode()}.get


def test_a_modern_request_introduces_its_client():
    """Version, capabilities and name come with each request."""
    expected = Asker(MODERN, {"elicitation": {}}, {"name": "client"})

    assert messages.modern_asker("tools/list", {"_meta": META}) == expected
    assert messages.modern_asker("tools/list", {"_meta": META}, stated()) == expected
    assert expected.is_modern


@pytest.mark.parametrize(
    ("params", "missing"),
    [
        ({}, eras.META_VERSION),
        ({"_meta": None}, eras.META_VERSION),
        ({"_meta": []}, eras.META_VERSION),
        ({"_meta": {eras.META_VERSION: MODERN}}, eras.META_CLIENT_CAPABILITIES),
    ],
)
def test_a_modern_request_that_leaves_something_out_is_told_what(params, missing):
    """The refusal names the missing key."""
    with pytest.raises(RpcError, match=missing) as refused:
        messages.modern_asker("tools/list", params)

    assert refused.value.code == INVALID_PARAMS


def test_a_version_without_handshake_that_is_not_spoken_is_told_which_are():
    """The client can choose another one from the answer."""
    with pytest.raises(RpcError) as refused:
        messages.modern_asker("tools/list", {"_meta": {**META, eras.META_VERSION: "2025-06-18"}})

    assert (refused.value.code, refused.value.data) == (
        UNSUPPORTED_PROTOCOL_VERSION,
        {"supported": ["2026-07-28"], "requested": "2025-06-18"},
    )


def test_a_version_that_is_no_text_is_refused():
    """Numbers and objects name no revision."""
    with pytest.raises(RpcError) as refused:
        messages.modern_asker("tools/list", {"_meta": {**META, eras.META_VERSION: 2026}})

    assert refused.value.code == INVALID_PARAMS


@pytest.mark.parametrize("header", [stated(version="2025-06-18"), stated(method="tools/call"), {}.get])
def test_headers_that_differ_from_the_body_are_a_mismatch(header):
    """Over HTTP both must say the same."""
    with pytest.raises(RpcError) as refused:
        messages.modern_asker("tools/list", {"_meta": META}, header)

    assert refused.value.code == HEADER_MISMATCH


def test_odd_capabilities_count_as_none():
    """A client that sends something else can be asked nothing."""
    asker = messages.modern_asker("tools/list", {"_meta": {**META, eras.META_CLIENT_CAPABILITIES: "all"}})

    assert asker.capabilities == {}


def test_a_request_is_modern_by_its_meta():
    """Nothing else makes it so."""
    sent = ({"_meta": META}, {"_meta": {}}, {"_meta": 5}, {})
    claims = [messages.claims_modern(Inbound("2.0", 1, "x", params)) for params in sent]

    assert claims == [True, False, False, False]


def test_a_handshake_settles_on_a_revision():
    """The client's, if toolcrib knows it."""
    params = {"protocolVersion": "2025-03-26", "capabilities": {"roots": {}}, "clientInfo": {"name": "c"}}

    assert messages.handshake_asker(params) == Asker("2025-03-26", {"roots": {}}, {"name": "c"})
    assert not messages.handshake_asker(params).is_modern
    assert messages.handshake_asker({"protocolVersion": "next", "capabilities": 5}) == Asker("2025-11-25")


def test_a_handshake_without_a_version_is_refused():
    """Nothing can be agreed on."""
    with pytest.raises(RpcError, match="protocolVersion"):
        messages.handshake_asker({})


def test_what_a_session_has_to_remember_of_its_client_is_little():
    """Too many capabilities are refused, because each may count; a long description is done without."""
    info = {"name": "c", "icons": ["x" * messages.INFO_MAX]}
    long = {"protocolVersion": "2025-03-26", "capabilities": {"roots": {}}, "clientInfo": info}

    assert messages.handshake_asker(long) == Asker("2025-03-26", {"roots": {}}, None)
    with pytest.raises(RpcError, match="capabilities may be at most 16384 bytes") as caught:
        messages.handshake_asker(long | {"capabilities": {"experimental": {"x": "y" * messages.CAPABILITIES_MAX}}})
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("params", [UNSET, None])
def test_a_request_without_params_has_empty_ones(params):
    """So that nobody has to ask."""
    assert messages.request_params(Inbound("2.0", 1, "x", params)) == {}


def test_the_initialize_answer_names_version_server_and_instructions():
    """Instructions only if there are any."""
    asker, info = Asker("2025-06-18"), {"name": "toolcrib", "version": "1"}
    plain = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": info,
    }

    greeting = Greeting(info, {"tools": {"listChanged": True}})
    assert json.loads(messages.initialize_result(asker, greeting)) == plain
    assert json.loads(messages.initialize_result(asker, replace(greeting, instructions="Do."))) == {
        **plain,
        "instructions": "Do.",
    }


def test_the_discover_answer_lists_the_stateless_revisions():
    """With the server's name in its meta."""
    info = {"name": "toolcrib", "version": "1"}
    plain = {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": True}},
        "ttlMs": 300_000,
        "cacheScope": "private",
        "_meta": {eras.META_SERVER_INFO: info},
    }

    greeting = Greeting(info, {"tools": {"listChanged": True}})
    assert json.loads(messages.discover_result(greeting)) == plain
    partial = replace(greeting, instructions="Do.", is_whole=False)
    assert json.loads(messages.discover_result(partial)) == {**plain, "instructions": "Do.", "ttlMs": 1_000}


def test_a_listing_says_how_long_it_holds_where_the_era_can():
    """One that says what it lacks holds for a second only."""
    tools, info = b'[{"name":"a"}]', b'{"name":"toolcrib"}'
    lacks = {"toolcrib/missing": ["srv"]}

    assert messages.listing_result(tools) == b'{"tools":[{"name":"a"}]}'
    assert json.loads(messages.listing_result(tools, ListHints(missing=["srv"]))) == {
        "tools": [{"name": "a"}],
        "_meta": lacks,
    }
    whole, partial = (json.loads(messages.listing_result(tools, ListHints(info, some))) for some in ([], ["srv"]))
    assert (whole["ttlMs"], partial["ttlMs"]) == (300_000, 1_000)
    signed = {eras.META_SERVER_INFO: {"name": "toolcrib"}}
    assert (whole["_meta"], partial["_meta"]) == (signed, lacks | signed)


def test_only_meta_that_concerns_the_tool_is_relayed():
    """What belongs to the connection, and the progress token, end here."""
    meta = {**META, "progressToken": 7, "traceparent": "00-1", "my/own": {"a": 1}}

    assert messages.relayed_meta({"_meta": meta}) == {"traceparent": "00-1", "my/own": {"a": 1}}
