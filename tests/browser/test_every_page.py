"""What holds for every page in a real browser: quiet, within bounds, for every sense, by keyboard, without scripts."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.browser.chromium import AXE, NARROW, WIDE, Person, open_person
from tests.browser.places import NO_PAGES, Look, looks
from tests.server.conftest import Doorman

from toolcrib.config.model import Config
from toolcrib.core.events import drop
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.server.router import Entering
from toolcrib.server.visit import ServedProject
from toolcrib.server.web.site import WebPages
from toolcrib.testing import memory_crib

pytestmark = pytest.mark.asyncio(loop_scope="module")

REFUSED = "console error: Failed to load resource"
EXPECTED = {"not-found": [REFUSED, "404: "], "sign-in-failed": [REFUSED, "400: "]}
CLIPPED = "[...document.querySelectorAll('.card.flush')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
PRIMARY = "[...document.querySelectorAll('main .button.primary')].filter(e => e.checkVisibility()).length"
MOST_KB = 150
TALLEST = 6000
"""In pixels on a phone: what one still pushes through."""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOLLOW = """target => {
  window.visited = [];
  document.addEventListener('focusin', () => {
    const at = document.activeElement;
    const style = getComputedStyle(at);
    const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    visited.push({ ring, isThere: at === target, name: at.outerHTML.slice(0, 120) });
  });
}"""
AT_ONCE = 8
"""How often the key is pressed before it is asked where that led."""


def pages(demo) -> list[Look]:
    return [look for found in looks(demo).values() for look in found]


def unexpected(person: Person, look: Look) -> list[str]:
    known = tuple(EXPECTED.get(look.name, ()))
    told, person.troubles.told[:] = list(person.troubles.told), []
    return [f"{look.path}: {words}" for words in told if not (known and words.startswith(known))]


async def test_no_page_is_left_out(demo):
    """A new page needs a line in places.py."""
    async with memory_crib() as memory:
        project = Project(memory.crib, Loaded(Config()))
        premises = ServedProject(project, Doorman().sign_ins(), "http://127.0.0.1:1/mcp", 0.0)
        site = WebPages(premises, Entering(premises.sign_ins, lambda _token: None), drop)
        await site.close()

    assert site.pages.paths == {*looks(demo), *NO_PAGES}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shortcomings(demo, chromium) -> dict[str, list[str]]:
    """What is wrong with the pages, to look at and by keyboard; each is opened once."""
    seen, tabbed = [], []
    async with open_person(chromium, demo.page, scripts=[AXE]) as person:
        await person.come_back(demo.cookie())
        for look in pages(demo):
            await person.go(look.path)
            seen += unexpected(person, look) + [f"{look.path}: {words}" async for words in obstacles(person)]
            tabbed += [f"{look.path}: {words}" for words in await tab_to(person, look)]
    return {"seen": seen, "tabbed": tabbed}


async def test_pages_are_quiet_fit_and_can_be_read_by_everybody(shortcomings):
    """No complaint, no stranger asked, one main button, little sent, nothing serious found by axe, on a phone, too."""
    assert shortcomings["seen"] == []


async def obstacles(person: Person) -> AsyncIterator[str]:
    for words in await person.axe():
        yield words
    if await person.page.evaluate(CLIPPED):
        yield "a card hides a part of what is in it"
    if (primary := await person.page.evaluate(PRIMARY)) > 1:
        yield f"{primary} main buttons"
    if person.load.kilobytes > MOST_KB:
        yield f"{person.load.kilobytes:.0f} kB were sent"
    if await person.page.evaluate("scrollY"):
        yield "it does not begin at its beginning"
    await person.page.emulate_media(color_scheme="dark")
    for words in await person.axe("color-contrast"):
        yield f"in the dark: {words}"
    await person.page.set_viewport_size(NARROW)
    for words in await person.axe("color-contrast"):
        yield f"in the dark, on a phone: {words}"
    await person.page.emulate_media(color_scheme="light")
    async for words in obstacles_on_a_phone(person):
        yield f"on a phone: {words}"
    await person.page.set_viewport_size(WIDE)


async def obstacles_on_a_phone(person: Person) -> AsyncIterator[str]:
    for words in await person.axe():
        yield words
    if over := await person.page.evaluate(OVERFLOW):
        yield f"{over} px too wide"
    if (tall := await person.page.evaluate("document.documentElement.scrollHeight")) > TALLEST:
        yield f"{tall} px tall"


async def test_the_main_action_of_a_page_is_reached_with_the_tab_key(shortcomings):
    """And one sees where one is on the way."""
    assert shortcomings["tabbed"] == []


async def tab_to(person: Person, look: Look) -> list[str]:
    target = await person.page.locator(look.action).first.element_handle()
    await person.page.evaluate(FOLLOW, target)
    for _ in range(80 // AT_ONCE):
        for _ in range(AT_ONCE):
            await person.page.keyboard.press("Tab")
        for at in await person.page.evaluate("visited.splice(0)"):
            if not at["ring"]:
                return [f"no ring around {at['name']}"]
            if at["isThere"]:
                return []
    return [f"{look.action} was not reached"]


async def test_pages_can_be_read_and_used_without_scripts(demo, chromium):
    """The heading and the main action are there, and nothing that would do nothing."""
    found = []
    async with open_person(chromium, demo.page, java_script_enabled=False) as person:
        await person.come_back(demo.cookie())
        for look in pages(demo):
            await person.go(look.path)
            if await person.page.locator("h1").count() != 1 and look.name != "not-found":
                found.append(f"{look.path}: not one heading")
            if not await person.page.locator(look.action).first.is_visible():
                found.append(f"{look.path}: no {look.action}")
            idle = person.page.locator("button[type=button]:visible")
            found += [f"{look.path}: does nothing: {await one.inner_text()}" for one in await idle.all()]

    assert found == []
