"""PDF: the text of each page. Meant for a worker: files can be hostile."""

import re
from typing import Any

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge.parse.dates import to_utc
from toolcrib.knowledge.parse.parsed import Parsed
from toolcrib.knowledge.parse.text import clean
from toolcrib.knowledge.parse.writer import TextWriter

PAGES_MAX = 10_000
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?")
_HYPHEN = re.compile(r"(?<=[a-z])(?:\ufffe|\xad|-)\n(?=[a-z])")


def parse_pdf(content: bytes) -> Parsed:
    """Every page's text; where pages begin is kept."""
    try:
        import pypdfium2
    except ImportError:
        raise UnreadableSource("PDF needs pypdfium2: install toolcrib[kb]") from None
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        raise UnreadableSource(_reason(str(error))) from None
    try:
        return _read(document)
    finally:
        document.close()


def _read(document: Any) -> Parsed:
    if len(document) > PAGES_MAX:
        raise UnreadableSource(f"it has {len(document)} pages, the limit is {PAGES_MAX}")
    writer = TextWriter()
    for number in range(len(document)):
        writer.page()
        writer.paragraph(_page_text(document, number))
    if not writer.text.strip():
        raise UnreadableSource("there is no text in it, perhaps only pictures")
    said = document.get_metadata_dict(skip_empty=True)
    date = _DATE.match(said.get("CreationDate", ""))
    return Parsed(
        writer.text,
        "pdf",
        title=clean(said.get("Title", "")).strip(),
        date=to_utc(f"{date[1]}-{date[2] or '01'}-{date[3] or '01'}") if date else "",
        outline=writer.outline,
        metadata={"pages": len(document), **({"author": clean(said["Author"])} if said.get("Author") else {})},
    )


def _page_text(document: Any, number: int) -> str:
    page = document[number]
    try:
        text_page = page.get_textpage()
        try:
            found = clean(str(text_page.get_text_bounded()))
        finally:
            text_page.close()
    finally:
        page.close()
    return _HYPHEN.sub("", found)


def _reason(said: str) -> str:
    if "password" in said.lower():
        return "it is locked with a password"
    return "it is broken, or no PDF"
