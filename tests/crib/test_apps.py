"""Apps (``ui://`` resources): what was read first is what is accepted, and another one is held until a person looks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.catalog.pins import APP_TEXT_MAX, APPS_MAX
from toolcrib.config.lock import read_lock
from toolcrib.config.model import Config
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.kinds import PinMode
from toolcrib.core.offers import OfferKind, Resource, ResourceTemplate
from toolcrib.core.requests import Request, Result
from toolcrib.core.source import Listing
from toolcrib.crib.builder import open_crib
from toolcrib.crib.loading import Loaded
from toolcrib.server.views.tools import change_of, check_seen, held_routes

CSP = {"ui": {"csp": {"connectDomains": ["https://api.example.com"]}}}
PAGE = "ui://lib/chart"


class AppServer:
    """A source whose apps show what ``page`` and ``meta`` say."""

    name, pinned = "lib", True

    def __init__(self, page: str = "<p>chart</p>", meta: Any = None) -> None:
        self.page, self.meta, self.asked = page, CSP if meta is None else meta, 0

    async def list_offers(self) -> Listing:
        chart = Resource("ui://chart", "A chart.", extra={"name": "chart", "mimeType": "text/html;profile=mcp-app"})
        return Listing((), others=(chart, ResourceTemplate("ui://views/{id}"), Resource("memo://a")))

    async def answer(self, call: Request) -> Result:
        self.asked += 1
        part = {"uri": call.target, "mimeType": "text/html;profile=mcp-app", "text": self.page, "_meta": self.meta}
        return Result({"contents": [part]})

    def on_change(self, listener: Callable[[], None]) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("page", "meta"),
    [
        ("<p>chart</p><script src='https://evil.example'></script>", CSP),
        ("<p>chart</p>", {"ui": {"csp": {"connectDomains": ["https://evil.example"]}}}),
        ("<p>chart</p>", {}),
        ("<p>chart</p>" + " " * APP_TEXT_MAX, CSP),
    ],
)
async def test_an_app_that_changed_is_held_until_it_is_accepted(tmp_path: Path, page: str, meta: Any):
    """The page itself, and what it may reach; across runs, with what changed for a person to see."""
    loaded = Loaded(Config(), lock=tmp_path / "toolcrib.lock")
    async with open_crib(loaded, sources=[AppServer()]) as crib:
        first = [await crib.read(PAGE), await crib.read(PAGE)]
    server = AppServer(page, meta)
    async with open_crib(loaded, sources=[server]) as crib:
        refused, again = await crib.read(PAGE), await crib.read(PAGE)
        asked, other = server.asked, await crib.read("memo://lib/a")
        listed = [offer.name for offer in await crib.offers(OfferKind.RESOURCE)]
        [held] = held_routes(crib)
        change = change_of(crib, held)
        check_seen(crib, held, change.seen)
        accepted = await crib.servers.approve("resource lib__ui://chart")
        now = await crib.read(PAGE)

    assert [one.success for one in (*first, refused, again, other, now)] == [True, True, False, False, True, True]
    assert (asked, listed, accepted) == (1, ["lib__memo://a"], ["resource lib__ui://chart"])
    assert refused.error is not None
    assert "toolcrib diff 'resource lib__ui://chart'" in refused.error.message
    assert change.diff
    assert (change.old or {})["app"]["text"] == ["<p>chart</p>"]


async def test_an_app_as_it_was_is_never_held_and_a_listing_does_not_forget_it(tmp_path: Path):
    """However often it is read and listed."""
    loaded = Loaded(Config(), lock=tmp_path / "toolcrib.lock")
    server = AppServer()
    async with open_crib(loaded, sources=[server]) as crib:
        for _ in range(3):
            assert (await crib.read(PAGE)).success
            await crib.refresh("lib")
        server.page = "<p>another</p>"
        held = await crib.read(PAGE)
    record = read_lock(loaded.lock.read_text(), "lock").records["lib"] if loaded.lock else None

    assert not held.success
    assert record is not None
    assert record.pins["app ui://chart"].definition is not None


async def test_an_app_that_only_a_template_stands_for_is_accepted_with_its_server():
    """It is compared each time; one that is again as it was comes free by itself."""
    server = AppServer()
    async with open_crib(Config(), sources=[server]) as crib:
        first = await crib.read("ui://lib/views/7")
        server.page = "<p>other</p>"
        changed = await crib.read("ui://lib/views/7")
        server.page = "<p>chart</p>"
        back = await crib.read("ui://lib/views/7")
        server.page = "<p>third</p>"
        held = await crib.read("ui://lib/views/7")
        accepted = await crib.servers.approve("lib")
        after = await crib.read("ui://lib/views/7")

    assert [one.success for one in (first, changed, back, held, after)] == [True, False, True, False, True]
    assert accepted == ["lib__ui://views/7"]


async def test_a_server_that_makes_up_apps_without_end_is_not_believed():
    """Nothing grows without bounds; those that were pinned go on."""
    async with open_crib(Config(), sources=[AppServer()]) as crib:
        reads = [await crib.read(f"ui://lib/views/{number}") for number in range(APPS_MAX + 5)]
        again = await crib.read("ui://lib/views/1")
        record = crib.shelves["lib"].record

    assert [one.success for one in reads] == [True] * APPS_MAX + [False] * 5
    assert (again.success, len(record.others)) == (True, APPS_MAX + 3)


@pytest.mark.parametrize(("mode", "is_read"), [(PinMode.STRICT, False), (PinMode.OFF, True)])
async def test_pins_of_apps_follow_the_mode(mode: PinMode, is_read: bool):
    """Strict: a person looks first, at the resource and then at the app in it; off: nobody does."""
    server = AppServer()
    async with open_crib(Config(security=SecurityConfig(pins=mode)), sources=[server]) as crib:
        await crib.tools()
        await crib.servers.approve("lib")
        first = await crib.read(PAGE)
        await crib.servers.approve("lib")
        second = await crib.read(PAGE)

    assert (first.success, second.success) == (is_read, True)
