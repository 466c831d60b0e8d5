"""Questions over several replicas: seen and answered at any of them, once."""

import asyncio

import pytest
from tests.doubles.replicas import Common, Replica, replica, so

from toolcrib.calls import neighbours
from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.elicit import REQUEST
from toolcrib.config.model import Config
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.requests import Request, Result
from toolcrib.testing import FakeSource, RecordingChannel

OWNER = Caller("owner", "token", EVERYTHING)
ASK = Config(security=SecurityConfig(policy="ask"))


def srv() -> FakeSource:
    return FakeSource("srv", ["work"])


async def asked(waits: Replica, looks: Replica, caller: Caller = LOCAL_USER) -> "asyncio.Task[Result]":
    """A call that waits at one replica while a person looks in at the other."""
    await looks.made.crib.inbox.look(OWNER)
    await so(lambda: waits.made.crib.inbox.reaches(Request("srv__work", "", {}, "", caller)))
    task = asyncio.create_task(waits.made.crib.call("srv__work", {"n": 1}, caller=caller))
    await so(lambda: looks.made.crib.inbox.open_to(OWNER))
    return task


async def test_who_looks_in_at_one_replica_answers_for_a_call_at_another():
    common = Common()
    async with replica(common, "a", srv(), config=ASK) as a, replica(common, "b", srv(), config=ASK) as b:
        call = await asked(a, b)
        (seen,) = await b.made.crib.inbox.look(OWNER)
        counted = await b.made.crib.inbox.answer_anywhere(seen.question.id, ApprovalReply.ONCE, OWNER)
        result = await call

        assert (seen.question.tool, seen.question.arguments, counted) == ("srv__work", {"n": 1}, True)
        assert result.error is None
        assert (a.made.crib.inbox.open_to(OWNER), b.made.crib.inbox.open_to(OWNER)) == ([], [])


async def test_the_first_answer_counts_and_the_second_learns_that():
    common, source = Common(), srv()
    async with (
        replica(common, "a", source, config=ASK) as a,
        replica(common, "b", srv(), config=ASK) as b,
        replica(common, "c", srv(), config=ASK) as c,
    ):
        call = await asked(a, b)
        await so(lambda: c.made.crib.inbox.open_to(OWNER))
        (seen,) = b.made.crib.inbox.open_to(OWNER)
        said = [one.made.crib.inbox.answer_anywhere(seen.question.id, ApprovalReply.ONCE, OWNER) for one in (b, c)]
        counted = await asyncio.gather(*said)
        await call

        assert (sorted(counted), len(source.calls)) == ([False, True], 1)


async def test_a_question_that_is_answered_at_home_disappears_everywhere():
    common = Common()
    async with replica(common, "a", srv(), config=ASK) as a, replica(common, "b", srv(), config=ASK) as b:
        states: list[str] = []
        b.made.crib.inbox.on_change(lambda question, state: states.append(state))
        call = await asked(a, b)
        (seen,) = a.made.crib.inbox.own()
        a.made.crib.inbox.answer(seen.question.id, ApprovalReply.NO, OWNER)
        result = await call
        await so(lambda: not b.made.crib.inbox.open_to(OWNER))

        assert (result.error.code, states) == ("TOOL_PERMISSION_DENIED", ["waiting", "answered"])


async def test_a_call_that_is_given_up_takes_its_question_along():
    common = Common()
    async with replica(common, "a", srv(), config=ASK) as a, replica(common, "b", srv(), config=ASK) as b:
        call = await asked(a, b)
        call.cancel()
        await so(lambda: not b.made.crib.inbox.open_to(OWNER))

        assert b.made.crib.inbox.own() == []


async def test_nobody_answers_for_themselves_by_going_to_another_replica():
    common, me = Common(), Caller("owner", "token", EVERYTHING)
    async with replica(common, "a", srv(), config=ASK) as a, replica(common, "b", srv(), config=ASK) as b:
        await b.made.crib.inbox.look(OWNER)
        await so(lambda: a.made.crib.inbox.reaches(Request("srv__work", "", {}, "", LOCAL_USER)))

        assert not a.made.crib.inbox.reaches(Request("srv__work", "", {}, "", me))


async def test_a_replica_that_comes_later_learns_what_waits():
    common = Common()
    async with replica(common, "a", srv(), config=ASK) as a, replica(common, "b", srv(), config=ASK) as b:
        call = await asked(a, b)
        async with replica(common, "c", srv(), config=ASK) as c:
            await so(lambda: c.made.crib.inbox.open_to(OWNER))
            await so(lambda: c.made.crib.inbox.reaches(Request("srv__work", "", {}, "", LOCAL_USER)))
            (seen,) = c.made.crib.inbox.open_to(OWNER)

            assert await c.made.crib.inbox.answer_anywhere(seen.question.id, ApprovalReply.ONCE, OWNER)
            await call


