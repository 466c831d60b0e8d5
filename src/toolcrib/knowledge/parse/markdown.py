"""Markdown: front matter, and the headings that give the text its structure."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.core.knowledge import Heading, Outline
from toolcrib.knowledge.parse.dates import to_utc
from toolcrib.knowledge.parse.parsed import Parsed
from toolcrib.knowledge.parse.text import decode

_YAML = re.compile(r"---[ \t]*\n(.*?\n)??(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\+\+\+[ \t]*\n(.*?\n)??\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_PAIR = re.compile(r"([A-Za-z_][\w .-]*?)\s*:(?:\s+(.*))?$")
_ITEM = re.compile(r"\s*-\s+(.+)$")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_FENCES, _UNDERLINES = frozenset("`~"), frozenset("=-")
_OURS = frozenset({"title", "date", "license", "licence", "version"})
FRONT_MATTER_MAX = 64 * 1024


def parse_markdown(content: bytes) -> Parsed:
    """The text after the front matter, with what that says."""
    whole = decode(content)
    said, text = front_matter(whole)
    headings = tuple(find_headings(text))
    top = next((heading.title for heading in headings if heading.level == 1), "")
    licence = said.get("license", said.get("licence"))
    return Parsed(
        text,
        "markdown",
        title=str(said.get("title") or top),
        date=to_utc(said.get("date")),
        licence=None if licence is None else str(licence),
        version=None if said.get("version") is None else str(said["version"]),
        outline=Outline(headings=headings),
        metadata={key: value for key, value in said.items() if key not in _OURS},
    )


def front_matter(text: str) -> tuple[Mapping[str, Any], str]:
    """What a document says of itself at its top, and the rest."""
    if match := _YAML.match(text, 0, FRONT_MATTER_MAX):
        said = _simple_yaml(match[1] or "")
        return (said, text[match.end() :]) if said or not (match[1] or "").strip() else ({}, text)
    if match := _TOML.match(text, 0, FRONT_MATTER_MAX):
        try:
            return tomllib.loads(match[1] or ""), text[match.end() :]
        except tomllib.TOMLDecodeError:
            return {}, text
    return {}, text


def _simple_yaml(block: str) -> dict[str, Any]:
    """The flat part of YAML that front matter is written in: scalars, and lists of them."""
    said: dict[str, Any] = {}
    key = ""
    for line in block.splitlines():
        if (match := _PAIR.match(line)) and not line[0].isspace():
            key = match[1].strip().lower()
            said[key] = _scalar(match[2] or "")
        elif (item := _ITEM.match(line)) and (said.get(key) == "" or isinstance(said.get(key), list)):
            said[key] = [*said[key], _scalar(item[1])]
    return said


def _scalar(written: str) -> Any:
    value = re.sub(r"\s+#.*$", "", written).strip()
    if value.startswith("[") and value.endswith("]"):
        return [_scalar(item) for item in value[1:-1].split(",") if item.strip()]
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    return int(value) if re.fullmatch(r"-?\d{1,15}", value) else value


def find_headings(text: str) -> Iterator[Heading]:
    """The headings outside code blocks, with where they begin."""
    fence, start, above, above_at = "", 0, "", 0
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\n")
        head = bare.lstrip(" ")[:1]
        mark = _FENCE.match(bare) if head in _FENCES else None
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not bare[mark.end() :].strip() else fence
            above = ""
        elif mark:
            fence, above = mark[1], ""
        elif head == "#" and (atx := _ATX.match(bare)):
            yield Heading(start, len(atx[1]), _plain(atx[2] or ""))
            above = ""
        elif above and head in _UNDERLINES and (under := _SETEXT.match(bare)):
            yield Heading(above_at, 1 if under[1][0] == "=" else 2, _plain(above))
            above = ""
        else:
            above, above_at = (bare if not bare.startswith(("    ", "\t", "- ", "* ", ">", "|")) else ""), start
        start += len(line)


def _plain(title: str) -> str:
    return _LINK.sub(r"\1", title).replace("`", "").replace("**", "").strip()
