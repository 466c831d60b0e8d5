"""Questions: what a server may ask, whom it goes to, and what becomes of one that nobody answers."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from toolcrib.core.errors import CallTimeout, NotImplementedHere
from toolcrib.core.requests import Request
from toolcrib.sources.mcp.questions import QUESTIONS_PER_CALL, AskingRule, answer_rounds, answers
from toolcrib.testing import RecordingChannel

FORM = b'{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}'
LINK = b'{"mode":"url","message":"Go","url":"https://x.example/"}'


class Somebody:
    """A stand-in that accepts every form."""

    capabilities: Mapping[str, Any] = {"elicitation": {"form": {}}, "roots": {}}
    standing: Mapping[str, Mapping[str, Any]] = {"roots/list": {"roots": []}}

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def answer(self, call: Request, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((call.name, method))
        return {"action": "accept", "said": params.get("message")}


class Nobody(RecordingChannel):
    """A client that is asked and never answers."""

    async def ask(self, method: str, params: bytes) -> bytes:
        await asyncio.Event().wait()
        return await super().ask(method, params)


def call_of(channel: RecordingChannel) -> Request:
    return Request("srv__drop", "drop", {}, channel=channel)


def test_a_server_is_told_of_all_that_can_be_relayed_unless_the_configuration_narrows_it():
    """Whatever the clients can: what one of them cannot is refused when it is asked for."""
    whole = {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}, "context": {}},
        "roots": {"listChanged": True},
    }

    assert AskingRule().declared == whole
    assert AskingRule(("roots",)).declared == {"roots": {"listChanged": True}}
    assert AskingRule(()).declared == {}


async def test_the_client_is_asked_if_it_can_answer_this_very_question():
    """Not whoever could stand in for it."""
    somebody = Somebody()
    channel = RecordingChannel({"elicitation/create": {"action": "decline"}}, capabilities={"elicitation": {}})

    answer = await AskingRule(stand_in=somebody).around(call_of(channel)).ask("elicitation/create", FORM)

    assert (msgspec.json.decode(answer), somebody.asked) == ({"action": "decline"}, [])


async def test_whoever_stands_in_is_asked_where_the_client_cannot_answer():
    """With the call that the question belongs to."""
    somebody, channel = Somebody(), RecordingChannel(capabilities={"sampling": {}})

    answer = await AskingRule(stand_in=somebody).around(call_of(channel)).ask("elicitation/create", FORM)

    assert msgspec.json.decode(answer) == {"action": "accept", "said": "Sure?"}
    assert (somebody.asked, channel.asked) == ([("srv__drop", "elicitation/create")], [])


async def test_what_is_not_relayed_is_asked_of_nobody():
    """Also of a server that asks though it was told that it cannot."""
    somebody = Somebody()
    channel = RecordingChannel({"elicitation/create": {"action": "accept"}}, capabilities={"elicitation": {}})
    asked = AskingRule(("roots",), somebody).around(call_of(channel))

    with pytest.raises(NotImplementedHere, match="cannot answer 'elicitation/create'"):
        await asked.ask("elicitation/create", FORM)

    assert (dict(asked.capabilities), somebody.asked, channel.asked) == ({"roots": {}}, [], [])


async def test_a_client_that_shows_forms_only_is_not_sent_to_an_address():
    """Before 2025-11-25 elicitation meant forms, and no parts were named."""
    channel = RecordingChannel({"elicitation/create": {"action": "accept"}}, capabilities={"elicitation": {}})

    with pytest.raises(NotImplementedHere, match="'elicitation/create' in mode 'url'"):
        await AskingRule().around(call_of(channel)).ask("elicitation/create", LINK)


@pytest.mark.parametrize(
    ("capabilities", "params", "can"),
    [
        ({"sampling": {}}, {"messages": []}, True),
        ({"sampling": {}}, {"messages": [], "tools": []}, False),
        ({"sampling": {"tools": {}}}, {"messages": [], "tools": []}, True),
        ({"roots": {}}, {"messages": []}, False),
    ],
)
def test_a_model_is_asked_to_use_tools_only_by_a_client_that_lets_it(
    capabilities: dict[str, Any], params: dict[str, Any], *, can: bool
):
    """``sampling.tools`` says so."""
    assert answers(capabilities, "sampling/createMessage", params) is can


async def test_a_form_that_nobody_answers_is_put_away_and_any_other_question_fails():
    """A server that asked before something destructive then leaves it."""
    channel = Nobody(capabilities={"elicitation": {}, "roots": {}})
    asked = AskingRule(timeout_s=0.01).around(call_of(channel))

    assert msgspec.json.decode(await asked.ask("elicitation/create", FORM)) == {"action": "cancel"}
    with pytest.raises(CallTimeout, match="Nobody answered 'roots/list'"):
        await asked.ask("roots/list", b"{}")


async def test_a_server_that_never_stops_asking_is_stopped():
    """Within one call."""
    channel = RecordingChannel({"roots/list": {"roots": []}}, capabilities={"roots": {}})
    asked = AskingRule().around(call_of(channel))
    for _ in range(QUESTIONS_PER_CALL):
        await asked.ask("roots/list", b"{}")

    with pytest.raises(NotImplementedHere, match="more than 100 questions"):
        await asked.ask("roots/list", b"{}")


def test_some_things_are_answered_while_there_is_no_call_to_ask_somebody_for():
    """The configured roots, unless the server may not ask for them; nothing else."""
    rule = AskingRule(stand_in=Somebody())

    assert [rule.standing(method) for method in ("roots/list", "elicitation/create")] == [b'{"roots":[]}', None]
    assert AskingRule(("elicitation",), Somebody()).standing("roots/list") is None
    assert AskingRule().standing("roots/list") is None


def test_what_client_and_stand_in_can_do_is_joined():
    """A client with addresses only, and a stand-in that fills in forms."""
    rule = AskingRule(stand_in=Somebody())

    joined = rule.all_of({"elicitation": {"url": {}}, "extensions": {"x": {}}})

    assert joined == {"elicitation": {"form": {}, "url": {}}, "roots": {}, "extensions": {"x": {}}}


async def test_that_a_call_told_how_far_it_is_is_noted_where_its_deadline_looks():
    """A log message is no such word."""
    call = call_of(RecordingChannel(wants_progress=True))
    channel = AskingRule().around(call)

    channel.notify("notifications/message", b"{}")
    before = call.context.progressed_at
    channel.notify("notifications/progress", b'{"progress":1}')

    assert before == 0.0
    assert call.context.progressed_at > 0.0


async def test_of_several_questions_each_goes_to_whoever_can_answer_it():
    """The client its own, the rest to whoever stands in; only a client that can answer all is handed the result."""
    somebody = Somebody()
    rule = AskingRule(stand_in=somebody)
    able = {"roots": {}}
    channel = RecordingChannel({"roots/list": {"roots": [1]}}, capabilities=able, takes_input_required=True)
    call = call_of(channel)
    asked = {"where": {"method": "roots/list"}, "sure": {"method": "elicitation/create", "params": {"message": "?"}}}
    raw = Raw(msgspec.json.encode({"resultType": "input_required", "inputRequests": asked, "requestState": "s"}))
    sent: list[Mapping[str, Any]] = []

    async def retry(more: Mapping[str, Any]) -> Raw:
        sent.append(more)
        return Raw(b'{"content":[]}')

    is_handed = rule.may_hand_over(call, raw)
    await answer_rounds(rule.around(call), raw, retry)

    assert not is_handed
    answered = {"where": {"roots": [1]}, "sure": {"action": "accept", "said": "?"}}
    assert sent == [{"inputResponses": answered, "requestState": "s"}]
    assert AskingRule().may_hand_over(call_of(RecordingChannel(capabilities=able)), raw) is False


DONE = b'{"elicitationId":"e1"}'


@pytest.mark.parametrize(
    ("relay", "is_modern", "said", "is_told"),
    [
        (("elicitation",), False, DONE, True),
        (("roots",), False, DONE, False),
        (("elicitation",), True, DONE, False),
        (("elicitation",), False, b'{"elicitationId":7}', False),
        (("elicitation",), False, b'{"elicitationId":"%b"}' % (b"e" * 5000), False),
    ],
)
def test_what_is_done_at_an_address_that_nobody_was_sent_to_is_told_to_the_only_client(relay, is_modern, said, is_told):
    """If its server may ask at all, its era knows the notice, and it is small enough to be kept for it."""
    client = RecordingChannel(takes_input_required=is_modern)

    AskingRule(relay).complete(said)
    AskingRule(relay).complete(said, client)

    assert client.told == ([("notifications/elicitation/complete", {"elicitationId": "e1"})] if is_told else [])


def test_what_is_done_at_an_address_is_told_to_who_was_sent_there_and_not_to_who_is_here():
    """It is known whose it is."""
    rule, ann, ben = AskingRule(), RecordingChannel(), RecordingChannel()
    rule.note_sent("e1", ann)

    rule.complete(DONE, ben)

    assert (len(ann.told), ben.told) == (1, [])
