"""Approve: a call of an ``ask`` tool waits for a person, once, in either era of the protocol."""

import asyncio
import importlib

import pytest
from tests.doubles.coordination import MemoryHub

from toolcrib.calls.approvals import ApprovalQuestion, ApprovalReply
from toolcrib.calls.elicit import ELICIT, REQUEST, ApprovalSeal
from toolcrib.calls.layers.approve import Rounds, _digest
from toolcrib.calls.layers.approve import _open as open_seal
from toolcrib.calls.marks import Marks
from toolcrib.config.model import Config
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller
from toolcrib.core.errors import ConnectionLost, PermissionDenied
from toolcrib.core.requests import ErrorInfo, Request, Result
from toolcrib.core.seal import Seal
from toolcrib.testing import FakeSource, ManualClock, MemoryCrib, RecordingChannel, memory_crib

OWNER = Caller("owner", "token", EVERYTHING)
ASK = Config(security=SecurityConfig(policy="ask"))
FORMS = {"elicitation": {}}


def choose(reply: str) -> dict:
    return {"action": "accept", "content": {"answer": reply}}


def client(response: object) -> RecordingChannel:
    """A client of the handshake era that gives this response to every question."""
    return RecordingChannel({ELICIT: response}, capabilities=FORMS)


def stateless(capabilities: object = FORMS) -> RecordingChannel:
    return RecordingChannel(capabilities=capabilities, takes_input_required=True)


async def run(made: MemoryCrib, more: dict | None = None, **changes: object) -> Result:
    """One request of a stateless client."""
    fields = {"name": "srv__work", "arguments": {"n": 1}, "channel": stateless()} | changes
    return await made.crib.run(made.crib.request(**fields, more=more or {}))


def answered(result: Result, reply: str = "once") -> dict:
    """What a client sends along when it calls again."""
    return {"requestState": result.mcp["requestState"], "inputResponses": {REQUEST: choose(reply)}}


# The handshake era: a question in the middle of the call


@pytest.mark.parametrize(
    ("response", "runs", "questions"),
    [
        (choose("once"), 2, 2),
        (choose("session"), 2, 1),
        (choose("always"), 2, 1),
        (choose("no"), 0, 2),
        ({"action": "decline"}, 0, 2),
        ({"action": "cancel"}, 0, 2),
        (choose("whatever"), 0, 2),
        (ConnectionLost("gone"), 0, 2),
    ],
)
async def test_the_clients_answer_decides(response, runs, questions):
    """Two calls: how many ran, and how often the person was asked."""
    source, channel = FakeSource("srv", ["work"]), client(response)
    async with memory_crib(source, config=ASK) as made:
        results = [await made.crib.call("srv__work", {"n": 1}, channel=channel) for _ in range(2)]

    assert len(source.calls) == runs
    assert len(channel.asked) == questions
    assert {result.error.code for result in results if result.error} <= {"TOOL_PERMISSION_DENIED"}


async def test_tools_that_are_allowed_ask_nobody():
    """The policy of the tool decides."""
    channel = client(choose("no"))
    config = Config(security=SecurityConfig(policies={"srv__other": "ask"}))
    async with memory_crib(FakeSource("srv", ["work"]), config=config) as made:
        result = await made.crib.call("srv__work", channel=channel)

    assert (result.success, channel.asked) == (True, [])


async def test_an_agent_is_never_asked_through_its_own_client():
    """In neither era; only somebody else's word helps."""
    agent = Caller("agent", "agent", EVERYTHING)
    source, channel = FakeSource("srv", ["work"]), client(choose("always"))
    async with memory_crib(source, config=ASK) as made:
        results = [
            await made.crib.call("srv__work", caller=agent, channel=channel),
            await run(made, caller=agent),
        ]
        await made.crib.inbox.look(OWNER)
        waiting = asyncio.create_task(made.crib.call("srv__work", caller=agent, channel=channel))
        (found,) = await made.crib.inbox.look(OWNER, 60)
        made.crib.inbox.answer(found.question.id, ApprovalReply.ONCE, OWNER)
        approved = await waiting

    assert [result.error.code for result in results] == ["TOOL_PERMISSION_DENIED"] * 2
    assert (channel.asked, approved.success, len(source.calls)) == ([], True, 1)


