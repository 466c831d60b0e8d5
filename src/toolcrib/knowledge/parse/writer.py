"""Putting a text together from the parts of a document, with headings and pages noted where they begin."""

from toolcrib.core.errors import UnreadableSource
from toolcrib.core.knowledge import Heading, Outline
from toolcrib.knowledge.parse.text import clean

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
