"""The documentation as a site: ``python -m tests.docs.site [FOLDER]``.

Its pages are ``docs/`` with the README in front and the other texts of the repository behind, as Markdown reads them
there; links between them are made anew for the site. What is wrong is told all at once, and nothing is built then.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SETTINGS = HERE / "zensical.toml"
OTHERS = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md"}
OTHERS |= {"deploy/README.md": "deploy.md"}
"""Pages that are not in ``docs/``, and what they are called on the site."""
MARKDOWN_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
STYLE_FROM_ELSEWHERE = re.compile(r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)")


class SiteError(Exception):
    """The site cannot be built, or is not as it should be; the message has one line for each trouble."""


def sources(root: Path = ROOT) -> dict[str, str]:
    """Every file of the site, by its path in the repository, with its path on the site."""
    found = sorted(path for path in (root / "docs").rglob("*") if path.is_file() and not path.name.startswith("."))
    inside = {path.relative_to(root).as_posix(): path.relative_to(root / "docs").as_posix() for path in found}
    return inside | OTHERS


def build(folder: Path, root: Path = ROOT) -> Path:
    """Build the site into a folder of its own; where its pages are."""
    _raise_if_any(misplaced(sources(root).values()))
    for made in ("pages", "html", "theme"):
        shutil.rmtree(folder / made, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SETTINGS, folder)
    shutil.copytree(HERE / "theme", folder / "theme")
    _stage(folder / "pages", root)
    tool = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(tool, cwd=folder, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        raise SiteError(said.partition("Traceback")[0].strip() or said)
    _raise_if_any(troubles(folder / "html"))
    return folder / "html"


def _raise_if_any(told: Iterator[str]) -> None:
    lines = list(told)
    if lines:
        raise SiteError("\n".join(lines))


def _stage(folder: Path, root: Path) -> None:
    known = sources(root)
    for source, target in known.items():
        place = folder / target
        place.parent.mkdir(parents=True, exist_ok=True)
        if target.endswith(".md"):
            place.write_text(relinked((root / source).read_text(), source, known))
        else:
            shutil.copy(root / source, place)


def relinked(text: str, source: str, known: Mapping[str, str]) -> str:
    """A page's text with links that lead on the site where they led in the repository; others stay as they are."""

    def lead(found: re.Match[str]) -> str:
        meant = os.path.normpath(PurePosixPath(source).parent / found[1])
        if urlsplit(found[1]).scheme or meant not in known:
            return found[1]
        return os.path.relpath(known[meant], PurePosixPath(known[source]).parent)

    return MARKDOWN_LINK.sub(lead, text)


def misplaced(files: Any) -> Iterator[str]:
    """What is wrong with the navigation: pages without a place, places without a page, two places of one."""
    pages = {path for path in files if path.endswith(".md")}
    listed = list(_leaves(tomllib.loads(SETTINGS.read_text())["project"]["nav"]))
    where = SETTINGS.relative_to(ROOT)
    for page in sorted(pages - set(listed)):
        yield f'docs/{page} is not in the navigation: add {{ "Its title" = "{page}" }} to `nav` of {where}.'
    for page in sorted(set(listed) - pages):
        yield f"{page} is in the navigation, and there is no such page: take it out of `nav` of {where}."
    for page in sorted({page for page in listed if listed.count(page) > 1}):
        yield f"{page} is in the navigation {listed.count(page)} times: one place is enough, in {where}."


def _leaves(nav: Any) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else _leaves(value)


@dataclass
class BuiltPage(HTMLParser):
    """What of a built page can go wrong: where it leads, what it loads, what can be led to."""

    path: Path
    leads: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    pictures: list[tuple[str, str]] = field(default_factory=list)
    """Where each is, and its words for those who cannot see it."""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        if tag == "link" and "href" in given:
            self.loads.append(given["href"])
        if given.get(LOADED.get(tag, "")):
            self.loads.append(given[LOADED[tag]])
        if tag == "img":
            self.pictures.append((given.get("src", ""), given.get("alt", "")))


def troubles(html: Path) -> Iterator[str]:
    """What is wrong with a built site: dead links and anchors, pictures without words, anything from elsewhere."""
    pages = {path: BuiltPage(path) for path in sorted(html.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(html)
        for url in page.loads:
            if urlsplit(url).scheme not in ("", "data") or urlsplit(url).netloc:
                yield f"{name} loads {url}: a page of ours asks no other machine for anything."
        yield from (f"{name}: {told}" for url in (*page.leads, *page.loads) if (told := _dead(html, page, url, pages)))
        yield from (f"{name}: the picture {url} has no words (alt)." for url, words in page.pictures if not words)
    for style in sorted(html.rglob("*.css")):
        for found in STYLE_FROM_ELSEWHERE.finditer(style.read_text()):
            yield f"{style.relative_to(html)} loads {found[1]}: a page of ours asks no other machine for anything."


def _dead(html: Path, page: BuiltPage, url: str, pages: Mapping[Path, BuiltPage]) -> str:
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return ""
    base, way = (html, parts.path[1:]) if parts.path.startswith("/") else (page.path.parent, parts.path)
    target = Path(os.path.normpath(base / unquote(way))) if parts.path else page.path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return f"{url} leads nowhere."
    known = pages.get(target)
    if parts.fragment and known is not None and unquote(parts.fragment) not in known.anchors:
        return f"{url} leads to a place that {target.name} does not have."
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the site of the documentation.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site", help="where it goes [site]")
    options = parser.parse_args()
    try:
        print(f"Open {build(options.folder.resolve()) / 'index.html'}")
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