async def test_the_question_of_a_replica_that_died_cannot_be_answered_and_goes_away(monkeypatch):
    monkeypatch.setattr(neighbours, "CONFIRM_S", 0.05)
    common = Common()
    async with replica(common, "b", srv(), config=ASK) as b, replica(common, "a", srv(), config=ASK) as a:
        call = await asked(a, b)
        a.coordination.die()
        (seen,) = b.made.crib.inbox.open_to(OWNER)

        with pytest.raises(CoordinationUnavailable, match="does not answer"):
            await b.made.crib.inbox.answer_anywhere(seen.question.id, ApprovalReply.ONCE, OWNER)
        assert b.made.crib.inbox.open_to(OWNER) == []
        call.cancel()


# What a person allowed for a session, and what a stateless client carries


async def test_what_is_allowed_for_a_session_is_allowed_at_all_replicas():
    common, source = Common(), srv()
    caller = Caller("me", "token", EVERYTHING, "the id of a session")
    async with replica(common, "a", srv(), config=ASK) as a, replica(common, "b", source, config=ASK) as b:
        call = await asked(a, b, caller)
        (seen,) = b.made.crib.inbox.open_to(OWNER)
        await b.made.crib.inbox.answer_anywhere(seen.question.id, ApprovalReply.SESSION, OWNER)
        await call
        result = await b.made.crib.call("srv__work", caller=caller)
        kept = " ".join([*common.hub.values, *common.hub.uses])

        assert (result.error, len(source.calls)) == (None, 1)
        assert "the id of a session" not in kept


def stateless() -> RecordingChannel:
    return RecordingChannel(capabilities={"elicitation": {}}, takes_input_required=True)


async def run(member: Replica, more: dict | None = None) -> Result:
    """One request of a stateless client."""
    crib = member.made.crib
    return await crib.run(crib.request("srv__work", {"n": 1}, LOCAL_USER, stateless(), more=more or {}))


async def test_a_stateless_client_brings_its_answer_to_any_replica_and_it_counts_once():
    common = Common()
    sources = [srv() for _ in range(3)]
    async with (
        replica(common, "a", sources[0], config=ASK) as a,
        replica(common, "b", sources[1], config=ASK) as b,
        replica(common, "c", sources[2], config=ASK) as c,
    ):
        question = await run(a)
        answer = {
            "requestState": question.mcp["requestState"],
            "inputResponses": {REQUEST: {"action": "accept", "content": {"answer": "once"}}},
        }
        first, second = await run(b, answer), await run(c, answer)

        assert (first.error, second.error.code) == (None, "TOOL_PERMISSION_DENIED")
        assert [len(source.calls) for source in sources] == [0, 1, 0]


async def test_a_tool_that_asks_back_is_not_approved_anew_at_another_replica():
    common, sources = Common(), [srv(), srv()]
    asking = Result({"resultType": "input_required", "requestState": "theirs", "inputRequests": {}})
    for source in sources:
        source.answers["work"] = lambda call: "done" if call.more else asking
    async with replica(common, "a", sources[0], config=ASK) as a, replica(common, "b", sources[1], config=ASK) as b:
        question = await run(a)
        answer = {
            "requestState": question.mcp["requestState"],
            "inputResponses": {REQUEST: {"action": "accept", "content": {"answer": "once"}}},
        }
        round_one = await run(a, answer)
        round_two = await run(b, {"requestState": "theirs", "inputResponses": {}})
        again = await run(b, {"requestState": "theirs", "inputResponses": {}})

        assert round_one.mcp["requestState"] == "theirs"
        assert round_two.error is None
        assert round_two.mcp["content"][0]["text"] == "done"
        assert again.mcp.get("resultType") == "input_required"


async def test_numbers_of_any_size_are_shown_at_the_others():
    common = Common()
    async with replica(common, "a", srv(), config=ASK) as a, replica(common, "b", srv(), config=ASK) as b:
        await b.made.crib.inbox.look(OWNER)
        await so(lambda: a.made.crib.inbox.reaches(Request("srv__work", "", {}, "", LOCAL_USER)))
        call = asyncio.create_task(a.made.crib.call("srv__work", {"n": 10**40}))
        await so(lambda: b.made.crib.inbox.open_to(OWNER))
        (seen,) = await b.made.crib.inbox.look(OWNER)
        await b.made.crib.inbox.answer_anywhere(seen.question.id, ApprovalReply.ONCE, OWNER)
        result = await call

        assert result.error is None
        assert (a.made.crib.inbox.open_to(OWNER), b.made.crib.inbox.open_to(OWNER)) == ([], [])
