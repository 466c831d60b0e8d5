"""Sessions behind a balancer: any replica goes on with them, whoever opened them, for as long as they last."""

import asyncio
import contextlib
import json

import pytest
from tests.doubles.replicas import Common, replica, so
from tests.server.mcp.test_http import HELLO, Client, add

from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller
from toolcrib.core.errors import StoreUnavailable
from toolcrib.core.requests import Request
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp import sessions
from toolcrib.server.mcp.http import HttpDoor
from toolcrib.server.mcp.roaming import Roaming
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.testing import FakeSource
from toolcrib.transports.http.server import HttpServer
from toolcrib.wire.jsonrpc import REQUEST_CANCELLED


class Place:
    """One replica with a door, and a client that comes to it."""

    def __init__(self, client: Client, roaming: Roaming, coordination) -> None:
        self.client, self.roaming, self.coordination = client, roaming, coordination


@contextlib.asynccontextmanager
async def place(common: Common, name: str, *sources: FakeSource, caller: Caller = LOCAL_USER, address: str = ""):
    async with replica(common, name, *sources, tools=[add]) as one:
        await one.made.crib.current()
        roaming = Roaming(common.book, one.coordination, one.fleet.failed)
        await roaming.open()
        door = HttpDoor(McpService(ProfileView(one.made.crib), ServerIdentity()), caller, home=roaming.at(address))
        server = HttpServer({"/mcp": door.handle})
        await server.start("127.0.0.1", 0)
        client = Client(one.made, door, server)
        try:
            yield Place(client, roaming, one.coordination)
        finally:
            await client.close()
            await door.close()
            await roaming.close()
            await server.close(0)


def move(client: Client, there: Place) -> Client:
    """The same client, sent to another replica by its balancer."""
    there.client.session = client.session
    return there.client


class Away:
    """A book that cannot be asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error, self.asked = error or StoreUnavailable("The shared database cannot be used."), 0

    async def find(self, key: str) -> None:
        self.asked += 1
        raise self._error

    open = end = touch = find


class Noting:
    """A book that remembers what it was told is in use."""

    def __init__(self) -> None:
        self.touched: list[set[str]] = []

    async def touch(self, keys: set[str]) -> set[str]:
        self.touched.append(set(keys))
        return set()


async def test_another_replica_goes_on_with_a_session():
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        there = move(a.client, b)
        called = await (await there.ask(1, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})).json()
        again = await there.ask(2, "ping")
        (stay,) = b.client.door.stays()

        assert called["result"]["content"] == [{"type": "text", "text": "3"}]
        assert (again.status, stay.client, stay.era) == (200, "t", "2025-06-18")


async def test_a_session_is_for_its_caller_and_its_address_alone():
    """Elsewhere, too: a session id does not make somebody else of you."""
    other = Caller("somebody", "token", EVERYTHING)
    async with (
        place(common := Common(), "a") as a,
        place(common, "b", caller=other) as b,
        place(common, "c", address="profile/other") as c,
    ):
        await a.client.hello()
        statuses = [(await move(a.client, there).ask(1, "ping")).status for there in (b, c)]

        assert statuses == [404, 404]


async def test_a_session_that_is_ended_at_one_replica_is_over_at_all():
    async with place(common := Common(), "a") as a, place(common, "b") as b, place(common, "c") as c:
        await a.client.hello()
        await move(a.client, b).ask(1, "ping")
        ended = await move(a.client, c).request("DELETE", **a.client.session)
        await so(lambda: not a.client.door.stays() and not b.client.door.stays())
        statuses = [(await one.client.ask(2, "ping")).status for one in (a, b, c)]
        again = await c.client.request("DELETE", **a.client.session)

        assert (ended.status, statuses, again.status) == (204, [404, 404, 404], 404)


async def test_a_session_that_a_person_ends_is_over_at_all():
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        await move(a.client, b).ask(1, "ping")
        b.client.door.stays()[0].end()
        await so(lambda: not a.client.door.stays())

        assert (await a.client.ask(2, "ping")).status == 404


async def test_a_session_that_a_person_ends_while_the_book_is_away_does_not_come_back():
    """The end is noted as soon as the book can be asked again."""
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        b.roaming.book = Away()
        a.roaming.book, book = b.roaming.book, a.roaming.book
        a.client.door.stays()[0].end()
        await so(lambda: b.roaming.book.asked)
        a.roaming.book = b.roaming.book = book
        at_home = await a.client.ask(1, "ping")
        a.coordination.cut()
        a.coordination.mend()  # whoever may have missed something looks at once
        await so(lambda: not book._entries)

        assert at_home.status == 404
        assert (await move(a.client, b).ask(2, "ping")).status == 404


async def test_what_the_book_could_not_take_in_is_noted_the_next_time():
    """A session that was used while the book was away is not forgotten as unused."""
    async with place(Common(), "a") as a:
        await a.client.hello()
        await a.roaming.touch(whole=False)
        await a.client.ask(1, "ping")
        book, a.roaming.book = a.roaming.book, Away()
        with pytest.raises(StoreUnavailable):
            await a.roaming.touch(whole=False)
        a.roaming.book = Noting()
        await a.roaming.touch(whole=False)
        await a.roaming.touch(whole=False)

        assert [len(keys) for keys in a.roaming.book.touched] == [1, 0]
        a.roaming.book = book


async def test_an_end_that_was_missed_is_noticed_later():
    """Whoever could not hear of it sees it in the book."""
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        a.coordination.cut()
        await move(a.client, b).request("DELETE", **a.client.session)
        before = len(a.client.door.stays())
        a.coordination.mend()
        await so(lambda: not a.client.door.stays())

        assert before == 1


async def test_an_answer_reaches_the_replica_that_asked():
    """The client was asked by one, and its balancer sends the answer to another."""

    async def work(call: Request) -> str:
        return json.loads(await call.channel.ask("elicitation/create", b'{"message":"Sure?"}'))["action"]

    source = FakeSource("srv", ["work"])
    source.answers["work"] = work
    async with place(common := Common(), "a", source) as a, place(common, "b") as b:
        await a.client.hello()
        call = await a.client.ask(1, "tools/call", {"name": "srv__work"})
        question = await call.event()
        answer = {"id": question["id"], "result": {"action": "accept"}}
        taken = await move(a.client, b).post(answer, **a.client.session)
        result = await call.event()

        assert taken.status == 202
        assert result["result"]["content"] == [{"type": "text", "text": "accept"}]


async def test_a_cancellation_reaches_the_replica_that_works():
    source = FakeSource("srv", ["work"])
    source.calling.hold()
    async with place(common := Common(), "a", source) as a, place(common, "b") as b:
        await a.client.hello()
        asking = asyncio.create_task(a.client.ask(7, "tools/call", {"name": "srv__work"}))
        await source.calling.reached.wait()
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 7}}
        taken = await move(a.client, b).post(cancelled, **a.client.session)
        answer = await asyncio.wait_for(asking, 150)

        assert (taken.status, (await answer.event())["error"]["code"]) == (202, REQUEST_CANCELLED)


async def test_changes_are_told_on_the_stream_wherever_it_is():
    """The session was opened at one replica, listens at another, and the server is a third one's."""
    sources = [FakeSource("srv", ["work"]) for _ in range(3)]
    async with (
        place(common := Common(), "a", sources[0]) as a,
        place(common, "b", sources[1]) as b,
        place(common, "c", sources[2]),
    ):
        await a.client.hello()
        stream = await move(a.client, b).request("GET", **a.client.session)
        await stream.chunk()
        sources[2].change("work", "more")
        told = await stream.event()

        assert told["method"] == "notifications/tools/list_changed"


