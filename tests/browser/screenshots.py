"""Take a picture of every page of a demonstration: ``python -m tests.browser.screenshots [FOLDER] [PAGE ...]``.

The documentation's pictures are made with them, or alone: ``--docs``.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from playwright.async_api import Browser, expect
from tests.browser.chromium import NARROW, WIDE, Person, open_chromium, open_person
from tests.browser.demo import Demo, open_demo
from tests.browser.places import Look, looks
from tests.docs import pictures

THEMES = ("light", "dark")
SIZES = {"1280": WIDE, "390": NARROW}


def wanted(demo: Demo, names: list[str]) -> Iterator[Look]:
    for found in looks(demo).values():
        yield from (look for look in found if not names or look.name in names)


async def take_all(chromium: Browser, demo: Demo, folder: Path, names: list[str]) -> int:
    """Every wanted page in both themes and sizes; the count of pictures."""
    todo = list(wanted(demo, names))
    for theme, size in product(THEMES, SIZES):
        await take(chromium, demo, todo, folder / f"{theme}-{size}")
    return len(todo) * len(THEMES) * len(SIZES)


async def take(chromium: Browser, demo: Demo, todo: list[Look], folder: Path) -> None:
    theme, _, size = folder.name.partition("-")
    folder.mkdir(parents=True, exist_ok=True)
    async with open_person(chromium, demo.page, color_scheme=theme, viewport=SIZES[size]) as person:
        await take_sign_in(person, folder, todo)
        await person.page.goto(demo.link())
        for look in todo:
            if look.name != "signin":
                await person.go(look.path)
                await take_one(person, folder / f"{look.name}.png")


async def take_sign_in(person: Person, folder: Path, todo: list[Look]) -> None:
    """The only page one sees before one is somebody."""
    if any(look.name == "signin" for look in todo):
        await person.go("/signin")
        await take_one(person, folder / "signin.png")


async def take_one(person: Person, path: Path) -> None:
    await expect(person.page.locator("main")).to_be_visible()
    size = person.page.viewport_size or WIDE
    height = await person.page.evaluate("document.documentElement.scrollHeight")
    await person.page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})
    await person.page.screenshot(path=path)  # whole, and with what stays at the bottom at its bottom
    await person.page.set_viewport_size(size)


async def work(home: Path, options: argparse.Namespace) -> int:
    """Take what is wanted; the exit code."""
    with open_demo(home) as demo:
        async with open_chromium() as chromium:
            if not options.docs:
                count = await take_all(chromium, demo, options.folder, options.pages)
                print(f"{count} pictures in {options.folder}")
                if not count:
                    return 1
            if options.pages:
                return 0
            changed = await pictures.take_pages(chromium, demo)
    changed += await asyncio.to_thread(pictures.take_terminals, home)
    print(f"In docs/pictures: {', '.join(changed) or 'nothing'} made anew.")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Take a picture of every page, in both themes and two sizes.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("screenshots"), help="where they go [screenshots]")
    parser.add_argument("pages", nargs="*", help="only these, by name")
    parser.add_argument("--docs", action="store_true", help="only the pictures of the documentation")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as home:
        return asyncio.run(work(Path(home), options))


if __name__ == "__main__":
    sys.exit(main())
