"""Servers that failed are asked again by themselves; those that failed for a lasting reason wait for a change."""

import asyncio

import pytest

from toolcrib.catalog import flights
from toolcrib.catalog.flights import RETRY_JITTER, RETRY_MOST_S, retry_pause_s
from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import FailureKind, LinkState, ServerState
from toolcrib.core.source import SourceStatus
from toolcrib.server.views.servers import server_view
from toolcrib.testing import FakeSource, memory_crib


class Ailing(FakeSource):
    """Fails a few times, for a reason of some kind, and then is well."""

    def __init__(self, kind: FailureKind, times: int) -> None:
        super().__init__("files", ["read"])
        self.kind, self.times, self.asked = kind, times, 0
        self.is_well = asyncio.Event()

    async def list_offers(self):
        self.asked += 1
        if self.asked <= self.times:
            raise SourceUnavailable("it is away", details={"failure": self.kind})
        self.is_well.set()
        return await super().list_offers()


@pytest.fixture
def at_once(monkeypatch):
    """No pauses."""
    monkeypatch.setattr(flights, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(flights, "COMMAND_LOOK_S", 0.0)


async def test_a_server_that_failed_for_a_passing_reason_is_asked_again_until_it_is_well(at_once):
    """Without a client having to come."""
    files = Ailing(FailureKind.PASSING, 4)
    async with memory_crib(files) as made:
        await made.crib.refresh("files")
        await files.is_well.wait()
        while made.crib.shelves["files"].flight is not None:
            await asyncio.sleep(0)
        found = server_view(made.crib, "files")

    assert found is not None
    assert (files.asked, found.state, found.retry_at) == (5, ServerState.OK, None)


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind.is_lasting])
async def test_one_that_failed_for_a_lasting_reason_waits_for_a_change(kind, at_once):
    """Its standing does not promise anything else."""
    files = Ailing(kind, 1)
    async with memory_crib(files) as made:
        await made.crib.refresh("files")
        for _ in range(20):
            await asyncio.sleep(0)
        found = server_view(made.crib, "files")
        assert found is not None
        assert (files.asked, found.retry_at) == (1, None)
        await made.crib.refresh("files")

    assert files.asked == 2


async def test_a_server_that_is_to_be_tried_again_says_when():
    """In its standing."""
    files = Ailing(FailureKind.PASSING, 1)
    async with memory_crib(files) as made:
        await made.crib.refresh("files")
        found = server_view(made.crib, "files")

    assert found is not None
    assert found.retry_at is not None


def test_pauses_grow_up_to_a_limit_and_are_spread():
    """So that servers that failed together do not come back together."""
    for failures, pause_s in ((1, 2.0), (2, 4.0), (5, 32.0), (9, RETRY_MOST_S), (5000, RETRY_MOST_S)):
        found = [retry_pause_s(failures) for _ in range(50)]
        assert pause_s * (1 - RETRY_JITTER) <= min(found) <= max(found) <= pause_s * (1 + RETRY_JITTER)
        assert len(set(found)) > 1


async def test_the_time_to_install_does_not_count_towards_a_discovery():
    """It counts anew when that is over."""
    files = FakeSource("files", ["read"])
    may_go = asyncio.Event()
    listed = files.list_offers

    async def slow():
        files.installing(True)
        await may_go.wait()
        files.installing(False)
        return await listed()

    files.list_offers = slow  # type: ignore[method-assign]
    async with memory_crib(files) as made:
        shelf = made.crib.shelves["files"]
        shelf.config = shelf.config.__class__(name="files", command="files", discovery_timeout_s=0.2)
        asking = asyncio.ensure_future(made.crib.refresh("files"))
        await asyncio.wait([asking], timeout=0.5)
        files.state = SourceStatus(LinkState.INSTALLING, doing="npx fetches files", since=1.0)
        found = server_view(made.crib, "files")
        assert found is not None
        assert (asking.done(), found.state, found.cause) == (False, ServerState.INSTALLING, "npx fetches files")
        may_go.set()

        assert (await asking)["files"].status == "success"
