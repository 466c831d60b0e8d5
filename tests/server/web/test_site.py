"""The site: what it needs before it can answer does not hold up anybody else."""

import threading
from pathlib import Path

import jinja2
from tests.server.conftest import Doorman
from tests.server.web.test_sessions_page import Page, open_page

from toolcrib.server.web.render import templates


async def test_no_template_is_compiled_on_the_loop(tmp_path: Path, monkeypatch):
    """The first visitor waits for all of them, so that the calls of others do not wait for any."""
    threads, compile_ = [], jinja2.Environment.compile

    def compiling(*args, **named):
        threads.append(threading.current_thread())
        return compile_(*args, **named)

    monkeypatch.setattr(jinja2.Environment, "compile", compiling)
    templates.cache_clear()
    doorman = Doorman()
    async with open_page(tmp_path, doorman) as (browser, sign_ins, _):
        page = Page(browser, sign_ins)
        shown = [(await page.get(path)).status for path in ("/settings", "/tools", "/servers")]

    assert shown == [200, 200, 200]
    assert threads
    assert threading.main_thread() not in threads


async def test_sites_share_what_was_compiled_and_each_has_its_own_names(tmp_path: Path):
    """A second site compiles nothing, and shows its own paths."""
    async with open_page(tmp_path / "first_house", Doorman()) as (browser, sign_ins, _):
        first = (await Page(browser, sign_ins).get("/settings/about")).body.decode()
        known = templates().get_template("settings/about.html")
    async with open_page(tmp_path / "other_house", Doorman()) as (browser, sign_ins, _):
        second = (await Page(browser, sign_ins).get("/settings/about")).body.decode()

    assert templates().get_template("settings/about.html") is known
    assert [name in first for name in ("first_house", "other_house")] == [True, False]
    assert [name in second for name in ("first_house", "other_house")] == [False, True]