async def test_a_session_has_one_stream_over_all_replicas():
    """A new one ends the one before it, also where that is."""
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        first = await a.client.request("GET", **a.client.session)
        await first.chunk()
        second = await move(a.client, b).request("GET", **a.client.session)
        await second.chunk()

        assert await first.chunk() == b""
        assert b.client.door.stays()[0].idle_s == 0


async def test_while_the_book_cannot_be_asked_a_session_is_neither_there_nor_over():
    """A client that were told 404 would give up what it has; it is told to come back."""
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        b.roaming.book = Away()
        there = move(a.client, b)
        known = await there.ask(1, "ping")
        deleted = await there.request("DELETE", **a.client.session)
        begun = await there.post({"id": 0, "method": "initialize", "params": HELLO})
        at_home = await a.client.ask(2, "ping")

        assert [answer.status for answer in (known, deleted, begun, at_home)] == [503, 503, 503, 200]
        assert (known.headers["retry-after"], (await known.json())["error"]["code"]) == (
            "1",
            "HTTP_SESSIONS_UNAVAILABLE",
        )
        assert b.client.door.stays() == []


async def test_a_book_that_fails_in_another_way_leaves_no_request_without_an_answer(capsys):
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        b.roaming.book = Away(ValueError("a row nobody can read"))
        there = move(a.client, b)
        answers = [await there.ask(1, "ping"), await there.request("DELETE", **a.client.session)]
        told = [(answer.status, (await answer.json())["error"]["code"]) for answer in answers]

        assert told == [(500, -32603)] * 2
        await so(lambda: b.client.door.stays() == [])
        assert "a row nobody can read" in capsys.readouterr().err


async def test_an_answer_that_cannot_be_passed_on_is_not_taken():
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        there = move(a.client, b)
        await there.ask(1, "ping")
        b.coordination.cut()
        answer = await there.post({"id": "toolcrib-of-another-1", "result": {}}, **a.client.session)

        assert answer.status == 503


async def test_what_nobody_asked_is_not_passed_on():
    """A client cannot make replicas talk by inventing answers."""
    async with place(common := Common(), "a") as a:
        heard: list[bytes] = []
        await common.hub.join("listener").subscribe("sessions", heard.append, lambda: None)
        await a.client.hello()
        answer = await a.client.post({"id": 5, "result": {}}, **a.client.session)

        assert (answer.status, heard) == (202, [])


async def test_two_requests_that_come_at_once_find_one_session():
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        there = move(a.client, b)
        answers = await asyncio.gather(*(there.ask(number, "ping") for number in range(4)))

        assert [answer.status for answer in answers] == [200] * 4
        assert len(b.client.door.stays()) == 1


async def test_a_replica_without_room_does_not_say_that_a_session_has_ended(monkeypatch):
    async with place(common := Common(), "a") as a, place(common, "b") as b:
        await a.client.hello()
        monkeypatch.setattr(sessions, "SESSIONS_MAX", 0)

        assert (await move(a.client, b).ask(1, "ping")).status == 503


async def test_words_of_a_newer_version_are_passed_over():
    async with place(common := Common(), "a") as a:
        await a.client.hello()
        await common.hub.join("newer").publish("sessions", b"\x93\xa6moved!\xa1k\xc4\x00")
        await common.hub.members[-1].publish("inbox", b"\x91\xa5Other")

        assert (await a.client.ask(1, "ping")).status == 200


async def test_a_replica_that_ends_leaves_its_sessions_to_the_others():
    common = Common()
    async with place(common, "b") as b:
        async with place(common, "a") as a:
            await a.client.hello()
            session = a.client.session
        b.client.session = session

        assert (await b.client.ask(1, "ping")).status == 200
