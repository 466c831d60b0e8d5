"""Large results behind a balancer: read at any replica, by whoever called, while they are kept."""

from contextlib import asynccontextmanager

from toolcrib.config.model import ResultsConfig
from toolcrib.stores import results_shared
from toolcrib.stores.coordination_memory import MemoryHub
from toolcrib.stores.results import ResultStore
from toolcrib.stores.results_shared import SharedResults
from toolcrib.testing import ManualClock


@asynccontextmanager
async def two(tmp_path, hub: MemoryHub):
    stores = [ResultStore(tmp_path / name, ResultsConfig()) for name in ("a", "b")]
    members = [hub.join(name) for name in ("a", "b")]
    yield [SharedResults(store, member, 60.0) for store, member in zip(stores, members, strict=True)], members
    for store in stores:
        await store.close()


async def test_a_result_is_read_where_it_was_made_and_elsewhere(tmp_path):
    async with two(tmp_path, MemoryHub()) as ((here, there), _):
        handle = await here.keep(b"a lot", "anna", "srv__read")

        assert [await here.read(handle, "anna"), await there.read(handle, "anna")] == [b"a lot", b"a lot"]


async def test_nobody_else_reads_it_elsewhere_either(tmp_path):
    async with two(tmp_path, MemoryHub()) as ((here, there), _):
        handle = await here.keep(b"a lot", "anna", "srv__read")

        assert [await there.read(handle, "ben"), await there.read("r_guessed", "anna")] == [None, None]


async def test_it_is_kept_no_longer_elsewhere_than_here(tmp_path):
    clock = ManualClock(100.0)
    async with two(tmp_path, MemoryHub(clock)) as ((here, there), _):
        handle = await here.keep(b"a lot", "anna", "srv__read")
        clock.advance(61)

        assert await there.read(handle, "anna") is None


async def test_what_is_too_large_to_share_or_cannot_be_shared_now_is_read_where_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setattr(results_shared, "SHARED_MAX", 3)
    async with two(tmp_path, MemoryHub()) as ((here, there), members):
        large = await here.keep(b"large", "anna", "srv__read")
        members[0].cut()
        small = await here.keep(b"s", "anna", "srv__read")

        assert [await here.read(handle, "anna") for handle in (large, small)] == [b"large", b"s"]
        assert [await there.read(handle, "anna") for handle in (large, small)] == [None, None]
        members[1].cut()
        assert await there.read(small, "anna") is None
