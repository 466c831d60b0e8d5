"""Which values of the configuration are secrets, so that nothing a server says may repeat them.

Secret is whatever a reference brings in, and every written value whose name or form says so; of addresses, headers and
JSON texts also the secret parts. Not looked for, because ordinary text would suffer: values under 8 characters, a few
words that are everybody's (``password``, ``localhost``), variables such as ``HOME``, and paths and addresses without
credentials under names that do not sound secret.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from toolcrib.config.masks import ORDINARY_VARIABLES, is_ordinary_name, looks_secret, named_arguments, shown_url
from toolcrib.config.model import ServerConfig
from toolcrib.config.references import referenced, resolve_leniently

SECRET_MIN = 8
EVERYBODYS_WORDS = frozenset(
    {
        "admin123", "anonymous", "changeme", "database", "development", "disabled", "localhost", "password",
        "postgres", "postgresql", "production", "required", "sandbox1", "username", "127.0.0.1",
    }
)  # fmt: skip

_PATH = re.compile(r"(?:~|\.{0,2}/|[A-Za-z]:\\)[^\n]*")
_PLACE_NAME = re.compile(r"(?:file|path|dir|directory|folder|root|home)s?$", re.IGNORECASE)
_SCHEME = re.compile(r"(?:bearer|basic|token|apikey|key)\s+(\S.*)", re.IGNORECASE)
_HEADER = re.compile(r"([A-Za-z][\w-]*):\s*(\S.*)", re.DOTALL)
_SEPARATORS = re.compile(r"[/\\]")


def secret_values(server: ServerConfig, env: Mapping[str, str]) -> frozenset[str]:
    """What no words of a server may repeat: the secrets of everything it is started or reached with."""
    places = [server.command or "", server.url or "", server.cwd or "", *server.read, *server.write]
    fields = [*server.env.items(), *server.headers.items(), *named_arguments(server.args)]
    return secrets_of([*fields, *(("", text) for text in places)], env)


def secrets_of(fields: Iterable[tuple[str, str]], env: Mapping[str, str]) -> frozenset[str]:
    """The secrets in some settings, each with its name and as it was written."""
    found = (secret for name, written in fields for secret in _in_field(name, written, env))
    lines = (line.strip() for secret in found for line in (secret, *secret.splitlines()))
    return frozenset(line for line in lines if len(line) >= SECRET_MIN and line.lower() not in EVERYBODYS_WORDS)


def _in_field(name: str, written: str, env: Mapping[str, str]) -> Iterator[str]:
    for variable, value in referenced(written, env):
        if not _is_harmless(name, variable, value):
            yield value
            yield from _parts(value)
    text = resolve_leniently(written, env)
    if looks_secret(name, text) and not _is_place(name, text):
        yield text
    yield from _parts(text)


def _is_harmless(name: str, variable: str, value: str) -> bool:
    if variable in ORDINARY_VARIABLES or (is_ordinary_name(variable) and not looks_secret(variable, value)):
        return True
    return (not looks_secret(f"{name} {variable}", value) and _is_plain(value)) or _is_place(variable, value)


def _is_place(name: str, text: str) -> bool:
    """Whether a name says that it is a file's or a directory's, and the text is one."""
    return bool(_PLACE_NAME.search(name)) and _is_plain(text)


def _is_plain(text: str) -> bool:
    """Whether a text is a path or an address, and no part of it looks secret."""
    if "://" in text:
        return shown_url(text) == text
    return bool(_PATH.fullmatch(text)) and not any(looks_secret("", part) for part in _SEPARATORS.split(text))


def _parts(text: str) -> Iterator[str]:
    """The secrets inside a text: behind ``Bearer``, in a header, an address, or the JSON of some settings."""
    if "://" in text:
        yield from _in_url(text)
    elif scheme := _SCHEME.fullmatch(text):
        yield scheme[1]
        yield from _in_basic(scheme[1])
    elif (header := _HEADER.fullmatch(text)) and looks_secret(header[1], header[2]):
        yield header[2]
        yield from _parts(header[2])
    elif text.startswith(("{", "[")):
        yield from _in_json(text)


def _in_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
    except ValueError:  # no address, whatever it is
        return
    secrets = [password or user or ""]
    secrets += [value for name, value in parse_qsl(parts.query) if looks_secret(name, value)]
    secrets += [part for part in parts.path.split("/") if looks_secret("", part)]
    for secret in secrets:
        yield secret
        yield unquote(secret)


def _in_basic(encoded: str) -> Iterator[str]:
    """User and password of ``Basic``; whatever else it is, it is none."""
    try:
        pair = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return
    user, colon, password = pair.partition(":")
    if colon and user.isprintable():
        yield pair
        yield password


def _in_json(text: str) -> Iterator[str]:
    try:
        waiting = [("", json.loads(text))]
    except (ValueError, RecursionError):
        return
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [(name, item) for item in value]
        elif isinstance(value, str):
            if looks_secret(name, value):
                yield value
            if not value.startswith(("{", "[")):
                yield from _parts(value)
