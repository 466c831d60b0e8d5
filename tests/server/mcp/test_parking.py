"""Parking: a stateless client is given a server's questions as a result, and its next request finishes the call."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tests.doubles.replicas import Common, so
from tests.server.mcp import test_http, test_stdio
from tests.server.mcp.test_roaming import place

from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import ProtocolError, RateLimited
from toolcrib.core.requests import Request
from toolcrib.core.seal import Seal
from toolcrib.server.mcp import parked_elsewhere, parking
from toolcrib.server.mcp.parking import ParkingLot, is_retry
from toolcrib.testing import FakeSource, ManualClock
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import Inbound, RpcError

META = {eras.META_VERSION: "2026-07-28", eras.META_CLIENT_CAPABILITIES: {"elicitation": {}, "roots": {}}}
ASK = {"name": "srv__work", "arguments": {"a": 1}, "_meta": META}
FORM = b'{"message":"Sure?"}'
YES = {"action": "accept", "content": {}}


@dataclass
class Asking:
    """A server whose tool asks as often as it is told, and says what it was answered."""

    rounds: int = 1
    at_once: int = 1
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    failures: list[str] = field(default_factory=list)
    before_end: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.before_end.set()

    def source(self) -> FakeSource:
        source = FakeSource("srv", ["work"])
        source.answers["work"] = self._work
        return source

    async def _work(self, call: Request) -> str:
        said: list[str] = []
        try:
            for _ in range(self.rounds):
                asked = [call.channel.ask("elicitation/create", FORM) for _ in range(self.at_once)]
                said += [json.loads(answer)["action"] for answer in await asyncio.gather(*asked)]
            call.channel.notify("notifications/progress", b'{"progressToken":1,"progress":1}')
            await self.before_end.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        except (ProtocolError, RateLimited) as error:
            self.failures.append(error.message)
            raise
        return " ".join(said)


@contextlib.asynccontextmanager
async def stdio(asking: Asking) -> AsyncIterator[test_stdio.Client]:
    async with test_stdio.client_of(asking.source()) as client:
        yield client


def retry(asked: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same request again with an answer to each question."""
    result = asked["result"]
    answers = dict.fromkeys(result["inputRequests"], YES)
    return {**ASK, "requestState": result["requestState"], "inputResponses": answers, **changes}


async def test_the_questions_are_a_result_and_the_next_request_gets_the_outcome():
    """Under its own id; nothing of the round is seen by the tool."""
    async with stdio(Asking()) as client:
        asked = await client.ask(1, "tools/call", ASK)
        done = await client.ask(2, "tools/call", retry(asked))

    assert (asked["id"], asked["result"]["resultType"]) == (1, "input_required")
    assert [*asked["result"]["inputRequests"].values()] == [
        {"method": "elicitation/create", "params": {"message": "Sure?"}}
    ]
    assert asked["result"]["requestState"].startswith("toolcrib.parked.")
    accepted = {"resultType": "complete", "content": [{"type": "text", "text": "accept"}], "_meta": test_http.SIGNED}
    assert done == {"id": 2, "result": accepted}


async def test_what_is_asked_at_once_is_one_round_and_what_is_asked_later_another():
    """Each with a state of its own."""
    async with stdio(Asking(rounds=2, at_once=3)) as client:
        first = await client.ask(1, "tools/call", ASK)
        second = await client.ask(2, "tools/call", retry(first))
        done = await client.ask(3, "tools/call", retry(second))

    assert [len(asked["result"]["inputRequests"]) for asked in (first, second)] == [3, 3]
    assert first["result"]["requestState"] != second["result"]["requestState"]
    assert done["result"]["content"][0]["text"] == " ".join(["accept"] * 6)


async def test_an_answer_that_was_left_out_is_asked_for_again():
    """The others count."""
    async with stdio(Asking(at_once=2)) as client:
        first = await client.ask(1, "tools/call", ASK)
        one, other = first["result"]["inputRequests"]
        again = await client.ask(2, "tools/call", retry(first, inputResponses={one: YES, "made-up": YES}))
        done = await client.ask(3, "tools/call", retry(again))

    assert [*again["result"]["inputRequests"]] == [other]
    assert done["result"]["content"][0]["text"] == "accept accept"


