"""E-mail: who wrote what to whom, and the text. Meant for a worker."""

import email
import email.policy
from email.message import EmailMessage, MIMEPart

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge.parse.dates import to_utc
from toolcrib.knowledge.parse.parsed import Parsed
from toolcrib.knowledge.parse.text import clean, decode
from toolcrib.knowledge.parse.writer import TextWriter

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
        from toolcrib.knowledge.parse.html import parse_html

        return parse_html(_text(part).encode()).text
    return _text(part)


def _text(part: MIMEPart) -> str:
    """What it says it is encoded in may be wrong or unknown."""
    try:
        return clean(str(part.get_content()))
    except (LookupError, KeyError, ValueError):
        payload = part.get_payload(decode=True)
        return decode(payload) if isinstance(payload, bytes) else ""
