"""The pictures of the documentation, in ``docs/pictures``: pages of the demonstration, and terminals.

They are made anew by ``./dev screenshots``; one that shows nothing new is left as it is, byte for byte.
"""

import base64
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from playwright.async_api import Browser, Page
from tests.browser.chromium import Person, open_person
from tests.browser.demo import Demo, furnish
from tests.browser.places import looks
from tests.cli.program import Program
from tests.docs.terminal import Line, draw, record, typed

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures"
PAGES = ("overview", "tool", "approvals", "server-broken", "costs")
"""Pages of the demonstration, by their names in ``tests/browser/places.py``."""
SIZE = {"width": 1280, "height": 800}
BYTES_MAX = 100_000
SAME = 0.02
"""The share of a picture that may differ without it showing anything new: times, counts of seconds, what is random."""
TERMINALS: dict[str, tuple[Sequence[str], ...]] = {
    "up": (("up", "--port", "0"),),
    "call": (
        ("ls", "--server", "github"),
        ("call", "github__search_issues", "repo=acme/shop", "query=login"),
    ),
    "why": (("why", "database__find_orders"), ("why", "github__delete_branch")),
}
SETTLED = {"up": "Serving MCP at"}
ENDS_BEFORE = {"up": "Connect a client"}
STEADY = """\
pairs => {
  for (const moment of document.querySelectorAll("time[data-zone=full], time[data-zone=time]")) {
    moment.dateTime = "2026-01-15T09:41:00Z"
    moment.textContent += " "  // the page itself then says it in its words
  }
  const put = text => pairs.reduce((now, [from, to]) => now.replace(new RegExp(from, "g"), to), text)
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const now = put(texts.currentNode.data)
    if (now !== texts.currentNode.data) texts.currentNode.data = now
  }
  for (const field of document.querySelectorAll("input[value]")) field.value = put(field.value)
}"""
ENCODE = """\
async ([taken, kept, quality]) => {
  const load = async text => createImageBitmap(await (await fetch("data:image/png;base64," + text)).blob())
  const pixels = picture => {
    const canvas = new OffscreenCanvas(picture.width, picture.height)
    const pen = canvas.getContext("2d")
    pen.drawImage(picture, 0, 0)
    return [canvas, pen.getImageData(0, 0, picture.width, picture.height).data]
  }
  const [canvas, now] = pixels(await load(taken))
  let differing = 1
  if (kept) {
    const [other, before] = pixels(await load(kept))
    if (other.width === canvas.width && other.height === canvas.height) {
      let count = 0
      for (let at = 0; at < now.length; at += 4)
        if (Math.abs(now[at] - before[at]) + Math.abs(now[at + 1] - before[at + 1])
            + Math.abs(now[at + 2] - before[at + 2]) > 96) count++
      differing = count * 4 / now.length
    }
  }
  const blob = await canvas.convertToBlob({type: "image/webp", quality})
  const bytes = new Uint8Array(await blob.arrayBuffer())
  let text = ""
  for (const byte of bytes) text += String.fromCharCode(byte)
  return [differing, btoa(text)]
}"""


def steady(home: Path) -> dict[str, str]:
    """What differs from run to run, each with what is shown in its place."""
    return {
        re.escape(str(home / "project")): "~/shop",
        re.escape(str(home)): "~",
        re.escape(sys.executable): "python",
        re.escape(str(ROOT)): "~/toolcrib",
        r"[0-9a-f]{32}\.localhost:\d+": "toolcrib.localhost:7337",
        r"127\.0\.0\.1:\d{4,5}": "127.0.0.1:7337",
        r"signin\?link=[\w-]+": "signin?link=…",
        r"token:[0-9a-f]{12}": "token:5f0c2a9d41e7",
        r"\b\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d": r"2026-01-15\g<1>09:41:00",
        r"\b\d\d:\d\d:\d\d\b": "09:41:00",
    }


def in_script(pattern: str) -> str:
    """A replacement as JavaScript writes it."""
    return re.sub(r"\\(?:g<)?(\d)>?", r"$\1", pattern)


async def take_pages(chromium: Browser, demo: Demo) -> list[str]:
    """The pictures of pages that show something new, by name."""
    addresses = {look.name: look.path for found in looks(demo).values() for look in found}
    changed = []
    async with open_person(chromium, demo.page, color_scheme="light", viewport=SIZE) as person:
        workshop = await person.context.new_page()
        await person.page.goto(demo.link())
        for name in PAGES:
            await person.go(addresses[name])
            if await take_page(person, workshop, steady(demo.program.home), FOLDER / f"{name}.webp"):
                changed.append(name)
    return changed


async def take_page(person: Person, workshop: Page, replaced: dict[str, str], path: Path) -> bool:
    """Take a picture of the page; whether it shows something new."""
    await person.page.locator("main").wait_for()
    await person.page.wait_for_load_state("load")
    await person.page.evaluate(STEADY, [[pattern, in_script(to)] for pattern, to in replaced.items()])
    taken = base64.b64encode(await person.page.screenshot()).decode()
    kept = base64.b64encode(path.read_bytes()).decode() if path.exists() else ""
    for quality in (0.9, 0.8, 0.7, 0.6, 0.5):
        differing, made = await workshop.evaluate(ENCODE, [taken, kept, quality])
        picture = base64.b64decode(made)
        if differing <= SAME:
            return False
        if len(picture) <= BYTES_MAX:
            path.write_bytes(picture)
            return True
    raise ValueError(f"{path.name} does not fit into {BYTES_MAX} bytes.")


def take_terminals(home: Path) -> list[str]:
    """The pictures of terminals that show something new, by name."""
    program = Program(home / "terminal")
    program.home.mkdir()
    furnish(program)
    program.env |= {"TERM": "xterm-256color", "TOOLCRIB_LOG_LEVEL": "error"}
    return [name for name in TERMINALS if take_terminal(program, name)]


def take_terminal(program: Program, name: str) -> bool:
    lines = list(_session(program, name))
    while not lines[-1].text:
        lines.pop()
    told = "\n".join(line.text for line in lines)
    if program.home.parent.name in told:
        raise ValueError(f"{name}.svg would show where it was made:\n{told}")
    drawn, path = draw(lines, told), FOLDER / f"{name}.svg"
    if path.exists() and path.read_text() == drawn:
        return False
    path.write_text(drawn)
    return True


def _session(program: Program, name: str) -> Iterator[Line]:
    for at, words in enumerate(TERMINALS[name]):
        if at:
            yield Line(())
        shown = [word for word in words if word not in ("--port", "0")]
        yield typed(f"toolcrib {' '.join(shown)}")
        for line in record(program.start, words, steady(program.home), SETTLED.get(name, "")):
            if name in ENDS_BEFORE and ENDS_BEFORE[name] in line.text:
                return
            yield line