@pytest.mark.parametrize("responses", [None, [], "yes", {"q1": None}, {"q1": [1]}])
async def test_an_answer_that_is_none_is_asked_for_again(responses):
    """Whatever a client sends in its place."""
    async with stdio(Asking()) as client:
        first = await client.ask(1, "tools/call", ASK)
        again = await client.ask(2, "tools/call", retry(first, inputResponses=responses))

    assert again["result"]["resultType"] == "input_required"


async def test_a_server_that_asks_for_ever_is_stopped_after_ten_rounds():
    """It is refused; the call then says what it makes of that."""
    asking = Asking(rounds=99)
    async with stdio(asking) as client:
        answer, rounds = await client.ask(0, "tools/call", ASK), 0
        while answer["result"]["resultType"] == "input_required":
            rounds += 1
            answer = await client.ask(rounds, "tools/call", retry(answer))

    assert (rounds, asking.failures) == (10, ["The server asked back more than 10 times."])
    assert answer["result"]["isError"]


def tampered(state: str) -> str:
    head, _, body = state.rpartition(".")
    inside = bytearray(base64.urlsafe_b64decode(body))
    inside[-5] ^= 1
    return f"{head}.{base64.urlsafe_b64encode(bytes(inside)).decode()}"


@pytest.mark.parametrize(
    "change",
    [
        lambda state: {"requestState": tampered(state)},
        lambda state: {"requestState": state[:-8]},
        lambda state: {"requestState": "toolcrib.parked."},
        lambda state: {"requestState": state, "arguments": {"a": 2}},
        lambda state: {"requestState": state, "arguments": {}},
        lambda state: {"requestState": state, "name": "srv__other"},
    ],
)
async def test_a_state_that_was_changed_or_belongs_to_another_request_is_refused(change):
    """The call goes on waiting for its own client."""
    async with stdio(Asking()) as client:
        asked = await client.ask(1, "tools/call", ASK)
        refused = await client.ask(2, "tools/call", retry(asked, **change(asked["result"]["requestState"])))
        done = await client.ask(3, "tools/call", retry(asked))

    assert refused["error"]["code"] == -32602
    assert "requestState of this request is not valid" in refused["error"]["message"]
    assert done["result"]["content"][0]["text"] == "accept"


async def test_nobody_goes_on_with_the_call_of_another_client():
    """Not even of the same user, in another session."""
    async with stdio(Asking()) as client:
        asked = await client.ask(1, "tools/call", ASK)
        other = test_stdio.Client(client.made)
        other.door.mcp = client.door.mcp
        refused = await other.ask(1, "tools/call", retry(asked))
        await other.door.close()
        done = await client.ask(2, "tools/call", retry(asked))

    assert refused["error"]["code"] == -32602
    assert done["result"]["content"][0]["text"] == "accept"


async def test_questions_are_answered_once():
    """The same answer again finds the round over, or the call."""
    asking = Asking(rounds=2)
    async with stdio(asking) as client:
        first = await client.ask(1, "tools/call", ASK)
        second = await client.ask(2, "tools/call", retry(first))
        replayed = await client.ask(3, "tools/call", retry(first))
        done = await client.ask(4, "tools/call", retry(second))
        over = await client.ask(5, "tools/call", retry(second))

    assert "answered before" in replayed["error"]["message"]
    assert done["result"]["content"][0]["text"] == "accept accept"
    assert over["error"]["data"]["details"] == {"outcome": "unknown"}


async def test_two_who_answer_at_once_are_not_both_heard():
    """The first counts."""
    asking = Asking()
    asking.before_end.clear()
    async with stdio(asking) as client:
        asked = await client.ask(1, "tools/call", ASK)
        client.send({"id": 2, "method": "tools/call", "params": retry(asked)})
        refused = await client.ask(3, "tools/call", retry(asked))
        asking.before_end.set()
        done = await client.read()

    assert (refused["id"], refused["error"]["code"]) == (3, -32602)
    assert (done["id"], done["result"]["content"][0]["text"]) == (2, "accept")


