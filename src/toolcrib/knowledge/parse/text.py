"""Plain text, whatever its encoding."""

import codecs
import re

from toolcrib.knowledge.parse.parsed import Parsed

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
