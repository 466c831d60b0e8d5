"""News over REST: server-sent events."""

import asyncio
import http.client
import json
import signal
from contextlib import asynccontextmanager

import pytest
from tests.server.conftest import GUEST_TOKEN, OWNER_TOKEN, Doorman
from tests.server.rest.api import ROOT

from toolcrib.core.events import drop
from toolcrib.crib.bulletin import Bulletin
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.server.rest.state import EVENTS
from toolcrib.server.router import Entering, Router
from toolcrib.server.visit import ServedProject
from toolcrib.testing.crib import memory_crib
from toolcrib.transports.http.server import HttpServer


class Listener:
    """A client that follows the news."""

    def __init__(self, api, query="", **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", api.serving.port, timeout=150)
        sent = {"authorization": f"Bearer {api.token}", **headers}
        self.connection.request("GET", f"{ROOT}/events{query}", headers=sent)
        self.response = self.connection.getresponse()

    def line(self):
        return self.response.fp.readline() if not self.response.chunked else self.response.readline()

    def next(self):
        """The next event: its id, its topic and its data."""
        found = {}
        while True:
            name, _, value = self.line().decode().rstrip("\n").partition(": ")
            if name and value:
                found[name] = value
            elif "data" in found:
                return int(found["id"]), found["event"], json.loads(found["data"])


def test_calls_and_servers_are_told_as_they_happen(api):
    """Each with an id; the topics are those that were asked for."""
    listener = Listener(api, "?topics=call,server")
    api.call("tiny__echo", {"text": "hi"})
    told = [listener.next() for _ in range(6)]

    assert listener.response.getheader("content-type") == "text/event-stream"
    assert {topic for _, topic, _ in told} <= {"call", "server"}
    assert [data["tool"] for _, topic, data in told if topic == "call"][:1] == ["tiny__echo"]
    assert [number for number, _, _ in told] == sorted({number for number, _, _ in told})


def test_a_reader_that_comes_back_reads_on_where_it_was(api):
    """By the id of the last event it has read."""
    listener = Listener(api, "?topics=call")
    api.call("tiny__echo", {"text": "hi"})
    first = listener.next()
    listener.connection.close()
    second = Listener(api, "?topics=call", **{"last-event-id": str(first[0])}).next()

    assert (first[2]["outcome"], second[2]["outcome"]) == ("", "success")
    assert second[0] > first[0]


def test_topics_there_are_not_are_refused(api):
    """With those there are."""
    reply = api.send("GET", "/events?topics=call,weather")

    assert (reply.status, "approval, call, catalog" in reply.json["detail"]) == (422, True)


def test_a_stream_ends_cleanly_when_toolcrib_stops(api):
    """The body is complete; nothing is cut off."""
    listener = Listener(api)
    assert listener.line() == b": toolcrib\n"

    assert api.serving.stop(signal.SIGTERM) == 0
    assert b"data" not in listener.response.read()
    assert "Traceback" not in api.serving.output


def test_a_head_of_the_stream_is_no_stream(api):
    """It ends at once."""
    assert api.send("HEAD", "/events").status == 200


async def test_a_stream_ends_with_the_token_it_was_asked_for_with():
    """Nothing more is told to whoever may not come in any more."""
    doorman, bulletin = Doorman(), Bulletin(lambda: 0.0)
    async with streaming(bulletin, token=GUEST_TOKEN, doorman=doorman) as (reader, _), asyncio.timeout(150):
        await reader.readuntil(b": toolcrib\n\n")
        while not bulletin.readers:
            await asyncio.sleep(0)
        doorman.is_revoked = True
        bulletin.publish("call", {"secret": True})
        rest = await reader.readuntil(b"0\r\n\r\n")

        assert b"secret" not in rest
        assert bulletin.readers == 0


@asynccontextmanager
async def streaming(bulletin, pause_s=15.0, more=b"", token=OWNER_TOKEN, doorman=None):
    doorman = doorman or Doorman()
    async with memory_crib() as memory:
        project = Project(memory.crib, Loaded(None))
        url = "http://127.0.0.1:1/mcp"
        served = ServedProject(project, doorman.sign_ins(), url, 0.0, bulletin=bulletin, pause_s=pause_s)
        router = Router(EVENTS.routes, Entering(doorman.sign_ins(), doorman.identify), drop, served=served)
        server = HttpServer({}, fallback=router.handle)
        await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = f"GET {ROOT}/events HTTP/1.1\r\nHost: {server.address}\r\nAuthorization: Bearer {token}\r\n"
        writer.write(head.encode() + more + b"\r\n")
        try:
            yield reader, writer
        finally:
            writer.close()
            await router.close()
            await server.close(1)


async def test_a_line_is_sent_now_and_then_when_there_is_no_news():
    """So that nobody in between takes the line for dead."""
    async with streaming(Bulletin(lambda: 0.0), pause_s=0.01) as (reader, _), asyncio.timeout(150):
        await reader.readuntil(b": still here\n\n")
        await reader.readuntil(b": still here\n\n")


async def test_a_reader_that_goes_away_is_forgotten():
    """Nothing is gathered for it any more."""
    bulletin = Bulletin(lambda: 0.0)
    async with streaming(bulletin) as (reader, writer), asyncio.timeout(150):
        await reader.readuntil(b": toolcrib\n\n")
        while not bulletin.readers:
            await asyncio.sleep(0)
        writer.close()
        while bulletin.readers:
            await asyncio.sleep(0)

    assert bulletin.readers == 0


@pytest.mark.parametrize("given", [b"", b"x", b"-1", b"9" * 40])
async def test_an_id_that_is_none_of_ours_is_no_reason_to_refuse(given):
    """The news begin now, then."""
    bulletin = Bulletin(lambda: 0.0)
    bulletin.publish("call", {"old": True})
    async with streaming(bulletin, more=b"Last-Event-ID: " + given + b"\r\n") as (reader, _), asyncio.timeout(150):
        await reader.readuntil(b": toolcrib\n\n")
        while not bulletin.readers:
            await asyncio.sleep(0)
        bulletin.publish("call", {"new": True})

        assert b"new" in await reader.readuntil(b"}\n\n")