async def test_the_inbox_and_the_client_are_asked_at_once():
    """Whoever answers first decides, here the inbox."""
    channel = client(choose("no"))
    never = asyncio.Event()

    async def ask(method: str, params: bytes) -> bytes:
        await never.wait()
        return b""

    channel.ask = ask
    async with memory_crib(FakeSource("srv", ["work"]), config=ASK) as made:
        await made.crib.inbox.look(OWNER)
        calling = asyncio.create_task(made.crib.call("srv__work", channel=channel))
        (found,) = await made.crib.inbox.look(OWNER, 60)
        made.crib.inbox.answer(found.question.id, ApprovalReply.ONCE, OWNER)

        assert (await calling).success


async def test_with_nobody_to_ask_the_call_is_refused_and_says_how_to_allow_it():
    """A client without forms, and no one at the inbox."""
    source = FakeSource("srv", ["work"])
    async with memory_crib(source, config=ASK) as made:
        refused = [await made.crib.call("srv__work"), await run(made, channel=stateless({}))]

    assert source.calls == []
    for result in refused:
        assert "toolcrib policy srv__work allow" in result.error.message


# The stateless era: a result that asks back


async def test_a_stateless_client_is_asked_by_the_result_and_calls_again():
    """The tool runs at the second request, and sees nothing of the answer."""
    source = FakeSource("srv", ["work"])
    async with memory_crib(source, config=ASK) as made:
        asked = await run(made)
        before = len(source.calls)
        done = await run(made, answered(asked))

    assert asked.mcp["resultType"] == "input_required"
    assert asked.mcp["inputRequests"][REQUEST]["method"] == ELICIT
    assert (before, done.text, source.calls[0].more) == (0, "work ran", {})


@pytest.mark.parametrize(("reply", "asked_again"), [("once", True), ("session", True), ("always", False)])
async def test_a_stateless_answer_is_worth_what_it_says(reply, asked_again):
    """Even with other arguments, if it was for ever; there is no session to allow it for."""
    async with memory_crib(FakeSource("srv", ["work"]), config=ASK) as made:
        await run(made, answered(await run(made), reply))
        again = await run(made, arguments={"n": 2})

    assert (again.mcp.get("resultType") == "input_required") is asked_again


async def test_for_this_session_counts_for_a_stateless_client_that_has_one():
    """It is offered only then, and holds for that session alone."""
    first, second = (Caller("local", grants=EVERYTHING, session=session) for session in ("s1", "s2"))
    async with memory_crib(FakeSource("srv", ["work"]), config=ASK) as made:
        asked = await run(made, caller=first)
        await run(made, answered(asked, "session"), caller=first)
        again = await run(made, caller=first, arguments={"n": 2})
        others = [await run(made, caller=second), await run(made)]

    offered = [
        result.mcp["inputRequests"][REQUEST]["params"]["requestedSchema"]["properties"]["answer"]["enum"]
        for result in (asked, others[1])
    ]
    assert offered == [["once", "session", "always", "no"], ["once", "always", "no"]]
    assert again.text == "work ran"
    assert [result.mcp.get("resultType") for result in others] == ["input_required"] * 2


@pytest.mark.parametrize("response", [choose("no"), {"action": "decline"}, {"action": "cancel"}, None, {}])
async def test_whatever_is_not_a_yes_refuses(response):
    """And spends the question."""
    source = FakeSource("srv", ["work"])
    async with memory_crib(source, config=ASK) as made:
        state = (await run(made)).mcp["requestState"]
        refused = await run(made, {"requestState": state, "inputResponses": {REQUEST: response}})
        again = await run(made, {"requestState": state, "inputResponses": {REQUEST: choose("always")}})

    assert {refused.error.code, again.error.code} == {"TOOL_PERMISSION_DENIED"}
    assert source.calls == []