async def test_a_call_whose_client_does_not_come_back_is_cancelled():
    """And who comes too late is told what became of it."""
    asking = Asking()
    async with stdio(asking) as client:
        client.door.mcp.lot.patience_s = 0.0
        asked = await client.ask(1, "tools/call", ASK)
        await asyncio.wait_for(asking.cancelled.wait(), 60)
        late = await client.ask(2, "tools/call", retry(asked))

    assert late["error"]["code"] == -32603
    assert "has ended" in late["error"]["message"]
    assert late["error"]["data"] == {"code": "TOOL_CANCELLED", "retryable": False, "details": {"outcome": "unknown"}}


async def test_a_client_that_goes_away_ends_what_waits_for_it():
    """Nobody else could answer."""
    asking = Asking()
    async with stdio(asking) as client:
        await client.ask(1, "tools/call", ASK)
        client.door.connection_lost(None)
        await asyncio.wait_for(asking.cancelled.wait(), 60)
        await asyncio.wait_for(client.door.ended.wait(), 60)


async def test_a_client_that_gives_up_while_the_call_goes_on_has_it_cancelled():
    """As with any other call."""
    asking = Asking()
    asking.before_end.clear()
    async with stdio(asking) as client:
        asked = await client.ask(1, "tools/call", ASK)
        with_token = {**META, "progressToken": "mine"}
        told = await client.ask(2, "tools/call", retry(asked, _meta=with_token))
        client.send({"method": "notifications/cancelled", "params": {"requestId": 2}})
        await asyncio.wait_for(asking.cancelled.wait(), 60)

    assert told == {"method": "notifications/progress", "params": {"progressToken": "mine", "progress": 1}}


async def test_a_call_that_ends_while_its_client_thinks_keeps_its_outcome_for_it():
    """The server may have withdrawn its question."""
    source = FakeSource("srv", ["work"])
    asked_it, withdraw = asyncio.Event(), asyncio.Event()

    async def work(call: Request) -> str:
        asking = asyncio.ensure_future(call.channel.ask("elicitation/create", FORM))
        asked_it.set()
        await withdraw.wait()
        asking.cancel()
        return "did it without you"

    source.answers["work"] = work
    async with test_stdio.client_of(source) as client:
        asked = await client.ask(1, "tools/call", ASK)
        withdraw.set()
        done = await client.ask(2, "tools/call", retry(asked))

    assert done["result"]["content"][0]["text"] == "did it without you"


@pytest.mark.parametrize("limit", ["OUTCOME_MAX", "OUTCOMES_MAX"])
async def test_a_result_that_is_too_large_to_be_kept_is_not(monkeypatch, limit):
    """By itself, or with all that wait; the client is told that the call has ended."""
    monkeypatch.setattr(parking, limit, 10)
    lot = ParkingLot(Seal(ManualClock()), 60.0)
    slot = Slot()
    parked = lot.park(slot)
    asking = asyncio.ensure_future(parked.ask("roots/list", b"{}"))
    await slot.answered.wait()
    asking.cancel()
    parked.finish(b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}', 200)

    body, _ = await lot.resume(slot.again(), LOCAL_USER, None)

    assert "too large to be kept" in json.loads(body)["error"]["message"]


async def test_what_was_handed_over_makes_room_for_other_results(monkeypatch):
    """Only what waits for its client counts."""
    body = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
    monkeypatch.setattr(parking, "OUTCOMES_MAX", len(body) + 5)
    lot, ended = ParkingLot(Seal(ManualClock()), 60.0), []
    for _ in range(2):
        parked = lot.park(slot := Slot())
        asking = asyncio.ensure_future(parked.ask("roots/list", b"{}"))
        await slot.answered.wait()
        asking.cancel()
        parked.finish(body, 200)
        ended.append((lot.kept_bytes, json.loads((await lot.resume(slot.again(), LOCAL_USER, None))[0])["result"]))

    assert (ended, lot.kept_bytes) == ([(len(body), {"content": []})] * 2, 0)


