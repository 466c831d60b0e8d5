"""Install links: ``cursor://…/mcp/install?name=…&config=BASE64``."""

import base64
import binascii
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.jsonc import read_jsonc
from toolcrib.core.errors import ConfigError

LINK_MAX = 100_000
_SCHEMES = ("cursor://", "https://cursor.com/")


def is_link(word: str) -> bool:
    """Whether a word is an install link rather than a file."""
    return word.startswith(_SCHEMES)


def read_link(link: str, dialect: Dialect) -> Iterator[ForeignServer]:
    """The one server of a link."""
    asked = parse_qs(urlsplit(link[:LINK_MAX]).query)
    name, config = asked.get("name", [""])[0], asked.get("config", [""])[0]
    if not name or not config:
        raise ConfigError("This link names no server to install.", hint="It must have name=… and config=….")
    try:
        text = base64.b64decode(config.replace(" ", "+").replace("-", "+").replace("_", "/") + "==").decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ConfigError("The config of this link is not Base64.", hint="Copy the whole link.") from None
    entry = read_jsonc(text, "link").root
    if isinstance(entry, dict) and len(entry) == 1 and isinstance(entry.get(name), dict):
        entry = entry[name]
    yield translate(name, entry, dialect)