async def test_an_approval_cannot_be_replayed_forged_or_used_for_anything_else():
    """Not by the same caller, not by another, not with other arguments, not for another tool."""
    source = FakeSource("srv", ["work", "other"])
    bob = Caller("bob", "token", EVERYTHING)
    async with memory_crib(source, config=ASK) as made:
        used = answered(await run(made))
        await run(made, used)
        fresh = answered(await run(made))
        forged = {**fresh, "requestState": fresh["requestState"][:-6] + "AAAAAA"}
        refused = [
            await run(made, used),
            await run(made, forged),
            await run(made, fresh, arguments={"n": 2}),
            await run(made, fresh, caller=bob),
            await run(made, fresh, caller=Caller("local", grants=EVERYTHING, session="other")),
            await run(made, fresh, name="srv__other"),
        ]
        good = await run(made, fresh)

    assert [result.error.code for result in refused] == ["TOOL_PERMISSION_DENIED"] * 6
    assert (good.success, len(source.calls)) == (True, 2)


def rounds(source: FakeSource, *states: object) -> None:
    """Have the tool ask back once for each state (``None``: without one), then finish."""
    pending = list(states)

    def work(call: Request) -> Result:
        if not pending:
            return Result({"content": [{"type": "text", "text": "done"}], "resultType": "complete"})
        state = pending.pop(0)
        request = {"method": "sampling/createMessage", "params": {}}
        asked = {"resultType": "input_required", "inputRequests": {"more": request}}
        return Result(asked if state is None else {**asked, "requestState": state})

    source.answers["work"] = work


def next_round(result: Result) -> dict:
    state = {"requestState": result.mcp["requestState"]} if "requestState" in result.mcp else {}
    return {"inputResponses": {"more": {"content": "x"}}, **state}


@pytest.mark.parametrize("states", [("one", "two", "three"), (None, None), ("toolcrib.mine", None)])
async def test_a_tool_that_asks_back_itself_works_through_all_rounds_and_the_person_is_asked_once(states):
    """Whatever state the tool hands out, or none."""
    source = FakeSource("srv", ["work"])
    rounds(source, *states)
    async with memory_crib(source, config=ASK) as made:
        result = await run(made, answered(await run(made)))
        for _ in states:
            assert set(result.mcp["inputRequests"]) == {"more"}
            result = await run(made, next_round(result))
        new = await run(made)

    assert result.text == "done"
    assert len(source.calls) == 1 + len(states)
    assert REQUEST in new.mcp["inputRequests"]


async def test_a_client_without_forms_is_approved_elsewhere_once_for_all_rounds():
    """The person at the inbox is not asked for each round."""
    source, channel = FakeSource("srv", ["work"]), stateless({"sampling": {}})
    rounds(source, "one", None)
    async with memory_crib(source, config=ASK) as made:
        await made.crib.inbox.look(OWNER)
        calling = asyncio.create_task(run(made, channel=channel))
        (found,) = await made.crib.inbox.look(OWNER, 60)
        made.crib.inbox.answer(found.question.id, ApprovalReply.ONCE, OWNER)
        result = await calling
        for _ in range(2):
            result = await run(made, next_round(result), channel=channel)

    assert result.text == "done"


async def test_a_round_is_nobody_elses_and_goes_on_once():
    """The same state again, from another caller or session, or with other arguments, is asked for anew."""
    source = FakeSource("srv", ["work"])
    rounds(source, "one")
    bob = Caller("bob", "token", EVERYTHING)
    async with memory_crib(source, config=ASK) as made:
        result = await run(made, answered(await run(made)))
        foreign = [
            await run(made, next_round(result), caller=bob),
            await run(made, next_round(result), caller=Caller("local", grants=EVERYTHING, session="other")),
            await run(made, next_round(result), arguments={"n": 2}),
            await run(made, {**next_round(result), "requestState": "other"}),
        ]
        done = await run(made, next_round(result))
        replayed = await run(made, next_round(result))

    assert all(REQUEST in found.mcp["inputRequests"] for found in [*foreign, replayed])
    assert done.text == "done"


