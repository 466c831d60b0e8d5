"""Freshness: who is asked, when, and only once; a server in trouble keeps what is known of it."""

import asyncio
from dataclasses import replace

import pytest

from toolcrib.catalog import flights, refresh
from toolcrib.catalog import records as storing
from toolcrib.catalog.entries import missing_servers
from toolcrib.catalog.records import ServerShelf
from toolcrib.catalog.refresh import Refresher
from toolcrib.config.lock import Record, read_record, write_record
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.core import events
from toolcrib.core.errors import ConfigError, SourceUnavailable, StoreUnavailable
from toolcrib.core.events import Event
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.offers import Tool
from toolcrib.core.source import Listing
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing import FakeSource

LONG_S = 3600.0


class Freshness:
    """A refresher with everything it tells, and the servers a test put on its shelves."""

    def __init__(self, records: MemoryRecords | None = None) -> None:
        self.records = records or MemoryRecords()
        self.events: list[Event] = []
        self.updated: list[str] = []
        self.update = asyncio.Event()
        self.refresher = Refresher(self.records, self.events.append, self._updated)

    def _updated(self, server: str) -> None:
        self.updated.append(server)
        self.update.set()

    def put(self, source: FakeSource, record: Record | None = None, **config: object) -> ServerShelf:
        known = {} if record is None else {source.name: record}
        return self.refresher.add(server(source.name, **config), source, known)

    def told(self, name: str) -> list[dict]:
        return [untraced(event) for event in self.events if event.name == name]


def untraced(event: Event) -> dict:
    """What an event says, but for the trace that it belongs to."""
    return {key: value for key, value in event.fields.items() if key != "trace_id"}


def server(name: str, **config: object) -> ServerConfig:
    return ServerConfig(name, command="run", **config)


def found(source: FakeSource, **fields: object) -> Record:
    """A good record of an earlier run, long out of date."""
    shown = tuple({"name": tool.name, "inputSchema": {"type": "object"}} for tool in source.tools)
    plain = Record(
        source.name,
        DiscoveryStatus.SUCCESS,
        shown,
        "2020-01-01T00:00:00Z",
        config_hash=config_hash(server(source.name)),
    )
    return replace(plain, **fields)


@pytest.fixture
async def fresh():
    made = Freshness()
    yield made
    await made.refresher.close()


def names(shelf: ServerShelf) -> list[str]:
    return [tool.name for tool in shelf.tools]


async def test_nothing_is_asked_before_it_is_needed(fresh):
    """Putting a server on the shelf starts nothing."""
    shelf = fresh.put(FakeSource("files", ["read"]))

    await asyncio.sleep(0)

    assert (shelf.source.listed, shelf.status, shelf.is_known) == (0, "never", False)
    assert missing_servers(fresh.refresher.shelves)


async def test_the_first_need_discovers_and_tells(fresh):
    """How many were asked, what came of it, and the record of it."""
    files = FakeSource("files", ["read", "write"])
    files.era, files.problems = "2025-06-18", ("left out: 'x'",)
    shelf = fresh.put(files)

    await fresh.refresher.need(LONG_S)

    assert names(shelf) == ["read", "write"]
    assert [(event.name, untraced(event)) for event in fresh.events] == [
        (events.DISCOVERY_STARTED, {"servers": 1}),
        (events.DISCOVERY_SERVER_SUCCESS, {"server": "files", "tools": 2}),
    ]
    (trace_id,) = {event.fields["trace_id"] for event in fresh.events}
    assert (len(trace_id), int(trace_id, 16) > 0) == (32, True)
    assert fresh.updated == ["files"]
    stored = (await fresh.records.read())["files"]
    assert stored == shelf.record
    assert (stored.status, stored.era, stored.problems, stored.config_hash) == (
        "success",
        "2025-06-18",
        ("left out: 'x'",),
        config_hash(shelf.config),
    )
    assert missing_servers(fresh.refresher.shelves) == ()


