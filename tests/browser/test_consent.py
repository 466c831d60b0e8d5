"""A person lets a client in, in a real browser: it comes from another site, and goes back there."""

import asyncio
import base64
import hashlib
import json
import secrets
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.cli.program import Program, Serving
from tests.fleet.running import free_port

pytestmark = pytest.mark.asyncio(loop_scope="module")
VERIFIER = secrets.token_urlsafe(32)
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@dataclass
class ClientSite:
    """The pages of a client: one with a link that begins, and one that people come back to."""

    link: str = ""
    address: str = ""
    back: "asyncio.Queue[dict[str, str]]" = field(default_factory=asyncio.Queue)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = urlsplit((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode())
        if target.path == "/callback":
            self.back.put_nowait(dict(parse_qsl(target.query)))
        said = "Connected" if target.path == "/callback" else f'<a href="{self.link}">Connect</a>'
        body = f"<!doctype html><link rel=icon href=data:,><h1>{said}</h1>".replace("&", "&amp;").encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[ClientSite]:
    made = ClientSite()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def program(tmp_path: Path, port: int) -> Program:
    made = Program(tmp_path)
    made.project.mkdir()
    made.config.write_text(
        f'[serve]\noauth = "builtin"\npublic_url = "http://localhost:{port}"\n\n[kb]\nenabled = false\n'
    )
    return made


def begin(base: str, site: ClientSite) -> None:
    """Register as a client does, and make the link that its page has."""
    about = json.dumps({"client_name": "Some site", "redirect_uris": [f"{site.address}/callback"]}).encode()
    request = urllib.request.Request(f"{base}/oauth/register", about, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        client_id = json.load(answer)["client_id"]
    asked = {"response_type": "code", "client_id": client_id, "redirect_uri": f"{site.address}/callback"}
    asked |= {"state": "xyz", "code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    site.link = f"{base}/oauth/authorize?{urlencode(asked)}"


async def test_a_person_who_comes_from_another_site_says_yes_and_is_sent_back_there(
    chromium: Browser, program: Program, port: int, site: ClientSite
):
    """Nobody is signed in at first; the second time somebody is, and the browser holds that back at the first step."""
    with program.serving("serve", "--port", str(port)) as serving:
        base = f"http://localhost:{port}"
        begin(base, site)
        page = await (await chromium.new_context()).new_page()
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        await page.goto(site.address)
        await page.get_by_role("link", name="Connect").click()
        await expect(page.locator("meta[http-equiv=refresh]")).to_have_count(0)  # it tries once more by itself
        await page.get_by_label("Token").fill(token_of(program))
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Some site wants to use your tools")).to_be_visible()
        await expect(page.get_by_text("nobody: it chose its name itself")).to_be_visible()
        await page.get_by_role("button", name="Let it in").click()
        await expect(page.get_by_role("heading", name="Connected")).to_be_visible()
        first = await site.back.get()
        tokens = redeem(base, site, first["code"])
        await page.goto(site.address)
        await page.get_by_role("link", name="Connect").click()
        await page.get_by_role("button", name="Refuse").click()
        await expect(page.get_by_role("heading", name="Connected")).to_be_visible()
        second = await site.back.get()
        await page.goto(f"{base}/settings/clients")
        await expect(page.get_by_text("Some site")).to_be_visible()
        await page.get_by_role("button", name="Disconnect").click()
        await expect(page.get_by_text("Client Some site is disconnected.")).to_be_visible()
        status = call(serving, tokens["access_token"])

    assert (first["state"], first["iss"]) == ("xyz", base)
    assert (second["error"], "code" in second) == ("access_denied", False)
    assert tokens["scope"] == "toolcrib:level:write"
    assert status == 401
    assert wrong == []


def token_of(program: Program) -> str:
    return (program.home / "state" / "toolcrib" / "token").read_text().strip()


def redeem(base: str, site: ClientSite, code: str) -> dict[str, str]:
    client_id = dict(parse_qsl(urlsplit(site.link).query))["client_id"]
    sent = {"grant_type": "authorization_code", "client_id": client_id, "code": code, "code_verifier": VERIFIER}
    with urllib.request.urlopen(f"{base}/oauth/token", urlencode(sent).encode()) as answer:
        return json.load(answer)


def call(serving: Serving, token: str) -> int:
    return serving.list_tools(authorization=f"Bearer {token}").status