class Slot:
    """The request that a parked call began with."""

    def __init__(self, caller: Caller = LOCAL_USER) -> None:
        self.message, self.caller = Inbound(id=1, method="tools/call", params={"name": "x"}), caller
        self.answered = asyncio.Event()
        self.body: dict[str, Any] = {}

    def finish(self, body: bytes, status: int) -> None:
        assert status == 200
        self.body = json.loads(body)
        self.answered.set()

    def cancel(self) -> None:
        self.answered.set()

    def again(self, **responses: Any) -> Inbound:
        state = self.body["result"]["requestState"]
        return Inbound(
            id=2, method="tools/call", params={"name": "x", "requestState": state, "inputResponses": responses}
        )


async def test_so_many_calls_wait_and_no_more():
    """Of one caller, and over all; a place that is given back is free."""
    lot = ParkingLot(Seal(ManualClock()), 60.0)
    slots = [Slot(Caller(f"caller-{n % 40}")) for n in range(1000)]
    parked = [lot.park(slot) for slot in slots]

    with pytest.raises(RateLimited, match="Too many calls wait"):
        lot.park(Slot(Caller("another")))
    for one in parked[:500]:
        one.cancel()
    for _ in range(13):
        lot.park(Slot(Caller("caller-1")))

    with pytest.raises(RateLimited):
        lot.park(Slot(Caller("caller-1")))
    lot.park(Slot(Caller("another")))


async def test_a_thousand_parked_calls_each_get_their_own_answer():
    """In whatever order they come back."""
    lot = ParkingLot(Seal(ManualClock()), 60.0)
    slots = [Slot(Caller(f"caller-{n % 40}")) for n in range(1000)]
    parked = [lot.park(slot) for slot in slots]
    asking = [asyncio.ensure_future(each.ask("elicitation/create", FORM)) for each in parked]
    await asyncio.gather(*(slot.answered.wait() for slot in slots))
    going = [
        asyncio.ensure_future(lot.resume(slot.again(q1={"action": "accept", "n": n}), slot.caller, None))
        for n, slot in reversed([*enumerate(slots)])
    ]

    answers = [msgspec.json.decode(answer)["n"] for answer in await asyncio.gather(*asking)]

    assert answers == [*range(1000)]
    for one in parked:
        one.abandon()
    assert len(await asyncio.gather(*going)) == 1000


async def test_a_seal_of_a_lot_that_is_gone_is_refused():
    """Another process cannot even read it."""
    slot, lot = Slot(), ParkingLot(Seal(ManualClock()), 60.0)
    asking = asyncio.ensure_future(lot.park(slot).ask("roots/list", b"{}"))
    await slot.answered.wait()

    with pytest.raises(RpcError, match="not valid"):
        await ParkingLot(Seal(ManualClock()), 60.0).resume(slot.again(), LOCAL_USER, None)
    asking.cancel()


def test_only_a_seal_of_ours_is_taken_for_one():
    """A server's own state goes to the server."""
    states = (None, "x", 5, "toolcrib.round.x", "toolcrib.parked.x")

    assert [is_retry({"requestState": state}) for state in states] == [False, False, False, False, True]


# Over HTTP


async def ask_http(client: test_http.Client, request_id: int, params: dict[str, Any]) -> test_http.Answer:
    return await client.ask_modern(request_id, "tools/call", params)


async def test_over_http_each_round_is_a_request_of_its_own():
    """The connection of the one before may be closed: the call goes on."""
    async with test_http.client_of(Asking(rounds=2).source()) as client:
        first = await ask_http(client, 1, ASK)
        asked = await first.json()
        await first.close()
        again = await (await ask_http(client, 2, retry(asked))).json()
        done = await (await ask_http(client, 3, retry(again))).json()

    assert (first.status, again["id"], again["result"]["resultType"]) == (200, 2, "input_required")
    assert (done["id"], done["result"]["content"][0]["text"]) == (3, "accept accept")


async def test_over_http_closing_the_connection_of_a_round_cancels_the_call():
    """As that of any other stateless call."""
    asking = Asking()
    asking.before_end.clear()
    async with test_http.client_of(asking.source()) as client:
        asked = await (await ask_http(client, 1, ASK)).json()
        going_on = await ask_http(client, 2, retry(asked, _meta={**META, "progressToken": 1}))
        await going_on.event()
        await going_on.close()
        await asyncio.wait_for(asking.cancelled.wait(), 60)