async def test_many_callers_at_once_make_one_discovery(fresh):
    """All of them wait for the same answer."""
    files = FakeSource("files", ["read"])
    files.listing.hold()
    shelf = fresh.put(files)
    needs = [asyncio.create_task(fresh.refresher.need(LONG_S)) for _ in range(20)]
    await files.listing.reached.wait()
    needs += [asyncio.create_task(fresh.refresher.first_record(shelf)) for _ in range(20)]
    needs += [asyncio.create_task(fresh.refresher.refresh(["files"])) for _ in range(20)]
    await asyncio.sleep(0)

    files.listing.release()
    await asyncio.gather(*needs)

    assert (files.listed, names(shelf)) == (1, ["read"])


async def test_what_is_fresh_is_not_asked_again(fresh):
    """For the time the configuration gives, or the server itself."""
    by_config, by_server = FakeSource("config"), FakeSource("server", ttl_s=1000)
    now = asyncio.get_running_loop().time()
    shelves = [fresh.put(by_config, ttl_s=500), fresh.put(by_server, ttl_s=500)]

    await fresh.refresher.need(LONG_S)
    await fresh.refresher.need(LONG_S)

    assert (by_config.listed, by_server.listed) == (1, 1)
    assert [round((shelf.fresh_until - now) / 100) for shelf in shelves] == [5, 10]


async def test_a_server_that_asks_for_no_caching_is_still_not_asked_all_the_time(fresh):
    """Once a second at most."""
    now = asyncio.get_running_loop().time()
    shelf = fresh.put(FakeSource("files", ttl_s=0))

    await fresh.refresher.need(LONG_S)

    assert shelf.fresh_until >= now + refresh.TTL_FLOOR_S


async def test_what_is_stale_is_renewed_without_making_anybody_wait(fresh):
    """The known tools are there at once, the new ones a moment later."""
    files = FakeSource("files", ["read"])
    shelf = fresh.put(files)
    await fresh.refresher.need(LONG_S)
    files.tools = (Tool("write"),)
    files.listing.hold()
    shelf.fresh_until = 0.0

    await fresh.refresher.need(LONG_S)
    before = names(shelf), shelf.status
    files.listing.release()
    await shelf.flight

    assert (before, names(shelf), files.listed) == ((["read"], "discovering"), ["write"], 2)


async def test_a_failed_discovery_keeps_the_tools_known_from_before(fresh):
    """The failure stands beside them, in the record too."""
    files = FakeSource("files", ["read"])
    shelf = fresh.put(files)
    await fresh.refresher.need(LONG_S)
    files.trouble = SourceUnavailable("gone fishing")

    record = (await fresh.refresher.refresh(["files"]))["files"]

    assert (record.status, record.error) == ("failed", "gone fishing")
    assert [shown["name"] for shown in record.tools] == ["read"]
    assert (shelf.is_known, names(shelf), shelf.status) == (True, ["read"], "failed")
    assert fresh.told(events.DISCOVERY_SERVER_FAILED) == [{"server": "files", "error": "gone fishing"}]


@pytest.mark.parametrize(
    ("trouble", "told"), [(SourceUnavailable("down"), "down"), (ValueError("a secret value"), "(ValueError)")]
)
async def test_a_failure_is_not_repeated_before_its_pause_is_over(fresh, trouble, told):
    """Whoever asks meanwhile gets the same answer; of what nobody foresaw only the kind is told."""
    files = FakeSource("files")
    files.trouble = trouble
    shelf = fresh.put(files)

    records = [await fresh.refresher.first_record(shelf) for _ in range(3)]
    await fresh.refresher.need(LONG_S)

    assert files.listed == 1
    assert {record.status for record in records} == {"failed"}
    assert told in records[0].error
    assert "secret" not in records[0].error
    assert [found.status for found in missing_servers(fresh.refresher.shelves)] == ["failed"]


