"""Who is signed in, and the question that comes before a token is made; with a clock of the test's own."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.server.conftest import GUEST, GUEST_TOKEN, OWNER, OWNER_TOKEN, Browser, Doorman, Reply, request_to

from toolcrib.config.model import Config
from toolcrib.core.events import drop
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.server.identity.sign_in import CONFIRMED_S, COOKIE, PublicAddress, SignIns
from toolcrib.server.router import Entering
from toolcrib.server.visit import ServedProject
from toolcrib.server.web.sign_in_page import name_browser
from toolcrib.server.web.site import WebPages
from toolcrib.stores.access_tokens import TokenFile
from toolcrib.stores.paths import Environment
from toolcrib.testing import memory_crib
from toolcrib.transports.http.client import HttpFailure
from toolcrib.transports.http.server import HttpServer


class Page:
    """A browser at the page, signed in."""

    def __init__(self, browser: Browser, sign_ins: SignIns, caller=OWNER) -> None:
        self._browser = browser
        self.cookie = f"{COOKIE}={sign_ins.begin(caller, request_to(browser.address))}"
        self.csrf = sign_ins.of(request_to(browser.address, self.cookie)).csrf

    async def get(self, path: str) -> Reply:
        return await self._browser.send("GET", path, cookie=self.cookie)

    async def post(self, path: str, **fields: str) -> Reply:
        body = urlencode(fields | {"csrf": self.csrf}).encode()
        kind, origin = "application/x-www-form-urlencoded", f"http://{self._browser.address}"
        try:
            return await self._browser.send("POST", path, body, cookie=self.cookie, content_type=kind, origin=origin)
        except HttpFailure as failure:  # our client follows nothing, and says where it was sent
            return Reply(303, {"location": failure.details["location"]}, b"")


@asynccontextmanager
async def open_page(home: Path, doorman: Doorman) -> AsyncIterator[tuple[Browser, SignIns, TokenFile]]:
    tokens, sign_ins = TokenFile(home / "tokens.json", doorman.clock), doorman.sign_ins()
    around = Environment(home, {"HOME": str(home)})
    async with memory_crib() as memory:
        project = Project(memory.crib, Loaded(Config()), around=around)
        premises = ServedProject(project, sign_ins, "http://127.0.0.1:1/mcp", 0.0, tokens=tokens)
        site = WebPages(premises, Entering(sign_ins, lambda _token: None), drop)
        server = HttpServer({}, fallback=site.handle)
        await server.start("127.0.0.1", 0)
        sign_ins.open(PublicAddress(f"http://{server.address}"))
        browser = Browser(server)
        try:
            yield browser, sign_ins, tokens
        finally:
            await browser.close()
            await site.close()
            await server.close(1)


@pytest.fixture
def doorman() -> Doorman:
    return Doorman()


TOKEN = {"name": "cursor", "level": "system", "lifetime": "30"}


async def test_making_a_token_asks_again_who_it_is(tmp_path: Path, doorman: Doorman):
    """Some minutes after signing in; a cookie alone makes none."""
    async with open_page(tmp_path, doorman) as (browser, sign_ins, tokens):
        page = Page(browser, sign_ins)
        doorman.clock.now += CONFIRMED_S
        shown = await page.get("/settings/tokens")
        refused = await page.post("/settings/tokens", **TOKEN)
        made_before = tokens.read()
        wrong = await page.post("/confirm", token="wrong", next="/settings/tokens")
        others = await page.post("/confirm", token=GUEST_TOKEN, next="/settings/tokens")
        right = await page.post("/confirm", token=OWNER_TOKEN, next="/settings/tokens")
        made = await page.post("/settings/tokens", **TOKEN)

    assert b"Confirm that it is you" in shown.body
    assert b"Create a token" not in shown.body
    assert refused.headers["location"] == "/confirm?next=%2Fsettings%2Ftokens"
    assert (list(made_before), wrong.status, others.status) == ([], 403, 403)
    assert right.headers["location"] == "/settings/tokens"
    assert (made.status, [token.name for token in tokens.read()]) == (200, ["cursor"])


async def test_sessions_are_listed_and_ended(tmp_path: Path, doorman: Doorman):
    """The owner sees everybody, a guest only themselves; signing out everywhere ends all of one's own."""
    async with open_page(tmp_path, doorman) as (browser, sign_ins, _):
        here, there, guest = Page(browser, sign_ins), Page(browser, sign_ins), Page(browser, sign_ins, GUEST)
        listed, guests = await here.get("/settings/sessions"), await guest.get("/settings/sessions")
        other = next(each.id for each in sign_ins.sessions(OWNER) if each.caller is GUEST)
        ended = await here.post(f"/settings/sessions/{other}/end")
        again = await here.post(f"/settings/sessions/{other}/end")
        await here.post("/signout", everywhere="yes")
        left = [sign_ins.of(request_to(browser.address, page.cookie)) for page in (here, there, guest)]

    assert listed.body.count(b"Firefox on Linux") == 3
    assert len(re.findall(rb">this one<", listed.body)) == 1
    assert guests.body.count(b"Firefox on Linux") == 1
    assert ended.headers["location"] == "/settings/sessions?done=signed_out"
    assert again.status == 404
    assert left == [None, None, None]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/26 Safari/605", "Safari on Mac OS"),
        ("curl/8.0", "curl/8.0"),
        ("", "a browser without a name"),
    ],
)
def test_browsers_are_called_what_people_call_them(said: str, name: str):
    assert name_browser(said) == name