async def test_the_wait_for_a_person_does_not_count_against_the_time_limit_of_the_tool():
    """The limit begins when the work does."""
    config = Config(security=SecurityConfig(policy="ask"), call_timeout_s=1.0)
    async with memory_crib(FakeSource("srv", ["work"]), config=config) as made:
        await made.crib.inbox.look(OWNER)
        calling = asyncio.create_task(made.crib.call("srv__work", caller=LOCAL_USER))
        (found,) = await made.crib.inbox.look(OWNER, 60)
        await made.crib.inbox.look(OWNER)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(calling), 1.1)
        made.crib.inbox.answer(found.question.id, ApprovalReply.ONCE, OWNER)

        assert (await calling).success


async def test_as_many_rounds_as_are_kept_go_on_and_one_more_costs_the_oldest(monkeypatch):
    """The bound holds at the exact number; who is forgotten is asked again."""
    monkeypatch.setattr(importlib.import_module("toolcrib.calls.layers.approve"), "ROUNDS_KEPT", 2)
    source = FakeSource("srv", ["work"])
    rounds(source, "one", "two", "three")
    async with memory_crib(source, config=ASK) as made:
        opened = [await run(made, answered(await run(made, arguments={"n": n})), arguments={"n": n}) for n in range(3)]
        ended = [await run(made, next_round(result), arguments={"n": n}) for n, result in enumerate(opened)]

    assert REQUEST in ended[0].mcp["inputRequests"]
    assert [result.text for result in ended[1:]] == ["done", "done"]


@pytest.mark.parametrize("passed_s", [0.0, 59.5])
async def test_an_answer_counts_once_at_whichever_replica_as_long_as_its_seal_is_valid(passed_s):
    """Each replica has a memory of its own; what they have in common is kept a little longer than the seal."""
    clock = ManualClock(1000.5)
    hub = MemoryHub(clock)
    marks = [Marks(hub.join(name), b"secret") for name in "ab"]
    seals = [ApprovalSeal(Seal(clock, b"key"), 60.0) for _ in marks]
    first = Request("srv__work", "work", {}, channel=stateless())
    result = seals[0].ask(ApprovalQuestion("q1", "srv__work", "srv", "write", "me", {}, 60.0), first)
    again = [Request("srv__work", "work", {}, more=answered(result)) for _ in marks]

    assert await open_seal(seals[0], again[0], marks[0]) is ApprovalReply.ONCE
    clock.advance(passed_s)
    with pytest.raises(PermissionDenied, match="not valid"):
        await open_seal(seals[1], again[1], marks[1])


ASKED_BACK = Result({"resultType": "input_required", "requestState": "one"})


def round_of(**changes: object) -> Request:
    """The round after one that asked back, or another."""
    usual = {"name": "srv__work", "target": "work", "arguments": {"n": 1}, "more": {"requestState": "one"}}
    return Request(**(usual | changes))


@pytest.mark.parametrize("replicas", ["a", "ab"], ids=["alone", "at another replica"])
async def test_the_round_that_was_asked_for_goes_on_once_wherever_it_comes_to(replicas):
    """Nothing else does: no other tool, arguments, state, caller or session."""
    hub = MemoryHub()
    all_rounds = [Rounds(Marks(hub.join(name), b"common") if len(replicas) > 1 else None) for name in replicas]
    others = [
        round_of(name="srv__other"),
        round_of(arguments={"n": 2}),
        round_of(more={"requestState": "two"}),
        round_of(more={}),
        round_of(caller=Caller("bob")),
        round_of(caller=Caller(LOCAL_USER.id, session="s2")),
    ]
    await all_rounds[0].note(_digest(round_of()), ASKED_BACK)

    assert [await all_rounds[-1].goes_on(other) for other in others] == [False] * len(others)
    assert [await all_rounds[-1].goes_on(round_of()) for _ in range(2)] == [True, False]
    assert not await all_rounds[0].goes_on(round_of())


@pytest.mark.parametrize(
    "result",
    [
        Result({"resultType": "complete", "requestState": "one"}),
        Result(dict(ASKED_BACK.mcp), error=ErrorInfo("TOOL_EXECUTION_FAILED", "no")),
    ],
)
async def test_a_tool_that_did_not_ask_back_has_no_further_round(result):
    rounds_open = Rounds()
    await rounds_open.note(_digest(round_of()), result)

    assert not await rounds_open.goes_on(round_of())
