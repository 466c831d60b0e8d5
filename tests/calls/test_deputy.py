"""Who answers where the client cannot: people, the configured model, or the configuration."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib.calls.approvals import ApprovalReply, Approvals, ApprovalSettings, MemoryAnswers
from toolcrib.calls.deputy import Deputy
from toolcrib.calls.inbox import Inbox
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.errors import InvalidArguments, NotImplementedHere, PermissionDenied
from toolcrib.core.kinds import Policy
from toolcrib.core.requests import Request
from toolcrib.testing import ManualClock, MemoryAudit

ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
ASKED = {"message": "Drop it?", "requestedSchema": {"properties": {"sure": {"type": "boolean"}}}}
CALL = Request("mongo__drop", "drop", {}, id="c1", caller=Caller("agent-1", "agent"))
PERSON = Caller("ann", "user", EVERYTHING)


class House:
    """A desk with an inbox that somebody looks into."""

    def __init__(self, **wishes: Any) -> None:
        self.inbox, self.audit, self.events = Inbox(ManualClock()), MemoryAudit(), []
        settings = ApprovalSettings(60.0)
        self.desk = Approvals(MemoryAnswers(), settings, self.audit, self.events.append, [self.inbox])
        self.deputy = Deputy("mongo", self.desk, **wishes)

    async def asked(self, method: str, params: Mapping[str, Any], viewer: Caller = PERSON) -> "asyncio.Task[Any]":
        self.inbox.attend(viewer)
        task = asyncio.ensure_future(self.deputy.answer(CALL, method, params))
        while not self.inbox.own() and not task.done():
            await asyncio.sleep(0)
        return task

    def reply(self, reply: ApprovalReply, **content: Any) -> None:
        [waiting] = self.inbox.own()
        assert self.inbox.answer(waiting.question.id, reply, PERSON, content)


async def test_a_person_fills_in_the_form_of_a_server():
    """It is shown with the call it was asked in, and written down before it counts; without what was said."""
    house = House()
    task = await house.asked(ELICIT, ASKED)
    [shown] = house.inbox.open_to(PERSON)
    house.reply(ApprovalReply.ONCE, sure=True)

    assert await task == {"action": "accept", "content": {"sure": True}}
    assert (shown.question.tool, shown.question.server, shown.question.caller) == ("mongo__drop", "mongo", "agent-1")
    assert shown.question.form is not None
    assert shown.question.form.message == "Drop it?"
    [entry] = house.audit.committed
    assert (entry.event, entry.decision, entry.details) == (
        "question",
        "approved once by inbox",
        {"answered_by": "ann"},
    )


async def test_a_person_may_decline():
    """The server hears that."""
    house = House()
    task = await house.asked(ELICIT, ASKED)
    house.reply(ApprovalReply.NO)

    assert await task == {"action": "decline"}


async def test_where_nobody_is_a_form_is_put_away():
    """So that a server that asks first does nothing."""
    house = House()

    assert await house.deputy.answer(CALL, ELICIT, ASKED) == {"action": "cancel"}
    assert [event.name for event in house.events] == ["question.unanswered"]


@pytest.mark.parametrize("viewer", [Caller("bot", "agent", EVERYTHING), Caller("agent-1", "user", EVERYTHING)])
async def test_neither_agents_nor_the_caller_itself_answer(viewer):
    """Only another person does."""
    house = House()
    task = await house.asked(ELICIT, ASKED, viewer)

    assert await task == {"action": "cancel"}


async def test_a_person_is_sent_to_an_address():
    """And says when it is done; there is nothing to pass on."""
    house = House()
    task = await house.asked(ELICIT, {"mode": "url", "url": "https://x.example/", "message": "Sign in"})
    house.reply(ApprovalReply.ONCE)

    assert await task == {"action": "accept"}


async def test_a_form_that_cannot_be_shown_is_the_servers_fault():
    """It is told so."""
    with pytest.raises(InvalidArguments, match="cannot be shown"):
        await House().deputy.answer(CALL, ELICIT, {"mode": "url", "url": "file:///etc/passwd"})


async def test_roots_are_the_configured_ones():
    """None are an empty list."""
    assert await House().deputy.answer(CALL, "roots/list", {}) == {"roots": []}
    assert await House(roots=("file:///w",)).deputy.answer(CALL, "roots/list", {}) == {"roots": [{"uri": "file:///w"}]}


async def model(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"role": "assistant", "content": params["messages"]}


async def test_the_model_answers_after_a_person_said_so():
    """Who sees what it is asked."""
    house = House(sample=model)
    task = await house.asked(SAMPLE, {"messages": ["hi"], "maxTokens": 5})
    [shown] = house.inbox.open_to(PERSON)
    house.reply(ApprovalReply.ONCE)

    assert await task == {"role": "assistant", "content": ["hi"]}
    assert shown.question.form is not None
    assert '"messages":["hi"]' in shown.question.form.message


async def test_the_model_is_not_asked_if_nobody_allows_it():
    """A clear refusal."""
    with pytest.raises(PermissionDenied, match="Nobody allowed"):
        await House(sample=model).deputy.answer(CALL, SAMPLE, {"messages": []})


async def test_the_configuration_may_allow_it_or_forbid_it_for_good():
    """Then no person is asked."""
    allowed, barred = House(sample=model, sampling=Policy.ALLOW), House(sample=model, sampling=Policy.DENY)

    assert await allowed.deputy.answer(CALL, SAMPLE, {"messages": ["x"]}) == {"role": "assistant", "content": ["x"]}
    assert [*barred.deputy.capabilities] == ["elicitation", "roots"]
    assert [*allowed.deputy.capabilities] == ["elicitation", "roots", "sampling"]


async def test_without_a_model_there_is_nobody_to_sample():
    """The hint says what to set."""
    with pytest.raises(NotImplementedHere, match=r"\[model\]"):
        await House().deputy.answer(CALL, SAMPLE, {"messages": []})
