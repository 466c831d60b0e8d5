"""Sessions: bounded in number and idle time, each for its own caller; answers end even if work never began."""

import asyncio

import pytest

from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import CallCancelled
from toolcrib.server.mcp import sessions
from toolcrib.server.mcp.http import always
from toolcrib.server.mcp.news import BACKLOG_MAX, StandingStream
from toolcrib.server.mcp.replies import HttpReply, PlainReply
from toolcrib.server.mcp.sessions import IDLE_S, McpSession, McpSessions
from toolcrib.testing import ManualClock
from toolcrib.wire.http import PING, encode_event
from toolcrib.wire.messages import Asker

ASKER = Asker("2025-06-18")
ME = Caller("me")


def opened(clock: ManualClock) -> tuple[McpSessions, McpSession]:
    everyone = McpSessions(clock)
    return everyone, everyone.open(ASKER, ME)


def test_a_session_is_found_by_the_caller_that_opened_it():
    """And by nobody else."""
    everyone, session = opened(ManualClock())

    found = [everyone.find(session.id.encode(), caller) for caller in (ME, Caller("you"))]

    assert found == [session, None]
    assert everyone.find(b"\xff", ME) is None


def test_a_session_that_idles_is_swept_away():
    """Use keeps it; so do an open stream and a running request."""
    clock = ManualClock(1_000_000.0)
    everyone, idle = opened(clock)
    used, streaming, busy = (everyone.open(ASKER, ME) for _ in range(3))
    streaming.stream, busy.running = object(), {1: lambda: None}
    clock.advance(IDLE_S - 1)
    everyone.find(used.id.encode(), ME)
    clock.advance(2)

    everyone.sweep(always)

    kept = [everyone.find(session.id.encode(), ME) is not None for session in (idle, used, streaming, busy)]
    assert kept == [False, True, True, True]


def test_when_there_are_too_many_sessions_the_longest_idle_one_makes_room(monkeypatch):
    """Not one that was used since."""
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    clock = ManualClock(1_000_000.0)
    everyone, used = opened(clock)
    idle = everyone.open(ASKER, ME)
    clock.advance(1)
    everyone.find(used.id.encode(), ME)

    new = everyone.open(ASKER, ME)

    kept = [everyone.find(session.id.encode(), ME) is not None for session in (used, idle, new)]
    assert kept == [True, False, True]


def test_whoever_opens_too_many_sessions_loses_their_own_first(monkeypatch):
    """One caller cannot push out the others."""
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    clock, other = ManualClock(1_000_000.0), Caller("other")
    everyone, mine = opened(clock)
    for _ in range(5):
        clock.advance(1)
        everyone.open(ASKER, other)

    assert everyone.find(mine.id.encode(), ME) is mine


def test_there_is_a_most_number_of_sessions_in_use(monkeypatch):
    """Nobody who listens or waits is thrown out for a newcomer."""
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    everyone, streaming = opened(ManualClock())
    busy = everyone.open(ASKER, ME)
    streaming.stream, busy.running = object(), {1: lambda: None}

    assert everyone.open(ASKER, ME) is None


async def test_a_question_fails_when_its_session_ends():
    """Also one that no running request waits for; nothing is left behind."""
    everyone, session = opened(ManualClock())
    asked = asyncio.Event()
    waiting = asyncio.create_task(session.questions.ask(lambda _: asked.set(), "roots/list", b"{}"))
    await asked.wait()

    everyone.end(session)

    with pytest.raises(CallCancelled, match="left"):
        await asyncio.wait_for(waiting, 150)
    with pytest.raises(CallCancelled, match="left"):
        await asyncio.wait_for(session.questions.ask(lambda _: None, "roots/list", b"{}"), 150)
    assert session.questions._waiting == {}


def test_ids_cannot_be_guessed():
    """Long and never the same."""
    everyone, _ = opened(ManualClock())
    ids = {everyone.open(ASKER, ME).id for _ in range(50)}

    assert len(ids) == 50
    assert min(map(len, ids)) >= 32


class Exchange:
    """An exchange that notes what is said on it."""

    def __init__(self) -> None:
        self.streaming = self.answered = self.disconnected = False
        self.backlog = 0
        self.said: list[object] = []

    @property
    def is_open(self) -> bool:
        return not (self.streaming or self.answered or self.disconnected)

    def start_stream(self, status: int, headers: object) -> None:
        self.streaming = True

    def write(self, chunk: bytes) -> None:
        self.said.append(chunk)

    def answer(self, status: int, body: bytes) -> None:
        self.answered = True
        self.said.append(status)

    def end(self) -> None:
        self.streaming, self.answered = False, True
        self.said.append("end")


