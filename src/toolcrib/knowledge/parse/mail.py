"""E-mail and PDF: their text. Meant for a worker: files can be hostile."""

import email
import email.policy
import re
from email.message import EmailMessage, MIMEPart
from typing import Any

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge.parse.html import parse_html
from toolcrib.knowledge.parse.parsed import Parsed, to_utc
from toolcrib.knowledge.parse.text import TextWriter, clean, decode

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
HEADER_MAX = 2000


def parse_email(content: bytes) -> Parsed:
    """The headers that matter, the text (HTML only if there is no other), and the names of what is attached."""
    message = email.message_from_bytes(content, policy=email.policy.default)
    said = {name: _header(message, name) for name in _SHOWN}
    if not any(said.values()):
        raise UnreadableSource("it is no e-mail")
    writer = TextWriter()
    writer.paragraph("\n".join(f"{name}: {value}" for name, value in said.items() if value))
    writer.paragraph(_body(message))
    attached = [clean(name)[:200] for part in message.iter_attachments() if (name := part.get_filename())]
    if attached:
        writer.paragraph("Attached: " + ", ".join(attached))
    metadata = {"from": said["From"], "to": said["To"], "attachments": attached}
    return Parsed(
        writer.text,
        "email",
        title=said["Subject"],
        date=to_utc(said["Date"]),
        outline=writer.outline,
        metadata={key: value for key, value in metadata.items() if value},
    )


def _header(message: EmailMessage, name: str) -> str:
    return " ".join(clean(str(message.get(name, ""))).split())[:HEADER_MAX]


def _body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    if part.get_content_type() == "text/html":
        return parse_html(_text(part).encode()).text
    return _text(part)


def _text(part: MIMEPart) -> str:
    """What it says it is encoded in may be wrong or unknown."""
    try:
        return clean(str(part.get_content()))
    except (LookupError, KeyError, ValueError):
        payload = part.get_payload(decode=True)
        return decode(payload) if isinstance(payload, bytes) else ""


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
