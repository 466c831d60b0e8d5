"""Lanes: who shares a process or session of a server, how many there are, and when they end."""

import asyncio
import json

import pytest

from toolcrib.config.model import ServerConfig
from toolcrib.config.sharing import COMMAND_LANES
from toolcrib.core.access import Caller
from toolcrib.core.errors import RateLimited, ToolcribError
from toolcrib.core.requests import Request, Result
from toolcrib.core.source import MAIN_LANE, Lane, Listing
from toolcrib.sources.mcp.comeback import SupervisorSettings
from toolcrib.sources.mcp.lanes import KEPT_S, Lanes, Ready
from toolcrib.sources.mcp.link import ExitTrace, LinkEvents
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.source import McpSource
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.testing import FakeLink, FakeServer, ManualClock

OFFER = ClientIdentity({"name": "toolcrib", "version": "1"}, {})
ANN, ANN_TOO, BEN = Caller("ann", session="s1"), Caller("ann", session="s2"), Caller("ben", session="s3")


class Loop:
    """A clock that stands still, and timers that are rung by hand."""

    def __init__(self) -> None:
        self.time, self.timers = ManualClock(1000.0), []
        self._loop = asyncio.get_running_loop()

    def call_later(self, delay_s: float, callback, *args):
        self.timers.append((delay_s, callback))
        return self._loop.call_later(3600, callback, *args)


class Counting(FakeServer):
    """Each connection is a process with a number; ``count`` says how often it was called there."""

    def __init__(self) -> None:
        super().__init__({"tools/call": self._count, "resources/subscribe": lambda params, link: {}})
        self.counts: dict[int, int] = {}
        self.closings = asyncio.Event()
        self.closings.set()

    def _count(self, params: dict, link: FakeLink) -> dict:
        number = self.links.index(link)
        self.counts[number] = self.counts.get(number, 0) + 1
        return {"content": [{"type": "text", "text": f"{number}:{self.counts[number]}"}]}

    async def dial(self, events: LinkEvents) -> FakeLink:
        link = await super().dial(events)
        close = link.close

        async def close_when_it_may() -> None:
            await self.closings.wait()
            await close()

        link.close = close_when_it_may
        return link

    @property
    def alive(self) -> int:
        return sum(link.is_open for link in self.links)


class Made:
    """A source with its lanes, by a clock of its own."""

    def __init__(self, server: Counting, config: ServerConfig) -> None:
        self.server, self.loop = server, Loop()
        self.asked = 0
        self.lanes = Lanes(config, self._make)
        self.lanes._loop = self.loop
        self.source = McpSource("srv", self._supervisor(server.dial), OFFER, is_http=False)
        self.source.split_into(self.lanes)
        self.source.on_asking(self._note)

    def _note(self) -> None:
        self.asked += 1

    def _make(self, lane: Lane, ready: Ready) -> Supervisor:
        async def dial(events: LinkEvents) -> FakeLink:
            await ready()
            return await self.server.dial(events)

        return self._supervisor(dial)

    def _supervisor(self, dial) -> Supervisor:
        made = Supervisor("srv", dial, OFFER, SupervisorSettings(delays_s=(0.0,), idle_timeout_s=0), lambda _: None)
        made._loop = self.loop
        return made

    async def call(self, caller: Caller) -> str:
        """Which process answered, and how many calls it has had."""
        result: Result = await self.source.answer(Request("srv__count", "count", {}, caller=caller))
        return result.text


@pytest.fixture
async def made():
    """Makes sources and closes them afterwards."""
    sources: list[Made] = []

    def make(**config: object) -> Made:
        sources.append(Made(Counting(), ServerConfig("srv", command="x", **config)))
        return sources[-1]

    yield make
    for one in sources:
        one.server.closings.set()
        await one.source.close()
        assert one.server.alive == 0


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("share", "answers"),
    [
        ("all", ["0:1", "0:2", "0:3", "0:4"]),
        ("user", ["0:1", "0:2", "1:1", "0:3"]),
        ("session", ["0:1", "1:1", "2:1", "0:2"]),
        ("", ["0:1", "0:2", "0:3", "0:4"]),
        ("auto", ["0:1", "0:2", "0:3", "0:4"]),
    ],
)
async def test_callers_share_what_they_are_to_share(made, share, answers):
    """One process for all, for the sessions of one caller, or for each session."""
    one = made(share=share)

    assert [await one.call(caller) for caller in (ANN, ANN_TOO, BEN, ANN)] == answers


