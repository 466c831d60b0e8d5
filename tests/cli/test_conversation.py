"""What another toolcrib is told when the one before it is gone; no process, no socket."""

import json
from typing import Any

import pytest

from toolcrib.cli.conversation import CONTROL, Conversation
from toolcrib.cli.flags import EXPOSE_MODES, LEVELS
from toolcrib.config.sections import EXPOSE_MODES as ALL_MODES
from toolcrib.core.offers import SecurityLevel


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()


def asked(talk: Conversation, number: Any, method: str, *, sent: bool = True, **params: Any) -> bytes:
    said = line(id=number, method=method, params=params)
    for one in talk.hear_client(said)[1]:
        one.is_sent = sent
    return said


def shown(lines: list[bytes]) -> list[Any]:
    return [json.loads(one.removeprefix(CONTROL)) for one in lines]


@pytest.fixture
def talk() -> Conversation:
    """One whose handshake is over."""
    talk = Conversation()
    asked(talk, 1, "initialize", protocolVersion="2025-06-18")
    talk.hear_server(line(id=1, result={}))
    talk.hear_client(line(method="notifications/initialized"))
    return talk


def test_the_handshake_is_repeated_and_its_second_answer_swallowed(talk: Conversation):
    greeting, initialized = shown(talk.replay())

    assert (greeting["method"], greeting["params"]) == ("initialize", {"protocolVersion": "2025-06-18"})
    assert initialized["method"] == "notifications/initialized"
    assert talk.hear_server(line(id=greeting["id"], result={})) is False
    assert talk.hear_server(line(id=greeting["id"], result={})) is True


def test_a_handshake_nobody_answered_is_asked_as_it_was():
    talk = Conversation()
    said = asked(talk, 1, "initialize", sent=False)

    assert talk.replay() == [said]


def test_only_requests_that_were_sent_are_named_as_repeated():
    talk = Conversation()
    first = asked(talk, 1, "tools/call", name="a")
    second = asked(talk, "1", "tools/call", sent=False, name="b")

    told = talk.replay()

    assert told[1:] == [first, second]
    assert shown(told)[0] == {"repeated": [1]}
    assert shown(talk.replay())[0] == {"repeated": [1, "1"]}


def test_what_was_answered_or_called_off_is_not_asked_again():
    talk = Conversation()
    asked(talk, 1, "tools/call")
    asked(talk, 2, "tools/call")
    talk.hear_server(line(id=1, error={"code": 1, "message": "no"}))
    talk.hear_client(line(method="notifications/cancelled", params={"requestId": 2}))

    assert (talk.replay(), talk.is_settled) == ([], True)


def test_the_level_and_the_subscriptions_that_are_left_are_said_again(talk: Conversation):
    steps = (
        ("logging/setLevel", {"level": "info"}),
        ("logging/setLevel", {"level": "error"}),
        ("resources/subscribe", {"uri": "a"}),
        ("resources/subscribe", {"uri": "b"}),
        ("resources/unsubscribe", {"uri": "a"}),
    )
    for number, (method, params) in enumerate(steps, 10):
        asked(talk, number, method, **params)
        talk.hear_server(line(id=number, result={}))
    asked(talk, 20, "resources/subscribe", uri="c")
    talk.hear_server(line(id=20, error={}))

    said = [(one["method"], one["params"]) for one in shown(talk.replay())[2:]]

    assert said == [("logging/setLevel", {"level": "error"}), ("resources/subscribe", {"uri": "b"})]


def test_a_standing_subscription_is_repeated_and_keeps_nobody_from_leaving():
    talk = Conversation()
    said = asked(talk, 1, "subscriptions/listen")

    assert talk.is_settled
    assert talk.replay()[1:] == [said]


def test_questions_of_one_that_is_gone_are_called_off():
    talk = Conversation()
    for number in ("toolcrib-1", "toolcrib-2"):
        talk.hear_server(line(id=number, method="elicitation/create", params={}))
    talk.hear_client(line(id="toolcrib-1", result={}))

    (notice,) = shown(talk.give_up_questions())

    assert (notice["method"], notice["params"]["requestId"]) == ("notifications/cancelled", "toolcrib-2")
    assert talk.give_up_questions() == []


def test_answers_are_known_however_they_are_written():
    talk = Conversation()
    for number in (1, 'a"b', -3):
        asked(talk, number, "ping")
    talk.hear_server(b'{"id": 1, "jsonrpc": "2.0", "result": {}}')
    talk.hear_server(line(id='a"b', result={}))
    talk.hear_server(line(id=-3, result={"id": 1}))

    assert talk.asked == {}


def test_the_requests_of_a_batch_are_known_one_by_one():
    talk = Conversation()
    batch = b"[" + line(id=1, method="a") + b"," + line(id=2, method="b") + b"]"
    sent, found = talk.hear_client(batch)
    for one in found:
        one.is_sent = True

    assert sent == batch
    assert shown(talk.replay()) == [
        {"repeated": [1, 2]},
        json.loads(line(id=1, method="a")),
        json.loads(line(id=2, method="b")),
    ]


def test_a_client_cannot_speak_for_the_pipe():
    said, _ = Conversation().hear_client(CONTROL + b'{"end":true}')

    assert not said.startswith(CONTROL)


@pytest.mark.parametrize("said", [b"nonsense", b"[" * 100_000, b"1", b"[1]", b'{"id":1}'])
def test_what_is_no_message_passes_unchanged(said: bytes):
    assert Conversation().hear_client(said) == (said, [])


def test_an_id_in_use_leaves_the_first_request_as_it_is():
    talk = Conversation()
    first = asked(talk, 1, "tools/call", name="a")
    asked(talk, 1, "tools/call", name="b")

    assert talk.replay()[1:] == [first]


def test_everything_under_way_is_answered_when_nobody_can_go_on():
    talk = Conversation()
    asked(talk, 1, "tools/call")

    assert [one["id"] for one in shown(talk.fail_all("Gone."))] == [1]
    assert talk.asked == {}


def test_the_quick_options_are_those_of_the_configuration():
    assert tuple(SecurityLevel) == LEVELS
    assert ALL_MODES == EXPOSE_MODES