CANCELLED = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32800,"message":"Request cancelled"}}'


@pytest.mark.parametrize(("kind", "said"), [(PlainReply, [200]), (HttpReply, [encode_event(CANCELLED), "end"])])
async def test_a_request_that_is_called_off_before_its_work_begins_is_answered(kind, said):
    """Once, however often it is called off; as an event, unless the client takes JSON only."""
    exchange = Exchange()
    reply = kind({}, False, False, None, exchange, None, LOCAL_USER)
    reply.task = asyncio.create_task(asyncio.Event().wait())

    reply.cancel()
    reply.cancel()
    await asyncio.wait([reply.task])

    assert (exchange.said, reply.is_running) == (said, False)


async def test_nothing_is_said_to_a_client_that_is_gone():
    """Results and messages go nowhere, quietly."""
    exchange = Exchange()
    exchange.disconnected = True
    reply = HttpReply({}, False, True, "token", exchange, None, LOCAL_USER)

    reply.notify("notifications/progress", b'{"progress":1}')
    reply.finish(b"{}", 200)
    reply.cancel()

    assert exchange.said == []


async def test_a_client_that_is_far_behind_gets_its_result_only():
    """No notifications and no pings; the result comes in any case."""
    exchange = Exchange()
    exchange.streaming, exchange.backlog = True, BACKLOG_MAX + 1
    reply = HttpReply({}, False, True, "token", exchange, None, LOCAL_USER)

    reply.notify("notifications/progress", b'{"progress":1}')
    reply.ping()
    reply.ping()
    reply.finish(b"{}", 200)

    assert exchange.said == [b"event: message\ndata: {}\n\n", "end"]


def test_a_listener_that_is_far_behind_hears_once_of_all_changes():
    """When it has caught up; until then not even pings are added to its backlog."""
    exchange = Exchange()
    stream = StandingStream(exchange, b"first")
    exchange.backlog = BACKLOG_MAX + 1
    for _ in range(3):
        stream.tell_changed(["notifications/tools/list_changed"])
        stream.ping()
    behind = list(exchange.said)
    exchange.backlog = 0
    stream.ping()
    stream.ping()

    first, notice, ping = exchange.said
    assert behind == [b"first"]
    assert (first, b"notifications/tools/list_changed" in notice, ping) == (b"first", True, PING)


def test_people_who_look_on_see_sessions_by_an_id_that_opens_none():
    """Who it is, how long it has been here, and a way to end it."""
    clock = ManualClock(1_000_000.0)
    everyone = McpSessions(clock)
    session = everyone.open(Asker("2025-06-18", info={"name": "client", "version": "2", "title": "x" * 999}), ME)
    clock.advance(60)
    everyone.find(session.id.encode(), ME)
    clock.advance(5)

    (stay,) = everyone.stays()
    found_by_it = everyone.find(stay.id.encode(), ME)
    stay.end()

    assert (stay.client, stay.era, stay.caller.id, stay.age_s, stay.idle_s) == ("client 2", "2025-06-18", "me", 65, 5)
    assert session.id not in stay.id
    assert found_by_it is None
    assert everyone.stays() == []


@pytest.mark.parametrize("info", [None, "client", {"name": ["x"] * 999}])
def test_what_a_client_calls_itself_is_not_trusted(info):
    """Neither its form nor its length."""
    everyone = McpSessions(ManualClock())
    everyone.open(Asker("2025-06-18", info=info), ME)

    (stay,) = everyone.stays()

    assert len(stay.client) <= 201


async def test_a_client_without_a_stream_is_told_of_each_address_that_is_done():
    """One notice for each resource that changed, and for each address that it was sent to."""
    session = McpSession(Asker("2025-11-25"), LOCAL_USER, 0.0)
    done = "notifications/elicitation/complete"
    for number in (1, 2, 2):
        session.tell(done, {"elicitationId": f"e{number}"})
        session.tell("notifications/resources/updated", {"uri": f"memo://{number}"})

    told = [params.get("elicitationId") for method, params in session.settle() if method == done]

    assert (told, session.settle()) == (["e1", "e2"], [])
