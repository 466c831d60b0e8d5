"""DOCX: a zip of XML, read with the standard library under tight limits. Meant for a worker."""

import io
import re
import zipfile
from typing import TypeVar
from xml.parsers import expat

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge.parse.parsed import Parsed, to_utc
from toolcrib.knowledge.parse.text import TextWriter

PART_MAX = 64_000_000
"""Bytes that one part of the archive may unpack to."""
_LEVEL = re.compile(r"(?:heading|titre|überschrift|título)\s*(\d)", re.IGNORECASE)
_SPACE = {"t": "", "tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def parse_docx(content: bytes) -> Parsed:
    """Paragraphs, headings and tables in order; title, author and date from its properties."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            body = _part(archive, "word/document.xml")
            styles = parse_xml(_part(archive, "word/styles.xml", default=b""), _Styles()).levels
            said = parse_xml(_part(archive, "docProps/core.xml", default=b""), _Properties()).said
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise UnreadableSource(f"it is broken: {error}") from None
    writer = parse_xml(body, _Body(styles))
    return Parsed(
        writer.text,
        "docx",
        title=said.get("title", "").strip(),
        date=to_utc(said.get("modified") or said.get("created") or ""),
        outline=writer.outline,
        metadata={"author": said["creator"]} if said.get("creator") else {},
    )


def _part(archive: zipfile.ZipFile, name: str, default: bytes | None = None) -> bytes:
    try:
        with archive.open(name) as part:
            found = part.read(PART_MAX + 1)
    except KeyError:
        if default is None:
            raise UnreadableSource("it is no Word document") from None
        return default
    if len(found) > PART_MAX:
        raise UnreadableSource(f"it unpacks to more than {PART_MAX // 1_000_000} MB")
    return found


class XmlReader:
    """What hears of elements and text."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins; its name comes without a namespace."""

    def end(self, tag: str) -> None:
        """An element ends."""

    def data(self, text: str) -> None:
        """Text inside."""


R = TypeVar("R", bound=XmlReader)


def parse_xml(content: bytes, reader: R) -> R:
    """Have ``reader`` hear of XML, or of nothing; whatever declares entities is refused: it only serves to blow up."""
    if not content:
        return reader
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = lambda tag, given: reader.start(_local(tag), {_local(k): v for k, v in given.items()})
    parser.EndElementHandler = lambda tag: reader.end(_local(tag))
    parser.CharacterDataHandler = reader.data
    parser.EntityDeclHandler = _refuse
    parser.StartDoctypeDeclHandler = _refuse
    parser.buffer_text = True
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise UnreadableSource(f"it is broken: {error}") from None
    return reader


def _refuse(*_: object) -> None:
    raise UnreadableSource("it declares entities, which no such document needs")


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


class _Body(TextWriter, XmlReader):
    """Turns Word's paragraphs into ours."""

    def __init__(self, styles: dict[str, int]) -> None:
        super().__init__()
        self._styles = styles
        self._inline: list[str] = []
        self._level = 0
        self._cells: list[list[str]] = []
        self._is_text = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _SPACE:
            self._is_text = tag == "t"
            self._inline.append(_SPACE[tag])
        elif tag == "pStyle":
            style = attributes.get("val", "")
            self._level = self._styles.get(style) or _level_of(style)
        elif tag == "outlineLvl" and attributes.get("val", "").isdecimal():
            level = int(attributes["val"]) + 1
            self._level = self._level or (level if level < 7 else 0)
        elif tag == "numPr":
            self._inline.append("- ")
        elif tag == "tr":
            self._cells.append([])

    def data(self, text: str) -> None:
        if self._is_text:
            self._inline.append(text)

    def end(self, tag: str) -> None:
        if tag == "t":
            self._is_text = False
        elif tag == "p":
            self._end_paragraph()
        elif tag == "tr" and self._cells:
            self.paragraph(" | ".join(cell for cell in self._cells.pop() if cell))

    def _end_paragraph(self) -> None:
        text, self._inline = "".join(self._inline), []
        level, self._level = self._level, 0
        if self._cells:
            self._cells[-1].append(" ".join(text.split()))
        elif level:
            self.heading(level, text)
        else:
            self.paragraph(text)


def _level_of(style: str) -> int:
    if style.lower() == "title":
        return 1
    match = _LEVEL.match(style)
    return min(int(match[1]), 6) if match and match[1] != "0" else 0


class _Styles(XmlReader):
    """Style id → heading level, for documents in whose language a heading is called something else."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self._id = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "style":
            self._id = attributes.get("styleId", "")
        elif tag == "name" and self._id and (level := _level_of(attributes.get("val", ""))):
            self.levels[self._id] = level


class _Properties(XmlReader):
    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self._tag = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        self._tag = tag

    def end(self, tag: str) -> None:  # noqa: ARG002
        self._tag = ""

    def data(self, text: str) -> None:
        if self._tag:
            self.said[self._tag] = (self.said.get(self._tag, "") + text)[:1000]
