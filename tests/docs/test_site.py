"""The site of the documentation: whole, of one piece, and asking nobody for anything."""

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.async_api import expect
from tests.browser.chromium import open_chromium, open_person
from tests.docs import site
from tests.docs.site import SiteError, build, misplaced, relinked, troubles


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture
def address(built: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(built)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_site_is_built_without_a_dead_link_or_a_page_outside_its_navigation(built: Path):
    pages = {path.relative_to(built).as_posix() for path in built.rglob("*.html")}
    wanted = {target.removesuffix(".md") + ".html" for target in site.sources().values() if target.endswith(".md")}

    assert pages == wanted | {"404.html"}


def test_a_page_without_a_place_is_named_with_what_to_write():
    told = list(misplaced([*site.sources().values(), "new.md"]))

    assert told == [
        'docs/new.md is not in the navigation: add { "Its title" = "new.md" } to `nav` of tests/docs/zensical.toml.'
    ]


def test_a_place_without_a_page_is_named():
    told = list(misplaced(path for path in site.sources().values() if path != "errors.md"))

    assert told == [
        "errors.md is in the navigation, and there is no such page: take it out of `nav` of tests/docs/zensical.toml."
    ]


def test_a_dead_anchor_stops_the_build(tmp_path: Path):
    root = tmp_path / "project"
    for source in site.sources():
        path = root / source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((site.ROOT / source).read_bytes())
    (root / "docs" / "errors.md").write_text("# Errors\n\n[there](policies.md#nowhere)\n")

    with pytest.raises(SiteError, match="anchor does not exist"):
        build(tmp_path / "site", root)


def test_links_lead_where_they_led_in_the_repository():
    known = {"README.md": "index.md", "docs/rest.md": "rest.md", "docs/reference/rest.md": "reference/rest.md"}
    text = "[a](docs/rest.md) [b](docs/reference/rest.md#tools) [c](LICENSE) [d](https://docs.example/rest.md)"

    assert relinked(text, "README.md", known) == (
        "[a](rest.md) [b](reference/rest.md#tools) [c](LICENSE) [d](https://docs.example/rest.md)"
    )
    assert relinked("[up](../../README.md)", "docs/reference/rest.md", known) == "[up](../index.md)"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('<a href="gone.html">x</a>', "page.html: gone.html leads nowhere."),
        ('<a href="#gone">x</a>', "page.html: #gone leads to a place that page.html does not have."),
        ('<a href="/page.html#here" id="here">x</a>', None),
        ('<a href="https://docs.example/">x</a>', None),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "page.html loads https://cdn.example/x.js: a page of ours asks no other machine for anything.",
        ),
        (
            '<link rel="preconnect" href="//fonts.example">',
            "page.html loads //fonts.example: a page of ours asks no other machine for anything.",
        ),
        ('<img src="page.html">', "page.html: the picture page.html has no words (alt)."),
    ],
)
def test_what_is_wrong_with_a_built_page_is_told(tmp_path: Path, body: str, told: str | None):
    (tmp_path / "page.html").write_text(body)

    assert list(troubles(tmp_path)) == ([told] if told else [])


def test_a_style_that_loads_something_is_told(tmp_path: Path):
    (tmp_path / "main.css").write_text("@import url('https://fonts.example/a.css'); a { background: url(b.png) }")

    assert list(troubles(tmp_path)) == [
        "main.css loads https://fonts.example/a.css: a page of ours asks no other machine for anything."
    ]


async def test_a_reader_with_a_browser_asks_no_other_machine_and_finds_by_searching(address: str):
    async with open_chromium() as chromium, open_person(chromium, address) as person:
        for page in ("index", "getting-started", "reference/commands"):
            await person.go(f"/{page}.html")
            await expect(person.page.locator("h1")).to_be_visible()
            await person.page.wait_for_load_state("networkidle")  # a worker that is not there yet would be dropped
        await person.page.keyboard.press("/")
        await person.page.keyboard.type("quarantine")
        await expect(person.page.get_by_text("Who may do what").last).to_be_visible()

        assert person.troubles.told == []