async def test_a_manual_refresh_asks_at_once_and_forgives(fresh):
    """Whatever the freshness."""
    files = FakeSource("files", ["read"])
    fresh.put(files)

    await fresh.refresher.refresh(["files"])
    await fresh.refresher.refresh(["files"])

    assert (files.listed, files.forgiven) == (2, 2)


async def test_a_server_that_does_not_answer_is_given_up_after_its_own_time(fresh):
    """The record says how long it had."""
    files = FakeSource("files")
    files.listing.hold()
    fresh.put(files, discovery_timeout_s=0.001)

    record = (await fresh.refresher.refresh(["files"]))["files"]

    assert (record.status, record.error) == ("failed", "Server 'files' did not list its tools within 0.001 s.")


async def test_a_hanging_server_delays_nobody_beyond_the_grace(fresh):
    """The others are there when the list is given out, and the hanging one is waited for once only."""
    quick, hanging = FakeSource("quick", ["read"]), FakeSource("hanging", ["late"])
    hanging.listing.hold()
    shelves = [fresh.put(quick), fresh.put(hanging)]

    await fresh.refresher.need(0.001)
    await asyncio.wait_for(fresh.refresher.need(LONG_S), 150)

    assert [(names(shelf), shelf.status) for shelf in shelves] == [(["read"], "success"), ([], "discovering")]
    assert missing_servers(fresh.refresher.shelves)


async def test_a_server_that_comes_late_is_told_of(fresh):
    """The catalogue hears of it when it is there."""
    late = FakeSource("late", ["read"])
    late.listing.hold()
    shelf = fresh.put(late)
    await fresh.refresher.need(0.001)

    late.listing.release()
    await fresh.update.wait()

    assert (fresh.updated, names(shelf)) == (["late"], ["read"])


async def test_a_server_whose_first_attempt_failed_is_not_waited_for(fresh):
    """It goes on trying by itself."""
    files = FakeSource("files")
    files.listing.hold()
    shelf = fresh.put(files)
    need = asyncio.create_task(fresh.refresher.need(LONG_S))
    await files.listing.reached.wait()

    files.stumble()
    await asyncio.wait_for(need, 150)

    assert shelf.status == "discovering"


async def test_a_list_waits_longer_while_servers_keep_coming_in(fresh):
    """Many servers that start at once on a slow machine are all in the first list; one that is stuck is not."""
    sources = [FakeSource(name, ["read"]) for name in ("a", "b", "c", "stuck")]
    loop = asyncio.get_running_loop()
    for number, source in enumerate(sources):
        fresh.put(source)
        source.listing.hold()
        if source.name != "stuck":
            loop.call_later(0.3 + 0.15 * number, source.listing.release)

    await fresh.refresher.need(0.4)

    assert {name: shelf.is_known for name, shelf in fresh.refresher.shelves.items()} == {
        "a": True,
        "b": True,
        "c": True,
        "stuck": False,
    }


async def test_without_grace_nobody_is_waited_for(fresh):
    """Asking begins, the list is what is known."""
    files = FakeSource("files", ["read"])
    shelf = fresh.put(files)

    await fresh.refresher.need(0)

    assert (names(shelf), shelf.status) == ([], "discovering")


async def test_a_burst_of_changes_is_answered_once(fresh, monkeypatch):
    """The server is asked again after a short pause."""
    monkeypatch.setattr(flights, "CHANGE_PAUSE_S", 0.0)
    files = FakeSource("files", ["read"])
    shelf = fresh.put(files)
    await fresh.refresher.need(LONG_S)
    fresh.update.clear()

    for _ in range(50):
        files.change("read", "write")
    await fresh.update.wait()
    for _ in range(100):
        await asyncio.sleep(0)

    assert (files.listed, names(shelf)) == (2, ["read", "write"])


async def test_a_change_during_a_discovery_is_asked_for_afterwards(fresh, monkeypatch):
    """What the running discovery brings may be out of date already."""
    monkeypatch.setattr(flights, "CHANGE_PAUSE_S", 0.0)
    files = FakeSource("files", ["read"])
    files.listing.hold()
    shelf = fresh.put(files)
    need = asyncio.create_task(fresh.refresher.need(LONG_S))
    await files.listing.reached.wait()

    files.change("write")
    await asyncio.sleep(0)
    held = files.listed
    files.listing.release()
    await need
    while files.listed < 2:
        await asyncio.sleep(0)

    assert (held, names(shelf)) == (1, ["write"])


