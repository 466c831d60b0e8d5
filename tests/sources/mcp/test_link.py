"""Relaying: what a server asks on its own account is answered by the client, or politely refused."""

import json

import pytest

from toolcrib.core.errors import NotImplementedHere, RemoteError
from toolcrib.sources.mcp.link import answer_at_once, ask_client, can_ask, params_of, progress_token
from toolcrib.testing import RecordingChannel
from toolcrib.wire.jsonrpc import decode_outbound


def asked(method: str, params: object = None):
    return decode_outbound(
        json.dumps({"jsonrpc": "2.0", "id": "s1", "method": method, "params": params or {}}).encode()
    )


async def answered(method: str, channel: RecordingChannel | None) -> dict:
    message = asked(method, {"a": 1})
    answer = json.loads(answer_at_once(message, channel) or await ask_client(message, channel))
    assert (answer.pop("jsonrpc"), answer.pop("id")) == ("2.0", "s1")
    return answer


async def test_a_ping_is_answered_without_asking_anybody():
    """Whoever is or is not there."""
    assert await answered("ping", None) == {"result": {}}


async def test_a_question_goes_to_the_client_and_its_answer_back():
    """As they are."""
    channel = RecordingChannel({"sampling/createMessage": {"role": "assistant"}}, capabilities={"sampling": {}})

    assert await answered("sampling/createMessage", channel) == {"result": {"role": "assistant"}}
    assert channel.asked == [("sampling/createMessage", {"a": 1})]


@pytest.mark.parametrize(
    ("method", "channel"),
    [
        ("sampling/createMessage", None),
        ("sampling/createMessage", RecordingChannel({"sampling/createMessage": {}})),
        ("something/new", RecordingChannel({"something/new": {}}, capabilities={"something": {}})),
    ],
)
async def test_what_nobody_can_answer_is_refused(method, channel):
    """No client, a client that cannot, or a question nobody knows."""
    assert await answered(method, channel) == {
        "error": {"code": -32601, "message": f"The client cannot answer {method!r}."}
    }


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (RemoteError(-1, "rejected", data={"by": "user"}), {"code": -1, "message": "rejected", "data": {"by": "user"}}),
        (NotImplementedHere("not now"), {"code": -32601, "message": "not now"}),
    ],
)
async def test_a_clients_refusal_reaches_the_server_in_its_own_words(refusal, error):
    """Code and data too."""
    channel = RecordingChannel({"roots/list": refusal}, capabilities={"roots": {}})

    assert await answered("roots/list", channel) == {"error": error}


@pytest.mark.parametrize(
    ("params", "token"),
    [({"progressToken": 7}, 7), ({"progressToken": "a"}, "a"), ({}, None), ({"progressToken": [1]}, None), ([1], None)],
)
def test_a_progress_token_is_read_if_there_is_one(params, token):
    """Whatever a server sends."""
    assert progress_token(asked("notifications/progress", params)) == token


def test_missing_params_are_empty_ones():
    """So that they can be passed on."""
    assert params_of(decode_outbound(b'{"method":"x"}')) == b"{}"


def test_a_client_is_asked_only_what_it_said_it_can_answer():
    """By its capabilities."""
    channel = RecordingChannel(capabilities={"elicitation": {}})

    assert [can_ask(channel, method) for method in ("elicitation/create", "roots/list", "tools/call")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("params", ['{"n":1e999}', '{"n":' + "[" * 150 + "]" * 150 + "}", "[1]"])
async def test_a_question_that_not_every_client_could_read_is_refused(params):
    """The server is told; the client hears nothing of it."""
    channel = RecordingChannel({"sampling/createMessage": {}}, capabilities={"sampling": {}})
    line = f'{{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{params}}}'

    answer = json.loads(await ask_client(decode_outbound(line.encode()), channel))

    assert (answer["id"], answer["error"]["code"], channel.asked) == ("s1", -32602, [])
