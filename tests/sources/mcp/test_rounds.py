"""Rounds: a server that asks back is answered by the client, for clients that cannot be handed the question."""

import msgspec
import pytest
from msgspec import Raw

from toolcrib.core.errors import NotImplementedHere, ProtocolError, RemoteError
from toolcrib.core.requests import Request
from toolcrib.sources.mcp.questions import ROUNDS_MAX, AskedChannel, AskingRule, answer_rounds
from toolcrib.testing import RecordingChannel
from toolcrib.wire.results import read_head

DONE = Raw(b'{"content":[]}')
ASK_NAME = {"method": "elicitation/create", "params": {"message": "Name?"}}


def question(requests: object, state: object = None) -> Raw:
    return Raw(msgspec.json.encode({"resultType": "input_required", "inputRequests": requests, "requestState": state}))


def asking(channel: RecordingChannel, **more: object) -> AskedChannel:
    return AskingRule().around(Request("srv__book", "book", {}, channel=channel, more=more))


class Server:
    """What the server says to each further call, and what it was sent."""

    def __init__(self, *answers: Raw) -> None:
        self.answers, self.sent = list(answers), []

    async def __call__(self, more: object) -> Raw:
        self.sent.append(more)
        return self.answers.pop(0)


async def test_the_client_is_asked_and_the_call_made_again_with_its_answers():
    """Under the server's own keys, with the state it wants back and the fields the call had."""
    channel = RecordingChannel({"elicitation/create": {"action": "accept"}}, capabilities={"elicitation": {}})
    server = Server(DONE)

    result, head = await answer_rounds(asking(channel, own="x"), question({"q1": ASK_NAME}, "s1"), server)

    assert (result, head) == (DONE, read_head(DONE))
    assert channel.asked == [("elicitation/create", {"message": "Name?"})]
    assert server.sent == [{"own": "x", "inputResponses": {"q1": {"action": "accept"}}, "requestState": "s1"}]


async def test_a_server_may_ask_several_times():
    """Each round carries only its own answers."""
    channel = RecordingChannel({"roots/list": {"roots": []}}, capabilities={"roots": {}})
    server = Server(question({"b": {"method": "roots/list"}}), question(None, "s2"), DONE)

    await answer_rounds(asking(channel), question({"a": {"method": "roots/list"}}), server)

    assert server.sent == [
        {"inputResponses": {"a": {"roots": []}}},
        {"inputResponses": {"b": {"roots": []}}},
        {"requestState": "s2"},
    ]


async def test_a_server_that_never_has_enough_is_stopped():
    """Ten rounds are plenty."""
    server = Server(*[question({}, "again")] * (ROUNDS_MAX + 1))

    with pytest.raises(ProtocolError, match="asked back more than 10 times"):
        await answer_rounds(asking(RecordingChannel()), question({}, "again"), server)

    assert len(server.sent) == ROUNDS_MAX


async def test_a_client_that_cannot_be_asked_is_not():
    """The error names the question and a way out."""
    channel = RecordingChannel({"elicitation/create": {}}, capabilities={"roots": {}})

    with pytest.raises(NotImplementedHere, match=r"srv__book needs an answer from the client \(elicitation/create\)"):
        await answer_rounds(asking(channel), question({"q": ASK_NAME}), Server())

    assert channel.asked == []


async def test_a_clients_refusal_ends_the_call():
    """In its own words."""
    refusal = RemoteError(-1, "the person said no")
    channel = RecordingChannel({"elicitation/create": refusal}, capabilities={"elicitation": {}})

    with pytest.raises(RemoteError, match="the person said no"):
        await answer_rounds(asking(channel), question({"q": ASK_NAME}), Server())


@pytest.mark.parametrize("requests", [[ASK_NAME], "text", {"q": "text"}, {"q": {"method": 5}}, {"q": {"params": []}}])
async def test_a_question_that_cannot_be_read_is_the_servers_protocol_error(requests):
    """Not a fault of ours."""
    with pytest.raises(ProtocolError, match="cannot be read"):
        await answer_rounds(asking(RecordingChannel()), question(requests), Server())