async def test_nothing_is_begun_after_the_end(fresh, monkeypatch):
    """A server may still be talking while everything is closed."""
    monkeypatch.setattr(flights, "CHANGE_PAUSE_S", 0.0)
    files = FakeSource("files", ["read"])
    fresh.put(files)
    await fresh.refresher.close()

    files.change("write")
    await asyncio.sleep(0)

    assert files.listed == 0


async def test_the_same_tools_again_are_no_news(fresh):
    """The catalogue is not bothered."""
    fresh.put(FakeSource("files", ["read"]))
    await fresh.refresher.refresh(["files"])

    await fresh.refresher.refresh(["files"])

    assert fresh.updated == ["files"]


async def test_an_earlier_run_is_remembered(fresh):
    """Its tools and era are there without asking; being old, they are renewed at the first need."""
    files = FakeSource("files", ["read"])

    shelf = fresh.put(files, found(files, era="2025-06-18"))

    assert (names(shelf), shelf.is_known, shelf.status, files.listed) == (["read"], True, "success", 0)
    assert files.adopted == Listing(shelf.tools, era="2025-06-18")
    await fresh.refresher.need(LONG_S)
    assert shelf.status == "discovering"


@pytest.mark.parametrize("status", ["success", "failed"])
async def test_what_was_found_for_another_configuration_counts_for_nothing(fresh, status):
    """Not even when the new configuration cannot be reached: old tools never come back under its name."""
    files = FakeSource("files", ["old"])
    shelf = fresh.put(files, found(files, config_hash="of something else", status=status, era="2025-06-18"))
    files.trouble = SourceUnavailable("down")
    assert (shelf.status, shelf.is_known, files.adopted) == ("never", False, None)

    await fresh.refresher.need(LONG_S)

    stored = (await fresh.records.read())["files"]
    assert (stored.status, stored.tools) == ("failed", ())
    assert fresh.put(FakeSource("files"), stored).is_known is False


async def test_that_a_server_asks_is_remembered_and_outlives_later_discoveries(fresh):
    """Also in the next run, until it is another server."""
    source = FakeSource("files", ["read"])
    fresh.put(source, found(source))
    source.told_asking()
    await fresh.refresher.refresh(["files"])
    stored = (await fresh.records.read())["files"]

    again, other = FakeSource("files", ["read"]), FakeSource("files", ["read"])
    later = fresh.put(again, stored)
    moved = fresh.put(other, stored, args=("--other",))

    assert (stored.asks, later.record.asks, moved.record.asks) == (True, True, False)
    assert (again.adopted.asks, other.adopted) == (True, None)
    assert read_record("files", write_record(stored)).asks


async def test_a_failure_of_an_earlier_run_leaves_its_tools_usable(fresh):
    """And the server is asked again at the first need."""
    files = FakeSource("files", ["read"])

    shelf = fresh.put(files, found(files, status=DiscoveryStatus.FAILED, error="down"))

    assert (names(shelf), shelf.is_known, shelf.fresh_until) == (["read"], True, 0.0)


async def test_a_removed_server_is_told_of_and_its_discovery_ends(fresh):
    """Whoever waits for it gets an answer, not a cancellation."""
    files = FakeSource("files", ["read"])
    files.listing.hold()
    shelf = fresh.put(files)
    waiting = asyncio.create_task(fresh.refresher.first_record(shelf))
    await files.listing.reached.wait()

    assert fresh.refresher.remove("files") is shelf
    with pytest.raises(SourceUnavailable, match="was stopped"):
        await waiting

    assert fresh.told(events.REGISTRY_SERVER_REMOVED) == [{"server": "files", "removed": 0}]
    assert fresh.refresher.remove("files") is None


