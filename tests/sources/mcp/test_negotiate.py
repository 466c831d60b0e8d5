"""Negotiation: every kind of server is found out, in as few questions as it takes."""

import asyncio
from dataclasses import replace

import pytest

from toolcrib.core.errors import ConnectionLost, ProtocolError, RemoteError
from toolcrib.core.kinds import EraChoice
from toolcrib.sources.mcp.link import LinkEvents
from toolcrib.sources.mcp.negotiate import Agreement, ClientIdentity, negotiate
from toolcrib.testing import FakeServer
from toolcrib.wire import eras

OFFER = ClientIdentity({"name": "toolcrib", "version": "1"}, {"roots": {}})
IGNORE = LinkEvents(lambda: None, lambda: None)
UNSUPPORTED = RemoteError(-32022, "no handshake here", data={"supported": ["2026-07-28"]})


def both() -> FakeServer:
    """A server that speaks both eras."""
    shaken = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "fake", "version": "1"}}
    return FakeServer({"initialize": shaken}, modern=True)


async def agree(server: FakeServer, remembered: str = "") -> Agreement:
    return await negotiate(await server.dial(IGNORE), OFFER, remembered)


async def test_a_modern_server_is_known_by_its_first_answer():
    """No handshake follows; its name is in the answer's meta."""
    server = FakeServer(modern=True)

    agreement = await agree(server)

    assert agreement == Agreement("2026-07-28", {"tools": {"listChanged": True}}, {"name": "fake", "version": "1"}, "")
    assert agreement.tells_of_changes
    assert (server.asked, server.link.told, server.link.agreed) == (["server/discover"], [], "2026-07-28")
    assert server.link.asked[0][1]["_meta"] == {
        eras.META_VERSION: "2026-07-28",
        eras.META_CLIENT_INFO: OFFER.info,
        eras.META_CLIENT_CAPABILITIES: {"roots": {}},
    }


async def test_an_older_server_refuses_the_first_question_and_shakes_hands():
    """The handshake is ended as the protocol wants it."""
    server = FakeServer()

    agreement = await agree(server)

    assert agreement.version == "2025-11-25"
    assert server.asked == ["server/discover", "initialize"]
    assert server.link.told == [("notifications/initialized", {})]


@pytest.mark.parametrize(
    ("era", "remembered", "asked", "version"),
    [
        (EraChoice.HANDSHAKE, "2026-07-28", ["initialize"], "2025-11-25"),
        (EraChoice.STATELESS, "2025-11-25", ["server/discover"], "2026-07-28"),
        (EraChoice.AUTO, "2025-11-25", ["initialize"], "2025-11-25"),
        (EraChoice.AUTO, "", ["server/discover"], "2026-07-28"),
    ],
)
async def test_a_server_of_both_eras_is_spoken_to_in_the_configured_one(era, remembered, asked, version):
    """Else in the one that it was found to need, else in the stateless one."""
    server = both()

    agreement = await negotiate(await server.dial(IGNORE), replace(OFFER, era=era), remembered)

    assert (server.asked, agreement.version) == (asked, version)


async def test_a_server_that_must_speak_the_stateless_era_may_take_its_time():
    """Nothing else would be asked in place of the first question."""
    server = both()
    link = await server.dial(IGNORE)
    link.discover_patience_s, link.held = 0.001, {"server/discover"}
    asking = asyncio.ensure_future(negotiate(link, replace(OFFER, era=EraChoice.STATELESS), ""))
    await link.reached.wait()
    link.release()

    assert (await asking).version == "2026-07-28"


@pytest.mark.parametrize(("era", "modern"), [(EraChoice.HANDSHAKE, True), (EraChoice.STATELESS, False)])
async def test_a_server_that_does_not_speak_the_configured_era_is_not_spoken_to(era, modern):
    """The error is the server's own, or says what to change."""
    server = FakeServer(modern=modern)

    with pytest.raises((ProtocolError, RemoteError)):
        await negotiate(await server.dial(IGNORE), replace(OFFER, era=era), "")

    assert len(server.asked) == 1


