"""Large results behind a balancer: read at any replica, by whoever called, while they are kept."""

from contextlib import asynccontextmanager

import pytest
from tests.doubles.coordination import MemoryHub

from toolcrib.config.model import ResultsConfig
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.stores import shared
from toolcrib.stores.results import ResultStore
from toolcrib.stores.shared import SharedResults
from toolcrib.testing import ManualClock


@asynccontextmanager
async def two(tmp_path, hub: MemoryHub, clock: ManualClock | None = None, space: int = 1_000):
    stores = [ResultStore(tmp_path / name, ResultsConfig()) for name in ("a", "b")]
    config, now = ResultsConfig(keep_s=60.0, space=space), clock or ManualClock(0.0)
    members = [hub.join(name) for name in ("a", "b")]
    yield [SharedResults(store, member, config, now) for store, member in zip(stores, members, strict=True)], members
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
    monkeypatch.setattr(shared, "SHARED_MAX", 3)
    async with two(tmp_path, MemoryHub()) as ((here, there), members):
        large = await here.keep(b"large", "anna", "srv__read")
        members[0].cut()
        small = await here.keep(b"s", "anna", "srv__read")

        assert [await here.read(handle, "anna") for handle in (large, small)] == [b"large", b"s"]
        assert [await there.read(handle, "anna") for handle in (large, small)] == [None, None]


async def test_while_others_cannot_be_asked_nobody_says_that_a_result_is_gone(tmp_path):
    """Whoever reads comes back, and need not call the tool again."""
    async with two(tmp_path, MemoryHub()) as ((here, there), members):
        handle = await here.keep(b"a lot", "anna", "srv__read")
        members[1].cut()
        with pytest.raises(CoordinationUnavailable) as caught:
            await there.read(handle, "anna")

        assert (caught.value.code, caught.value.retryable) == ("TOOL_UNAVAILABLE", True)
        assert await here.read(handle, "anna") == b"a lot"


async def test_no_more_is_passed_on_than_there_is_space_for(tmp_path):
    """What finds no space is read where it was made; what is kept no more makes space again."""
    clock = ManualClock(100.0)
    async with two(tmp_path, MemoryHub(clock), clock, space=100) as ((here, there), _):
        handles = [await here.keep(b"x" * 40, "anna", "srv__read") for _ in range(3)]
        read = [await there.read(handle, "anna") is not None for handle in handles]
        clock.advance(61)
        later = await here.keep(b"y" * 40, "anna", "srv__read")

        assert read == [True, True, False]
        assert await here.read(handles[2], "anna") == b"x" * 40
        assert await there.read(later, "anna") == b"y" * 40
