"""A person signs in at a server: in a real browser from the page, and from a terminal without one."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.cli.program import Program
from tests.fleet.oauth import OAuthProvider, oauth_provider

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def provider() -> Iterator[OAuthProvider]:
    with oauth_provider() as started:
        yield started


@pytest.fixture
def program(tmp_path: Path, provider: OAuthProvider) -> Program:
    made = Program(tmp_path)
    made.project.mkdir()
    made.config.write_text(f'[servers.tracker]\nurl = "{provider.url}"\n\n[kb]\nenabled = false\n')
    return made


def whoami(program: Program) -> str:
    return program.run("call", "tracker__whoami").stdout


async def test_a_person_signs_in_on_the_page(chromium: Browser, program: Program, provider: OAuthProvider):
    """From the button on the server's page over the provider's own pages and back; then its tools can be used."""
    with program.serving("serve") as serving:
        serving.tool_names()
        link = first_link(program)
        page = await (await chromium.new_context()).new_page()
        await page.goto(link)
        await page.goto(f"{page.url.partition('/?')[0].rstrip('/')}/servers/tracker")
        await page.get_by_role("link", name="Sign in", exact=True).first.click()
        await page.get_by_role("button", name="Sign in").click()
        await page.locator("input[name=login]").fill("ada")
        await page.locator("input[name=password]").fill("x")
        await page.get_by_role("button", name="Sign-in").click()
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("heading", name="You are signed in at tracker")).to_be_visible()
        await page.get_by_role("link", name="Look at tracker").click()
        await expect(page.get_by_role("link", name="whoami")).to_be_visible()
        called = whoami(program)
        assert serving.process.poll() is None

    assert called.startswith("ada")


def first_link(program: Program) -> str:
    told = program.run("open", "--print")
    found = re.search(r"http://\S+/signin\?link=\S+", told.stdout + told.stderr)
    assert found, told
    return found.group()


async def test_a_person_without_a_browser_pastes_the_address_it_ended_at(program: Program):
    """As over SSH: the browser is elsewhere and cannot reach the address it is sent back to."""
    rest = program.log_in()

    assert "Signed in at 'tracker'" in rest
    assert "3 tools" in rest
    assert whoami(program).startswith("ada")
    [account] = program.json("accounts")
    assert (account["server"], account["isSignedIn"], account["isRenewed"]) == ("tracker", True, True)
    assert program.run("logout", "tracker").returncode == 0
    assert program.json("accounts") == []