async def test_a_server_that_ignores_the_first_question_is_asked_in_the_old_way():
    """Patience for a question it need not know is short."""
    server = FakeServer()
    link = await server.dial(IGNORE)
    link.discover_patience_s, link.held = 0.001, {"server/discover"}

    agreement = await negotiate(link, OFFER, "")

    assert agreement.version == "2025-11-25"


@pytest.mark.parametrize(
    ("remembered", "asked"),
    [("2025-06-18", ["initialize"]), ("2026-07-28", ["server/discover", "initialize"])],
)
async def test_what_was_remembered_is_tried_first(remembered, asked):
    """A server that was known to shake hands is not asked anything else."""
    server = FakeServer()

    await agree(server, remembered)

    assert server.asked == asked


async def test_a_server_that_became_modern_is_found_out():
    """Its refusal of the handshake names its revisions."""
    server = FakeServer({"initialize": UNSUPPORTED}, modern=True)

    agreement = await agree(server, "2025-06-18")

    assert (agreement.version, server.asked) == ("2026-07-28", ["initialize", "server/discover"])


@pytest.mark.parametrize("spoken", eras.HANDSHAKE_VERSIONS)
async def test_every_handshake_revision_is_spoken(spoken):
    """The server chooses."""
    server = FakeServer({"initialize": {"protocolVersion": spoken}})

    agreement = await agree(server)

    assert (agreement, agreement.tells_of_changes) == (Agreement(spoken), False)


async def test_instructions_are_kept_and_odd_answers_taken_for_nothing():
    """A server that sends text where objects belong is still spoken to."""
    odd = {"protocolVersion": "2025-06-18", "capabilities": "all", "serverInfo": [1], "instructions": "Do."}

    agreement = await agree(FakeServer({"initialize": odd}))

    assert agreement == Agreement("2025-06-18", {}, {}, "Do.")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"protocolVersion": "2019-01-01"}, "The server speaks protocol '2019-01-01'; toolcrib speaks 2024-11-05"),
        ({}, "The server speaks protocol None"),
        ({"protocolVersion": ["2025-06-18"]}, "The server speaks protocol"),
        (b"[]", "no object"),
        (b'"hi"', "no object"),
        (b'{"protocolVersion":"2025-06-18","x":1e999}', "no object"),
    ],
)
async def test_a_handshake_that_cannot_be_used_says_why(answer, words):
    """Both sides share no revision, or the answer is none."""
    with pytest.raises(ProtocolError, match=words):
        await agree(FakeServer({"initialize": answer}))


async def test_the_servers_own_reason_is_what_is_told():
    """Not that it does not know the question toolcrib asked afterwards to make sure."""
    server = FakeServer({"initialize": RemoteError(-32000, "set API_KEY first")})

    with pytest.raises(RemoteError, match="set API_KEY first"):
        await agree(server)

    assert server.asked == ["server/discover", "initialize", "server/discover"]


async def test_a_refusal_followed_by_silence_is_still_told():
    """The last question has its patience too."""
    server = FakeServer({"initialize": RemoteError(-32000, "set API_KEY first")})
    link = await server.dial(IGNORE)
    link.discover_patience_s, link.held = 0.001, {"server/discover"}

    with pytest.raises(RemoteError, match="set API_KEY first"):
        await asyncio.wait_for(negotiate(link, OFFER, ""), 150)


async def test_a_modern_server_without_a_revision_of_ours_is_a_protocol_error():
    """It is offered the handshake, and refuses."""
    future = {"supportedVersions": ["2099-01-01"]}

    with pytest.raises(RemoteError, match="no handshake"):
        await agree(FakeServer({"server/discover": future, "initialize": RemoteError(-32601, "no handshake here")}))


async def test_a_server_that_goes_away_is_a_lost_connection():
    """What to make of it is the supervisor's business."""
    with pytest.raises(ConnectionLost):
        await agree(FakeServer({"server/discover": ConnectionLost("gone")}))
