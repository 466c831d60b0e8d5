"""The pictures of the documentation: there, small, in words as well, and saying nothing of where they were made."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.docs.pictures import BYTES_MAX, FOLDER, PAGES, ROOT, TERMINALS, steady
from tests.docs.terminal import draw, record, typed
from tests.fleet import launcher

PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
SAYING = """\
import sys
print("\\x1b[31mfailed\\x1b[0m in /tmp/crib-1/project at 127.0.0.1:40123")
print("working 1 %", end="\\r")
print("working 2 %")
if len(sys.argv) > 1:
    print("waiting", flush=True)
    sys.stdin.read()
"""


def shown() -> list[tuple[Path, str, Path]]:
    """Each picture of the README and the docs: the page, its words, and the file."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        (page, words, (page.parent / url).resolve())
        for page in pages
        for words, url in PICTURE.findall(page.read_text())
    ]


def test_every_picture_that_is_shown_exists_and_is_told_in_words():
    for page, words, path in shown():
        assert path.exists(), f"{page.name} shows {path.name}: run ./dev screenshots --docs"
        assert len(words) > 30, f"{page.name} says too little of {path.name}"


def test_every_picture_is_one_that_is_made_and_shown():
    made = {*(f"{name}.webp" for name in PAGES), *(f"{name}.svg" for name in TERMINALS)}

    assert {path.name for path in FOLDER.iterdir()} == made
    assert {path.name for _, _, path in shown()} == made
    assert len({path.name for page, _, path in shown() if page.name == "README.md"}) == 2


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_a_picture_is_small(path: Path):
    assert path.stat().st_size <= BYTES_MAX


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.name)
def test_a_terminal_says_nothing_of_where_it_was_recorded_and_loads_nothing(path: Path):
    text = path.read_text()
    said = "\n".join(ElementTree.fromstring(text).itertext())

    assert set(re.findall(r"127\.0\.0\.1:(\d+)", said)) <= {"7337"}
    assert not re.search(r"/(?:tmp|root|home|work)/", said)
    assert not re.search(r"(?:href|src)=|url\(|@import|<script|<image", text)


def start(*words: str, **streams: Any) -> "subprocess.Popen[bytes]":
    return launcher.popen([sys.executable, "-c", SAYING, *words], env={"TERM": "xterm"}, **streams)


def test_a_screen_is_recorded_as_a_person_sees_it():
    lines = record(start, (), steady(Path("/tmp/crib-1")))

    assert [line.text for line in lines] == ["failed in ~/shop at 127.0.0.1:7337", "working 2 %"]
    assert [cell.fg for cell in lines[0].cells[5:7]] == ["red", "default"]


def test_what_goes_on_is_recorded_once_it_is_quiet_and_then_ended():
    lines = record(start, ("on",), {}, until="waiting")

    assert lines[-1].text == "waiting"


def test_a_terminal_is_drawn_with_its_colours_and_its_words():
    lines = [typed("toolcrib <ls>"), *record(start, (), {})]
    drawn = ElementTree.fromstring(draw(lines, "a title"))
    texts = {text.text: text.attrib for text in drawn.iter("{http://www.w3.org/2000/svg}text")}

    assert drawn[0].text == "a title"
    assert texts["toolcrib <ls>"]["font-weight"] == "700"
    assert texts["failed"]["fill"] == "#f07178"
