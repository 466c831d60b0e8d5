"""From an empty toolcrib to an approved call, as a person lives through it, with scripts and without."""

import re
import shlex
import sys

import pytest
from playwright.async_api import expect
from tests.browser.chromium import Person, open_person
from tests.cli.program import TINY, Program, Serving
from tests.server.web.workbench import Agent

pytestmark = pytest.mark.asyncio(loop_scope="module")

DYING = shlex.join([sys.executable, "-c", "import sys; sys.exit('DATABASE_URL is not set, so there is nothing to do')"])


@pytest.fixture
def program(tmp_path):
    program = Program(tmp_path)
    program.project.mkdir()
    program.write()
    return program


def printed_link(serving: Serving) -> str:
    serving.wait_for("this link works once")
    return re.search(r"http\S+/signin\?link=\S+", serving.output)[0]


def agent(program: Program, serving: Serving) -> Agent:
    token = (program.home / "state" / "toolcrib" / "token").read_text().strip()
    return Agent(serving.port, token, "tiny__echo", {"text": "may I?"}).start()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
async def test_a_broken_server_is_mended_and_its_tool_asked_for(program, chromium, scripts):
    """Sign in, add, read why it died, mend it, try a tool, have it ask, approve a call, find it in the audit."""
    with program.serving("up", "--edit-commands") as serving:
        link = printed_link(serving)
        async with open_person(chromium, link.partition("/signin")[0], java_script_enabled=scripts) as person:
            await person.page.goto(link)
            await expect(person.page.get_by_role("heading", name="Overview")).to_be_visible()
            await add_broken(person)
            await mend(person, program)
            await try_it(person)
            await have_it_ask(person)
            await approve(person, program, serving, scripts)
            await look_back(person)

            assert person.troubles.told == []


async def add_broken(person: Person) -> None:
    await person.page.get_by_role("link", name="Add a server").first.click()
    await person.page.get_by_role("link", name="A program here").click()
    await person.page.get_by_label("Name", exact=True).first.fill("tiny")
    await person.page.get_by_label("Command").fill(DYING)
    await person.page.get_by_role("button", name="Add and test").click()

    autopsy = person.page.locator(".autopsy")
    await expect(autopsy).to_contain_text("Its process exited with code 1")
    await expect(autopsy).to_contain_text("DATABASE_URL is not set, so there is nothing to do")
    await expect(autopsy).to_contain_text("Next: ")


async def mend(person: Person, program: Program) -> None:
    await person.page.get_by_role("link", name="Edit").click()
    await person.page.get_by_label("Command").fill(shlex.join([sys.executable, str(TINY), str(program.diary)]))
    await person.page.get_by_role("button", name="Save and test").click()

    await expect(person.page.locator(".autopsy")).to_have_count(0)
    await expect(person.page.locator("h1 + .badge")).to_have_text("ready")
    await expect(person.page.get_by_role("link", name="echo")).to_be_visible()


async def try_it(person: Person) -> None:
    await person.page.get_by_role("link", name="echo").click()
    await person.page.get_by_label("text").fill("hello there")
    await person.page.get_by_label("times").fill("2")
    await person.page.get_by_role("button", name="Run").click()

    result = person.page.locator("#result")
    await expect(result).to_contain_text("It worked")
    await expect(result).to_contain_text('{"text": "hello there", "times": 2}')


async def have_it_ask(person: Person) -> None:
    await person.page.locator(".policy-form select").select_option("ask")
    await person.page.locator(".policy-form button").click()

    await expect(person.page.locator(".title-row")).to_contain_text("ask")
    await expect(person.page.locator("#try")).to_contain_text("A person is asked before each call")


async def approve(person: Person, program: Program, serving: Serving, scripts: bool) -> None:
    """Where there are scripts the question comes by itself."""
    await person.page.get_by_role("link", name="Approvals").click()
    await expect(person.page.get_by_text("No question waits")).to_be_visible()
    if scripts:
        await expect(person.page.locator("[data-live-state=on]")).to_be_visible()
    called = agent(program, serving)
    if not scripts:
        await reload_until(person, "may I?")
    await expect(person.page.locator(".question")).to_contain_text("may I?")
    if scripts:
        await expect(person.page).to_have_title(re.compile(r"^\(1\) Approvals"))
        await expect(person.page.locator(".side [data-approvals-badge]")).to_have_text("1")
    await person.page.get_by_role("button", name="Allow once").click()

    await expect(person.page.get_by_text("No question waits")).to_be_visible()
    assert "may I?" in called.result()["content"][0]["text"]


async def reload_until(person: Person, words: str) -> None:
    """As one does who waits for something, with the link that is there for that."""
    for _ in range(100):
        if await person.page.get_by_text(words).count():
            return
        await person.page.get_by_role("link", name="Reload").click()
        await person.page.wait_for_load_state()


async def look_back(person: Person) -> None:
    await person.page.get_by_role("link", name="Live calls").click()
    await person.page.locator("#calls tbody tr").first.get_by_role("link").click()
    await expect(person.page.get_by_text("Waited for a person")).to_be_visible()
    await person.page.get_by_role("link", name="What the audit log has of it").click()
    row = person.page.locator("#entries .card.flush tbody tr").first
    await expect(row).to_contain_text("tiny__echo")
    await expect(row).to_contain_text("success")
    await person.page.get_by_role("link", name="Show all").click()
    await person.page.get_by_role("button", name="Verify").click()
    await expect(person.page.get_by_text("The chain is whole")).to_be_visible()