async def test_a_caller_that_gives_up_does_not_end_the_discovery(fresh):
    """Others may be waiting for it."""
    files = FakeSource("files", ["read"])
    files.listing.hold()
    shelf = fresh.put(files)
    impatient = asyncio.create_task(fresh.refresher.first_record(shelf))
    await files.listing.reached.wait()

    impatient.cancel()
    await asyncio.wait([impatient])
    files.listing.release()
    await shelf.flight

    assert (impatient.cancelled(), names(shelf)) == (True, ["read"])


async def test_records_that_cannot_be_written_cost_nothing_but_a_warning():
    """The tools are there all the same."""

    class Broken(MemoryRecords):
        async def update(self, *_: object) -> None:
            raise ConfigError("The disk is full.")

    fresh = Freshness(Broken())
    shelf = fresh.put(FakeSource("files", ["read"]))

    await fresh.refresher.refresh(["files"])
    await fresh.refresher.close()

    assert names(shelf) == ["read"]
    assert fresh.told("lock.not.written") == [{"server": "files", "error": "The disk is full."}]


async def test_a_record_the_shared_database_could_not_take_is_written_when_it_is_back(monkeypatch):
    """Nobody waits for that; of several findings the newest is written."""
    monkeypatch.setattr(storing, "AGAIN_S", 0.01)

    class Away(MemoryRecords):
        is_away = True
        written = asyncio.Event()

        async def update(self, server, change) -> None:
            if self.is_away:
                raise StoreUnavailable("It does not answer.")
            await super().update(server, change)
            self.written.set()

    records = Away()
    fresh = Freshness(records)
    source = FakeSource("files", ["read"])
    fresh.put(source)
    await fresh.refresher.refresh(["files"])
    source.tools = [*source.tools, Tool("write")]
    await fresh.refresher.refresh(["files"])
    before = dict(await records.read())
    records.is_away = False
    async with asyncio.timeout(150):
        await records.written.wait()
    await fresh.refresher.close()

    assert before == {}
    assert [tool["name"] for tool in (await records.read())["files"].tools] == ["read", "write"]
    assert fresh.told("lock.not.written")[0] == {"server": "files", "error": "It does not answer."}


async def test_closing_while_the_shared_database_is_away_waits_for_nothing():
    class Away(MemoryRecords):
        async def update(self, *_: object) -> None:
            raise StoreUnavailable("It does not answer.")

    fresh = Freshness(Away())
    fresh.put(FakeSource("files", ["read"]))
    await fresh.refresher.refresh(["files"])
    async with asyncio.timeout(50):
        await fresh.refresher.close()

    assert len(fresh.told("lock.not.written")) == 2


async def test_of_many_records_that_come_while_one_is_written_only_the_last_is_written(fresh):
    """A server that changes all the time does not have the lock written each time; who waits, waits for the last."""
    files = FakeSource("files", ["read"])
    fresh.put(files)
    written, hold = [], asyncio.Event()
    update = fresh.records.update

    async def slowly(server, change):
        await hold.wait()
        await update(server, change)
        written.append([tool["name"] for tool in (await fresh.records.read())["files"].tools])

    fresh.records.update = slowly
    for number in range(5):
        files.tools = (Tool(f"tool_{number}"),)
        await fresh.refresher.start(fresh.refresher.shelves["files"])
    await asyncio.sleep(0)
    hold.set()
    await fresh.refresher.refresh([])

    assert written == [["tool_0"], ["tool_4"]]


async def test_an_era_that_a_server_was_found_to_need_is_remembered_at_once(fresh):
    """Though its tools are the same: the next run shall not find it out again."""
    files = FakeSource("files", ["read"])
    fresh.put(files)
    eras = []
    for era in ("2026-07-28", "2025-11-25"):
        files.era = era
        await fresh.refresher.refresh(["files"])
        eras.append((await fresh.records.read())["files"].era)

    assert eras == ["2026-07-28", "2025-11-25"]
