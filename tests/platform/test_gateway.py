"""The gateway: both addresses, both forms, patience, and every way it can fail."""

import asyncio
import json

import pytest
from tests.platform.fake_gateway import jwt, serving

from toolcrib.config.manifest import ManifestEntry
from toolcrib.core.errors import CallerError
from toolcrib.platform.gateway import (
    GatewayRequest,
    Patience,
    PlatformFailure,
    app_segment,
    ask_gateway,
    gateway_urls,
    read_reply,
)

TOKEN = jwt(sub="nobody")
SOON = Patience(2.0, 5.0, delays_s=(0.0, 0.0))
MAIL = ManifestEntry("mail", "mcp_Mail")


def question(gateway, **more):
    return GatewayRequest(gateway.url, "app", {"Authorization": f"Bearer {TOKEN}"}, **more)


async def test_the_servers_of_an_application_are_listed(gateway):
    listed = await ask_gateway(question(gateway), SOON)

    assert listed.entries == (MAIL,)
    assert [(asked.method, asked.path) for asked in gateway.asked] == [("GET", "/agents/app/mcpServers")]
    assert gateway.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_a_gateway_that_knows_the_newer_address_alone_is_asked_there(gateway):
    gateway.known_paths = ("/agents/v2/app/mcpServers",)

    assert (await ask_gateway(question(gateway), SOON)).entries == (MAIL,)
    assert [asked.path for asked in gateway.asked] == ["/agents/app/mcpServers", "/agents/v2/app/mcpServers"]


async def test_a_chosen_address_is_the_only_one_asked(gateway):
    gateway.known_paths = ("/agents/app/mcpServers",)

    with pytest.raises(PlatformFailure) as failed:
        await ask_gateway(question(gateway, version="v2"), SOON)

    assert failed.value.status == 404
    assert [asked.path for asked in gateway.asked] == ["/agents/v2/app/mcpServers"]


@pytest.mark.parametrize(
    "reply", [[{"mcpServerName": "a"}], {"mcpServers": [{"mcpServerName": "a"}]}, {"value": [{"mcpServerName": "a"}]}]
)
def test_every_form_of_reply_is_read(reply):
    assert read_reply(json.dumps(reply).encode()) == (ManifestEntry("a", "a"),)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_busy_gateway_is_asked_again(gateway, status):
    gateway.answers = [(status, {}, b"{}"), (status, {"retry-after": "0"}, b"{}")]

    assert (await ask_gateway(question(gateway), SOON)).entries == (MAIL,)
    assert len(gateway.asked) == 3


async def test_the_gateways_own_wish_for_a_pause_counts(gateway):
    """It asks for longer than there is: so nobody asks a second time."""
    gateway.answers = [(503, {"retry-after": "600"}, b"{}")]

    with pytest.raises(PlatformFailure, match=r"did not answer within 29\.5 s"):
        await ask_gateway(question(gateway), Patience(29.5, 29.5, delays_s=(0.0,)))

    assert len(gateway.asked) == 1


async def test_a_pause_until_a_moment_that_has_passed_is_none(gateway):
    gateway.answers = [(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"{}")]

    assert (await ask_gateway(question(gateway), Patience(2.0, 5.0, delays_s=(60.0,)))).entries == (MAIL,)


@pytest.mark.parametrize(
    ("status", "words"),
    [(400, "HTTP 400"), (401, "get a new one"), (403, "permission"), (404, "check its id"), (599, "HTTP 599")],
)
async def test_a_refusal_is_final_and_says_what_to_do(gateway, status, words):
    gateway.answers = [(status, {}, b"{}")] * 2

    with pytest.raises(PlatformFailure) as failed:
        await ask_gateway(question(gateway, version="v1"), SOON)

    assert str(failed.value).startswith("Failed to read MCP servers from endpoint: HTTP ")
    assert words in str(failed.value)
    assert len(gateway.asked) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b"3", b'{"oops": 1}', b'"x"'])
async def test_garbage_is_a_failure_in_plain_words(gateway, body):
    gateway.answers = [(200, {}, body)]

    with pytest.raises(PlatformFailure, match="the answer cannot be used"):
        await ask_gateway(question(gateway), SOON)


async def test_a_huge_reply_is_not_read_to_its_end(gateway):
    gateway.answers = [(200, {}, b"[" + b" " * 5_000_000 + b"]")] * 3

    with pytest.raises(PlatformFailure, match="larger body than allowed"):
        await ask_gateway(question(gateway), SOON)


async def test_a_gateway_that_never_answers_is_given_up():
    async with serving(hangs=True) as gateway:
        with pytest.raises(PlatformFailure, match=r"did not answer within 0\.2 s"):
            await ask_gateway(question(gateway), Patience(0.2, 0.2))


async def test_nobody_there_is_said_plainly():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    with pytest.raises(PlatformFailure, match=f"Connection refused by 127.0.0.1:{port}"):
        await ask_gateway(GatewayRequest(f"http://127.0.0.1:{port}", "app", {}), SOON)


async def test_a_redirect_takes_the_token_nowhere(gateway):
    async with serving() as elsewhere:
        gateway.answers = [(302, {"location": elsewhere.url}, b"")] * 3

        with pytest.raises(PlatformFailure):
            await ask_gateway(question(gateway), SOON)

        assert elsewhere.asked == []


async def test_no_error_repeats_the_token_even_if_the_gateway_does(gateway):
    gateway.answers = [(403, {}, json.dumps({"error": TOKEN}).encode())]

    with pytest.raises(PlatformFailure) as failed:
        await ask_gateway(question(gateway), SOON)

    assert TOKEN not in f"{failed.value!r} {failed.value} {failed.value.details} {failed.value.__cause__!r}"


@pytest.mark.parametrize(
    "app_id",
    ["a/../evil", "..", ".", "a?x=1", "a#b", "a%2F..%2Fevil", "a\\b", "a b", "a\r\nX: y", "a\x00", "", "  ", "x" * 201],
)
def test_an_application_id_cannot_lead_anywhere_else(app_id):
    with pytest.raises(CallerError):
        gateway_urls("https://gate.example", app_id)


def test_an_unusual_but_harmless_id_is_encoded():
    assert app_segment("Ünïcode:1;2@x") == "%C3%9Cn%C3%AFcode%3A1%3B2%40x"
    assert gateway_urls("https://g.example", "a..b") == [
        "https://g.example/agents/a..b/mcpServers",
        "https://g.example/agents/v2/a..b/mcpServers",
    ]
