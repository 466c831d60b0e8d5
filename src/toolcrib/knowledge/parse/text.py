"""Plain text, Markdown and source code, whatever their encoding."""

import codecs
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.core.errors import UnreadableSource
from toolcrib.core.knowledge import Heading, Outline
from toolcrib.knowledge.parse.parsed import Parsed, to_utc

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNWANTED = re.compile(r"[\0-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")

_ODD = bytes(byte for byte in (*range(32), 127) if byte not in b"\t\n\f")  # what UTF-8 may hold that is cleaned away


def decode(content: bytes) -> str:
    """The text of some bytes: by their mark, else UTF-8, else the old western encoding, which never fails."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return clean(content.decode(encoding, "replace"))
    try:
        text = content.decode()
        return clean(text) if len(content.translate(None, _ODD)) < len(content) else text
    except UnicodeDecodeError:
        return clean(_western(content))


def _western(content: bytes) -> str:
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def clean(text: str) -> str:
    """One kind of line end, and nothing that is no text."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNWANTED.sub("\N{REPLACEMENT CHARACTER}", text)


def parse_text(content: bytes) -> Parsed:
    """Text as it is; its title is left to its name."""
    return Parsed(decode(content), "text")


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


_DEFINITION = re.compile(
    r"""^(?P<indent>[ \t]*)
    (?:(?:export|default|public|private|protected|internal|static|abstract|final|async|pub(?:\([^)]*\))?|override
        |open|sealed|data|unsafe|extern|inline|virtual|partial|readonly|declare)\s+){0,6}
    (?:
        (?P<kind>def|class|function\*?|func|fn|interface|trait|struct|enum|impl|module|namespace|object|record|type
            |protocol|extension|macro_rules!|message|service)
        \s+(?:\([^)\n]{0,80}\)\s*)?(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::)[\w$]+)*)
      | (?:const|let|var)\s+(?P<arrow>[A-Za-z_$][\w$]*)\s*=\s*(?:async\s*)?(?:function\b|\([^)\n]{0,200}\)\s*=>)
      | (?:CREATE|create)\s+(?:OR\s+REPLACE\s+|or\s+replace\s+)?(?:TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|TRIGGER
            |table|view|index|function|procedure|trigger)\s+(?P<sql>[\w."]+)
    )""",
    re.VERBOSE | re.MULTILINE,
)
_PREAMBLE = re.compile(r"[ \t]*(?:@|#\[|//|#|\*|/\*|--)")
LINE_MAX = 2000


def parse_code(content: bytes) -> Parsed:
    """Code as it is, with its definitions as headings."""
    text = decode(content)
    return Parsed(text, "code", outline=Outline(headings=tuple(_definitions(text))))


def _definitions(text: str) -> Iterator[Heading]:
    if any(len(line) > LINE_MAX for line in text.splitlines()):  # minified, or data: it has no structure to follow
        return
    last = 0
    for match in _DEFINITION.finditer(text):
        name = match["name"] or match["arrow"] or match["sql"]
        depth = len(match["indent"].expandtabs(4)) // 2
        title = f"{match['kind']} {name}" if match["kind"] else name
        start = _with_preamble(text, match.start(), last)
        yield Heading(start, 1 + depth, title)
        last = match.end()


def _with_preamble(text: str, start: int, last: int) -> int:
    """Decorators and comments right above a definition belong to it."""
    while start > last:
        above = text.rfind("\n", last, start - 1) + 1
        if above <= last or not _PREAMBLE.match(text, above, start):
            return start
        start = above
    return start


CHARACTERS_MAX = 20_000_000
"""No document has more text than this; what a file unpacks to may be endless."""


class TextWriter:
    """Collects paragraphs; between two of them there is an empty line."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[Heading] = []
        self._pages: list[int] = []

    def paragraph(self, text: str) -> None:
        """Add one, unless it is empty."""
        if text.strip():
            self._begin()
            self._add(clean(text).strip("\n").rstrip())

    def heading(self, level: int, title: str) -> None:
        """Add a title that what follows belongs to."""
        plain = " ".join(clean(title).split())
        if plain:
            self._begin()
            self._headings.append(Heading(self._length, level, plain))
            self._add(plain)

    def page(self) -> None:
        """What follows is on the next page."""
        if self._parts:
            self._add("\n\n")
        self._pages.append(self._length)

    def _begin(self) -> None:
        if self._parts and self._parts[-1] != "\n\n":
            self._add("\n\n")

    def _add(self, text: str) -> None:
        self._length += len(text)
        if self._length > CHARACTERS_MAX:
            raise UnreadableSource(f"it holds more than {CHARACTERS_MAX // 1_000_000} million characters")
        self._parts.append(text)

    @property
    def text(self) -> str:
        """Everything so far."""
        return "".join(self._parts)

    @property
    def outline(self) -> Outline:
        """Where pages and headings begin."""
        return Outline(tuple(self._pages), tuple(self._headings))
