"""Sessions: bounded in number and idle time, each for its own caller; answers end even if work never began."""

import asyncio

import pytest

from toolcrib.doors.mcp import sessions
from toolcrib.doors.mcp.replies import Reply
from toolcrib.doors.mcp.sessions import IDLE_S, Session, Sessions
from toolcrib.testing import ManualClock
from toolcrib.wire.server import Asker

ASKER = Asker("2025-06-18")


def opened(clock: ManualClock) -> tuple[Sessions, Session]:
    everyone = Sessions(clock)
    return everyone, everyone.open(ASKER, "me")


def test_a_session_is_found_by_the_caller_that_opened_it():
    """And by nobody else."""
    everyone, session = opened(ManualClock())

    found = [everyone.find(session.id.encode(), caller) for caller in ("me", "you")]

    assert found == [session, None]
    assert everyone.find(b"\xff", "me") is None


def test_a_session_that_idles_is_swept_away():
    """Use keeps it; so do an open stream and a running request."""
    clock = ManualClock(1_000_000.0)
    everyone, idle = opened(clock)
    used, streaming, busy = (everyone.open(ASKER, "me") for _ in range(3))
    streaming.stream, busy.running = object(), {1: lambda: None}
    clock.advance(IDLE_S - 1)
    everyone.find(used.id.encode(), "me")
    clock.advance(2)

    everyone.sweep()

    kept = [everyone.find(session.id.encode(), "me") is not None for session in (idle, used, streaming, busy)]
    assert kept == [False, True, True, True]


def test_there_is_a_most_number_of_sessions(monkeypatch):
    """Idle ones make room first."""
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    clock = ManualClock(1_000_000.0)
    everyone, _ = opened(clock)
    everyone.open(ASKER, "me")

    refused = everyone.open(ASKER, "me")
    clock.advance(IDLE_S + 1)

    assert refused is None
    assert everyone.open(ASKER, "me") is not None


def test_ids_cannot_be_guessed():
    """Long and never the same."""
    everyone, _ = opened(ManualClock())
    ids = {everyone.open(ASKER, "me").id for _ in range(50)}

    assert len(ids) == 50
    assert min(map(len, ids)) >= 32


class Exchange:
    """An exchange that notes what is said on it."""

    def __init__(self) -> None:
        self.streaming = self.answered = self.disconnected = False
        self.said: list[object] = []

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


@pytest.mark.parametrize(("streaming", "said"), [(False, [202]), (True, ["end"])])
async def test_a_request_that_is_called_off_before_its_work_begins_is_answered(streaming, said):
    """Once, however often it is called off."""
    exchange = Exchange()
    exchange.streaming = streaming
    reply = Reply(exchange, None, ASKER, None)
    reply.task = asyncio.create_task(asyncio.Event().wait())

    reply.cancel()
    reply.cancel()
    await asyncio.wait([reply.task])

    assert (exchange.said, reply.is_running) == (said, False)


async def test_nothing_is_said_to_a_client_that_is_gone():
    """Results and messages go nowhere, quietly."""
    exchange = Exchange()
    exchange.disconnected = True
    reply = Reply(exchange, None, ASKER, "token")

    reply.notify("notifications/progress", b'{"progress":1}')
    reply.finish(b"{}", 200)
    reply.cancel()

    assert exchange.said == []
