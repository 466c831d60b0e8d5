"""Which parser reads what; each is imported when it is first needed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import PurePath

from toolcrib.knowledge.parse.parsed import Parsed

TEXT_MAX = 16_000_000
FOREIGN_MAX = 64_000_000
"""The most bytes of a file, by how carefully it is read."""

PARSERS: Mapping[str, str] = {
    "code": "code:parse_code",
    "csv": "tables:parse_csv",
    "docx": "docx:parse_docx",
    "email": "mail:parse_email",
    "html": "html:parse_html",
    "json": "tables:parse_json",
    "markdown": "markdown:parse_markdown",
    "pdf": "pdf:parse_pdf",
    "text": "text:parse_text",
}

LIBRARIES: Mapping[str, str] = {"email": "selectolax.lexbor", "html": "selectolax.lexbor", "pdf": "pypdfium2"}
"""What parsers import when they begin, where it is installed."""


def warm_up(kind: str) -> None:
    """Import what reads such documents, as far as it is there."""
    import_module(f"toolcrib.knowledge.parse.{PARSERS[kind].partition(':')[0]}")
    with suppress(ImportError):
        import_module(LIBRARIES.get(kind, "json"))


def parse(kind: str, content: bytes) -> Parsed:
    """The document in these bytes; raises ``UnreadableSource``."""
    module, _, name = PARSERS[kind].partition(":")
    parser: Callable[[bytes], Parsed] = getattr(import_module(f"toolcrib.knowledge.parse.{module}"), name)
    return parser(content)


def size_max(name: str) -> int:
    """How large a file of that name may be."""
    return FOREIGN_MAX if PurePath(name.lower()).suffix in (".pdf", ".docx", ".html", ".htm", ".eml") else TEXT_MAX