async def test_a_door_that_closes_ends_what_waits():
    """Nothing is left behind."""
    asking = Asking()
    async with test_http.client_of(asking.source()) as client:
        await (await ask_http(client, 1, ASK)).json()

    assert asking.cancelled.is_set()


# Several replicas


async def test_a_client_that_comes_back_to_another_replica_finishes_its_call():
    """However many rounds it takes, and whichever it comes to."""
    common = Common()
    async with place(common, "a", Asking(rounds=2).source()) as a, place(common, "b", Asking().source()) as b:
        asked = await (await ask_http(a.client, 1, ASK)).json()
        again = await (await ask_http(b.client, 2, retry(asked))).json()
        done = await (await ask_http(b.client, 3, retry(again))).json()
        over = await (await ask_http(a.client, 4, retry(again))).json()

    assert (again["id"], again["result"]["resultType"]) == (2, "input_required")
    assert (done["id"], done["result"]["content"][0]["text"]) == (3, "accept accept")
    assert over["error"]["data"]["details"] == {"outcome": "unknown"}


async def test_a_round_is_answered_once_by_whichever_replica():
    """The replica that holds the call decides."""
    asking, common = Asking(), Common()
    asking.before_end.clear()
    async with place(common, "a", asking.source()) as a, place(common, "b") as b:
        asked = await (await ask_http(a.client, 1, ASK)).json()
        first = await ask_http(a.client, 2, retry(asked, _meta={**META, "progressToken": 1}))
        await first.event()
        refused = await (await ask_http(b.client, 3, retry(asked))).json()
        asking.before_end.set()
        done = await first.event()

    assert "answered before" in refused["error"]["message"]
    assert done is not None
    assert done["result"]["content"][0]["text"] == "accept"


async def test_a_client_that_leaves_the_other_replica_has_its_call_cancelled():
    """Wherever it runs."""
    asking, common = Asking(), Common()
    asking.before_end.clear()
    async with place(common, "a", asking.source()) as a, place(common, "b") as b:
        asked = await (await ask_http(a.client, 1, ASK)).json()
        going_on = asyncio.ensure_future(ask_http(b.client, 2, retry(asked)))
        await so(lambda: not a.client.door._mcp.lot.find(ticket_of(asked)).is_waiting)
        await b.client.close()
        await asyncio.wait_for(asking.cancelled.wait(), 60)
        going_on.cancel()


def ticket_of(asked: dict[str, Any]) -> str:
    inside = base64.urlsafe_b64decode(asked["result"]["requestState"].rpartition(".")[2])
    return json.loads(inside.split(b".", 3)[3])[1]


async def test_of_a_call_whose_replica_is_gone_the_outcome_is_unknown(monkeypatch):
    """The client is told so, soon."""
    monkeypatch.setattr(parked_elsewhere, "CONFIRM_S", 0.01)
    common = Common()
    async with place(common, "a", Asking().source()) as a:
        asked = await (await ask_http(a.client, 1, ASK)).json()
    async with place(common, "b") as b:
        gone = await (await ask_http(b.client, 2, retry(asked))).json()

    assert (gone["id"], gone["error"]["code"]) == (2, -32603)
    assert "the replica that held it is gone" in gone["error"]["message"]
    assert gone["error"]["data"]["details"] == {"outcome": "unknown"}


async def test_a_parked_call_goes_on_only_where_it_was_made():
    """Another profile may show its caller less, and another replica would look for it at all of them."""
    seal, slot = Seal(ManualClock()), Slot()
    made, other = ParkingLot(seal, 60.0, "a", "work"), ParkingLot(seal, 60.0, "b", "home")
    asking = asyncio.ensure_future(made.park(slot).ask("roots/list", b"{}"))
    await slot.answered.wait()

    with pytest.raises(RpcError, match="another request"):
        await other.resume(slot.again(), LOCAL_USER, None)
    with pytest.raises(RpcError, match="has ended"):
        await ParkingLot(seal, 60.0, "b", "work").resume(slot.again(), LOCAL_USER, None)
    asking.cancel()
