"""A real browser, and pages that remember everything that went wrong in them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    async_playwright,
    expect,
)
from tests.fleet.install import FLEET, browser

ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = FLEET / "npm-page" / "node_modules" / "axe-core" / "axe.min.js"
WIDE = {"width": 1280, "height": 900}
PATIENCE_MS = 150_000
"""Ends what hangs; whatever the page does, a busy machine takes its time for it."""
expect.set_options(timeout=PATIENCE_MS)
NARROW = {"width": 390, "height": 844}
VIOLATIONS = "addEventListener('securitypolicyviolation', e => console.error('CSP', e.violatedDirective, e.blockedURI))"


@asynccontextmanager
async def open_chromium() -> AsyncIterator[Browser]:
    path = browser()
    assert path, "No browser here: run `python tests/fleet/install.py` first."
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, args=list(ARGS))
        try:
            yield started
        finally:
            await started.close()


@dataclass
class Troubles:
    """What a page complained of, and what it asked others for."""

    host: str
    told: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.told.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("requestfailed", self._failed)
        page.on("response", self._response)

    def _console(self, message: ConsoleMessage) -> None:
        self.told.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith("data:") and urlsplit(request.url).netloc != self.host:
            self.told.append(f"asked another host: {request.url}")

    def _failed(self, request: Request) -> None:
        if not (request.failure == "net::ERR_ABORTED" and is_passing(request)):
            self.told.append(f"failed: {request.url} {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.told.append(f"{response.status}: {response.url}")


def is_passing(request: Request) -> bool:
    """What a browser drops when one goes on to the next page: streams, pictures, parts asked for a moment ago."""
    return request.resource_type not in ("document", "script", "stylesheet")


@dataclass
class Load:
    """What pages had sent to them; what is kept by the browser counts for every page, as for one that comes first."""

    kept: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    """Since the page was asked for."""

    def watch(self, page: Page) -> None:
        page.on("requestfinished", self._finished)

    async def _finished(self, request: Request) -> None:
        sizes = await request.sizes()
        size = sizes["responseHeadersSize"] + sizes["responseBodySize"]
        if "/static/" in request.url:
            self.kept[request.url] = max(size, self.kept.get(request.url, 0))
        else:
            self.sent += size

    @property
    def kilobytes(self) -> float:
        return (sum(self.kept.values()) + self.sent) / 1000


@dataclass
class Person:
    """Somebody at a browser of their own."""

    context: BrowserContext
    page: Page
    troubles: Troubles
    load: Load
    url: str

    async def go(self, path: str) -> None:
        self.load.sent = 0
        await self.page.goto(self.url + path)

    async def come_back(self, cookie: str) -> None:
        """Be somebody who signed in before."""
        name, _, value = cookie.partition("=")
        await self.context.add_cookies([{"name": name, "value": value, "url": self.url, "sameSite": "Strict"}])

    async def axe(self, *rules: str) -> list[str]:
        """What a reader of the page with other senses would stumble over; by some rules only, if any are named.

        `AXE` must be among the scripts of the page.
        """
        found: list[dict[str, Any]] = await self.page.evaluate(
            "async run => (await axe.run(document, {resultTypes: ['violations'], ...run})).violations",
            {"runOnly": list(rules)} if rules else {},
        )
        return [
            f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:160]} {one['nodes'][0]['failureSummary'][:300]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


@asynccontextmanager
async def open_person(
    chromium: Browser, url: str, *, scripts: Sequence[Path] = (), **options: Any
) -> AsyncIterator[Person]:
    """``scripts`` are in every page, and sent to the browser once."""
    context = await chromium.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
    await context.add_init_script(VIOLATIONS)
    for path in scripts:
        await context.add_init_script(path=path)
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    troubles = Troubles(urlsplit(url).netloc)
    troubles.watch(page)
    load = Load()
    load.watch(page)
    try:
        yield Person(context, page, troubles, load, url)
    finally:
        await context.close()