async def test_clients_without_a_session_share_the_lane_of_their_caller(made):
    """There is nothing else they could be told apart by."""
    one = made(share="session")

    assert [await one.call(Caller("ann")) for _ in range(2)] == ["0:1", "0:2"]
    assert await one.call(Caller("ben")) == "1:1"


async def test_discovery_has_a_lane_of_its_own(made):
    """What one caller does is not seen in the catalogue of all."""
    one = made(share="session")
    one.server.answers["tools/list"] = {"tools": []}
    await one.call(ANN)

    await one.source.list_offers()

    assert [method for method, _ in one.server.links[1].asked][-1] == "tools/list"
    assert one.source.status().lanes[0].caller == "ann"


async def test_the_end_of_a_session_ends_its_lane_and_no_other(made):
    """At once, with the process."""
    one = made(share="session")
    for caller in (ANN, ANN_TOO, BEN):
        await one.call(caller)

    one.source.end_session("s1")
    one.source.end_session("nobody's")
    one.source.end_session("")
    await settle()

    assert [link.is_open for link in one.server.links] == [False, True, True]
    assert await one.call(ANN) == "3:1"


async def test_a_lane_that_idles_is_closed_and_forgotten(made):
    """One that is used, or in which something is watched, is not."""
    one = made(share="session", idle_timeout_s=600.0)
    for caller in (ANN, ANN_TOO, BEN):
        await one.call(caller)
    await one.source.watch(frozenset({"memo://a"}), one.source.lane_of(BEN))
    one.loop.time.advance(599.0)
    await one.call(ANN_TOO)
    one.loop.time.advance(1.0)

    delay_s, sweep = one.loop.timers.pop()
    sweep()
    await settle()

    assert delay_s == 600.0
    assert [link.is_open for link in one.server.links] == [False, True, True]
    assert [lane.caller for lane in one.source.status().lanes] == ["ann", "ben"]
    assert one.loop.timers.pop()[0] == 1.0  # when the next may be due


async def test_a_thousand_sessions_of_one_caller_do_not_start_a_thousand_processes(made):
    """And leave room for others."""
    one = made(share="session")

    refused = []
    for number in range(1000):
        try:
            await one.call(Caller("eve", session=f"s{number}"))
        except ToolcribError as error:
            refused.append(error)

    assert (one.server.alive, len(refused)) == (6, 994)
    assert refused[0].code == "TOOL_RATE_LIMITED"
    assert refused[0].retryable
    assert refused[0].details == {"server": "srv", "limit": "lanes", "retry_after_s": KEPT_S}
    assert str(refused[0]) == (
        "Each caller or session has a process or session of its own on server 'srv', and this caller has 6 of them,"
        " the most that one may have. Try again in 15 s. Or raise `lanes` of this server, which is 8."
    )
    assert await one.call(BEN) == "6:1"


async def test_the_longest_idle_lane_of_who_has_most_makes_room(made):
    """Whoever has one lane keeps it as long as somebody has two."""
    one = made(share="session", lanes=3)
    for caller in (BEN, ANN, ANN_TOO):
        await one.call(caller)
        one.loop.time.advance(1.0)
    with pytest.raises(RateLimited, match="all of them are in use"):
        await one.call(Caller("cat", session="s4"))
    one.loop.time.advance(KEPT_S)

    answer = await one.call(Caller("cat", session="s4"))
    await settle()

    assert answer == "3:1"
    assert [link.is_open for link in one.server.links] == [True, False, True, True]


async def test_who_is_at_work_is_not_sent_away(made):
    """A lane in which a call is under way is not idle, however long it takes."""
    one = made(share="session", lanes=1)
    await one.call(ANN)
    one.server.link.held.add("tools/call")
    running = asyncio.create_task(one.call(ANN))
    await one.server.link.reached.wait()
    one.loop.time.advance(10_000.0)

    with pytest.raises(RateLimited) as refused:
        await one.call(BEN)

    assert refused.value.details["retry_after_s"] == 1.0
    running.cancel()


async def test_a_lane_is_opened_only_when_the_one_that_made_room_has_ended(made):
    """However slowly it ends, there are never more processes than there may be."""
    one = made(share="session", lanes=1)
    await one.call(ANN)
    one.loop.time.advance(KEPT_S)
    one.server.closings.clear()

    waiting = asyncio.create_task(one.call(BEN))
    await settle()
    before = one.server.dialled
    one.server.closings.set()

    assert await waiting == "1:1"
    assert (before, one.server.dialled, one.server.alive) == (1, 2, 1)


async def test_a_lane_that_dies_does_not_hurt_its_neighbours(made):
    """Nor the server: the next call of that caller starts another process."""
    one = made(share="session")
    await one.call(ANN)
    await one.call(BEN)
    one.server.links[0].is_open = False
    one.server.links[0].events.lost()

    assert [await one.call(BEN), await one.call(ANN)] == ["1:2", "2:1"]
    status = one.source.status()
    assert (status.state, status.restarts, [lane.restarts for lane in status.lanes]) == ("connected", 1, [1, 0])


async def test_a_server_that_asks_while_several_share_it_is_not_shared_from_then_on(made):
    """Told once, to be remembered; calls under way end where they began."""
    one = made()
    await one.call(ANN)
    one.server.link.events.asked_blindly()
    one.server.link.events.asked_blindly()

    assert [await one.call(caller) for caller in (ANN, BEN)] == ["1:1", "2:1"]
    status = one.source.status()
    assert (one.asked, status.share, status.lanes_max) == (1, "session", COMMAND_LANES)
    assert status.share_reason == "it asked a question while several callers shared it"


async def test_a_server_that_is_to_be_shared_is_shared_even_if_it_asks(made):
    """The configuration decides."""
    one = made(share="all")
    await one.call(ANN)
    one.server.link.events.asked_blindly()

    assert await one.call(BEN) == "0:2"
    assert (one.source.status().share, one.source.status().share_reason) == ("all", "configured")


async def test_what_an_earlier_run_learnt_counts_from_the_first_call_on(made):
    """The record says that the server asks."""
    one = made()
    one.source.adopt(Listing((), era="2025-11-25", asks=True))

    assert [await one.call(caller) for caller in (ANN, BEN)] == ["0:1", "1:1"]
    assert one.server.links[0].events.is_of_one


async def test_a_watched_resource_is_told_of_in_the_lane_it_changed_in(made):
    """What changes in one caller's lane is no news for another."""
    one = made(share="user")
    told = []
    one.source.on_update(lambda lane, uri: told.append((lane.caller, uri)))
    for caller in (ANN, BEN):
        await one.source.watch(frozenset({"memo://a"}), one.source.lane_of(caller))

    one.server.links[1].events.updated("memo://a")
    await one.source.watch(frozenset(), Lane("cat"))  # never opened: nothing to forget

    assert told == [("ben", "memo://a")]
    assert one.server.dialled == 2


async def test_a_changed_list_is_told_whichever_lane_it_is_heard_in(made):
    """It is asked for anew over the main lane."""
    one = made(share="user")
    told = []
    one.source.on_change(lambda: told.append("changed"))
    await one.call(ANN)

    one.server.link.events.tools_changed()

    assert told == ["changed"]


async def test_the_lanes_are_shown_without_what_opens_a_session(made):
    """With who has them, and what they wrote."""
    one = made(share="session")
    one.server.remains = ExitTrace(pid=7, stderr=["ready"])
    await one.call(ANN)
    one.loop.time.advance(5.0)

    [lane] = one.source.status().lanes

    assert (lane.caller, lane.pid, lane.state, lane.idle_s) == ("ann", 7, "connected", 5.0)
    assert "s1" not in json.dumps([lane.session, lane.error])
    assert list(one.source.log_lines(5)) == ["[ann] ready"]
    assert one.source.lane_of(ANN) == Lane("ann", "s1") != MAIN_LANE


@pytest.mark.parametrize(("share", "told"), [("all", [1]), ("user", [0, 1]), ("session", [0, 1, 0])])
async def test_changed_roots_are_told_where_the_callers_calls_go(made, share, told):
    """Once for many changes at once, and to nobody else's process."""
    one = made(share=share)
    for caller in (ANN, BEN, ANN_TOO):
        await one.call(caller)

    for _ in range(5):
        one.source.roots_changed(BEN)
    for _, tell in [timer for timer in one.loop.timers if timer[1].__name__ == "_tell_roots"]:
        tell(one.source.supervisor, one.source.lane_of(BEN))

    news = [[method for method, _ in link.told if "roots" in method] for link in one.server.links]
    assert [len(methods) for methods in news] == told


async def test_servers_that_are_told_of_no_roots_are_not_told_of_changed_ones(made):
    """Nor is a lane opened for it."""
    one = made(share="session", relay=())
    one.source.roots_changed(ANN)

    assert (one.loop.timers, one.server.dialled) == ([], 0)
