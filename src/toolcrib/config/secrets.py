"""Which values of the configuration are secrets, how they are shown, and what can stand in their place."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never
from urllib.parse import parse_qsl, unquote, urlsplit

from toolcrib.config.keys import Secrecy
from toolcrib.config.model import ServerConfig
from toolcrib.config.references import referenced, resolve_leniently
from toolcrib.core.patterns import lazy_pattern

MASK = "***"

ORDINARY_VARIABLES = frozenset(
    {
        "DISPLAY",
        "EDITOR",
        "HOME",
        "HOSTNAME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "NODE_ENV",
        "PATH",
        "PWD",
        "PYTHONPATH",
        "PYTHONUNBUFFERED",
        "SHELL",
        "TEMP",
        "TERM",
        "TMP",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
    }
)

_ORDINARY_NAMES = lazy_pattern(
    r"accept(-.*)?|content-type|user-agent|.*(log|debug|level|mode|region|lang|locale|host|port|timeout|encoding|color)",
    re.IGNORECASE,
)
_SECRET_NAME = lazy_pattern(
    r"key|token|secret|passw|passphrase|pwd|credential|auth|cookie|session|signature|private|dsn|webhook"
    r"|connection_?string|database_?url",
    re.IGNORECASE,
)
_SECRET_VALUE = lazy_pattern(
    r"(?:sk|pk|rk)[-_][\w-]{8,}|gh[pousr]_\w{8,}|github_pat_\w+|glpat-[\w-]+|xox[a-z]-[\w-]+|AKIA[0-9A-Z]{12,}"
    r"|AIza[\w-]{20,}|ya29\.[\w-]+|eyJ[\w-]+\.[\w-]+.*|hf_\w{10,}|npm_\w{20,}|-----BEGIN.*"
    r"|[0-9a-fA-F]{32,}|(?=[^\W_]*[a-z])(?=[^\W_]*[A-Z])(?=[^\W_]*\d)[A-Za-z0-9_-]{24,}",
    re.DOTALL,
)
_HARMLESS_VALUE = lazy_pattern(r"|true|false|yes|no|on|off|none|\d{1,5}", re.IGNORECASE)
_REFERENCE = lazy_pattern(r"(\$\{(?:env:)?\w+)(:-[^}]+)?\}")
_AUTH_SCHEME = lazy_pattern(r"(?:bearer|basic|token)?\s*", re.IGNORECASE)
_USERINFO = lazy_pattern(r"(?<=://)[^/@\s]+@")
_QUERY = lazy_pattern(r"([?&])([^=&#]+)=([^&#]*)")
_SEGMENT = lazy_pattern(r"(?<=/)[^/?#]+")
_HEADER_NAME = lazy_pattern(r"([A-Za-z][\w-]*:\s*)(\S.*)", re.DOTALL)
_ASSIGNED = lazy_pattern(r"(-{0,2}[\w-]+)=(.+)", re.DOTALL)


def looks_secret(name: str, value: str) -> bool:
    """Whether a name sounds like a secret's, or a value is built like one."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.fullmatch(value))


def is_ordinary_name(name: str) -> bool:
    """Whether a name is one of those whose values are no secrets: ``LOG_LEVEL``, ``REGION``, ``DB_HOST``."""
    return bool(_ORDINARY_NAMES.fullmatch(name))


def masked(mask: Secrecy, value: Any) -> Any:
    """A value of the configuration for the eye."""
    match mask:
        case Secrecy.NONE:
            return value
        case Secrecy.ADDRESS:
            return shown_url(value)
        case Secrecy.ARGS:
            return shown_args(value)
        case Secrecy.ENTRIES:
            return {name: shown_entry(name, text) for name, text in value.items()}
        case Secrecy.KEY:
            return shown_entry("key", value) if value else value
        case _:
            assert_never(mask)


def shown_entry(name: str, value: str) -> str:
    """A value of ``env`` or ``headers`` for the eye: references as they are, the rest masked unless it is harmless."""
    if _AUTH_SCHEME.fullmatch(_REFERENCE.sub("", value)) and value:
        return _mask_defaults(value)
    harmless = _HARMLESS_VALUE.fullmatch(value) or name in ORDINARY_VARIABLES or _ORDINARY_NAMES.fullmatch(name)
    return value if harmless and not looks_secret(name, value) else MASK


def shown_url(url: str) -> str:
    """An address without passwords, secret parameters and secret path segments."""
    url = _USERINFO.sub(f"{MASK}@", url)
    url = _QUERY.sub(lambda match: f"{match[1]}{match[2]}={_unless_plain(match[2], match[3])}", url)
    return _SEGMENT.sub(lambda match: _unless_plain("", match.group()), url)


def shown_args(args: tuple[str, ...]) -> list[str]:
    """Arguments without the values of ``--api-key …``, ``--token=…`` and ``-e TOKEN=…``."""
    return [_shown_arg(before, arg) for before, arg in zip(("", *args), args, strict=False)]


def named_arguments(args: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each argument's value with what it is the value of: the name in ``--token=…`` or the flag before it, if any."""
    pairs = zip(("", *args), args, strict=False)
    return [_assigned(arg) or (_named(before, arg), arg) for before, arg in pairs]


def written_secrets(fields: Mapping[str, Any]) -> Iterator[str]:
    """What looks secret and is written out in the fields of a server; a reference is none."""
    args, url = tuple(fields.get("args") or ()), fields.get("url") or ""
    yield from (arg for arg, shown in zip(args, shown_args(args), strict=True) if arg != shown)
    if shown_url(url) != url:
        yield url
    for key in ("env", "headers"):
        pairs = (fields.get(key) or {}).items()
        yield from (value for name, value in pairs if "${" not in value and looks_secret(name, value))


def shown_values(value: Any, name: str = "") -> Any:
    """Arguments of a call for the log: strings that look secret, by their name or their form, are masked."""
    if isinstance(value, str):
        return MASK if looks_secret(name, value) else value
    if isinstance(value, Mapping):
        return {key: shown_values(item, str(key)) for key, item in value.items()}
    return [shown_values(item, name) for item in value] if isinstance(value, list) else value


def _shown_arg(before: str, arg: str) -> str:
    if "://" in arg:
        return shown_url(arg)
    if pair := _assigned(arg):
        return f"{pair[0]}={_unless_plain(*pair)}"
    if match := _HEADER_NAME.fullmatch(arg):
        return f"{match[1]}{_masked_credential(match[2])}" if looks_secret(match[1], match[2]) else arg
    return _unless_plain(_named(before, arg), arg)


def _assigned(arg: str) -> tuple[str, str] | None:
    match = _ASSIGNED.fullmatch(arg)
    return None if match is None else (match[1], match[2])


def _named(before: str, arg: str) -> str:
    return before if before.startswith("-") and "=" not in before and not arg.startswith("-") else ""


def _masked_credential(value: str) -> str:
    return _mask_defaults(value) if _AUTH_SCHEME.fullmatch(_REFERENCE.sub("", value)) else MASK


def _unless_plain(name: str, value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return _mask_defaults(value)
    return MASK if looks_secret(name, value) else value


def _mask_defaults(value: str) -> str:
    return _REFERENCE.sub(lambda match: f"{match[1]}{f':-{MASK}' if match[2] else ''}}}", value)


SECRET_MIN = 8
EVERYBODYS_WORDS = frozenset(
    {
        "admin123", "anonymous", "changeme", "database", "development", "disabled", "localhost", "password",
        "postgres", "postgresql", "production", "required", "sandbox1", "username", "127.0.0.1",
    }
)  # fmt: skip

_PATH = lazy_pattern(r"(?:~|\.{0,2}/|[A-Za-z]:\\)[^\n]*")
_PLACE_NAME = lazy_pattern(r"(?:file|path|dir|directory|folder|root|home)s?$", re.IGNORECASE)
_SCHEME = lazy_pattern(r"(?:bearer|basic|token|apikey|key)\s+(\S.*)", re.IGNORECASE)
_HEADER = lazy_pattern(r"([A-Za-z][\w-]*):\s*(\S.*)", re.DOTALL)
_SEPARATORS = lazy_pattern(r"[/\\]")


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


NameFor = Callable[[str, str], str]
"""From what a secret would be called, and its value, to the variable that stands in its place."""

_GENERIC = frozenset(
    {
        "ACCESS", "API", "APIKEY", "AUTH", "AUTHORIZATION", "BEARER", "CLIENT", "CONNECTION", "COOKIE", "CREDENTIAL",
        "CREDENTIALS", "DATABASE", "DSN", "ID", "KEY", "PASS", "PASSPHRASE", "PASSWD", "PASSWORD", "PAT", "PRIVATE",
        "PWD", "SECRET", "SESSION", "SIGNATURE", "STRING", "TOKEN", "URI", "URL", "USER", "WEBHOOK",
    }
)  # fmt: skip
_NO_WORD = lazy_pattern(r"[^A-Za-z0-9]+")
_LED_IN = lazy_pattern(r"(?:bearer|basic|token|apikey|key)\s+", re.IGNORECASE)


def with_references(server: ServerConfig, name_for: NameFor) -> ServerConfig:
    """The server with a reference in the place of each secret that is written out in its settings."""
    writing = _Referring(server.name, name_for)
    return replace(
        server,
        args=tuple(writing.argument(before, arg) for before, arg in zip(("", *server.args), server.args, strict=False)),
        env={name: writing.value(name, value) for name, value in server.env.items()},
        url=server.url and writing.address(server.url),
        headers={name: writing.value(name, value) for name, value in server.headers.items()},
    )


class _Referring:
    def __init__(self, server: str, name_for: NameFor) -> None:
        self._server, self._name_for = server, name_for

    def value(self, name: str, value: str) -> str:
        """A value of ``env`` or ``headers``: all of it if any part is secret, for parts are a server's own affair."""
        if "${" in value or not _is_written_secret(name, value):
            return value
        return self._credential("TOKEN" if name.lower() == "authorization" else name, value)

    def argument(self, before: str, arg: str) -> str:
        if "${" in arg:
            return arg
        if "://" in arg:
            return self.address(arg)
        if pair := _assigned(arg):
            return f"{pair[0]}={self.value(*pair)}"
        if match := _HEADER_NAME.fullmatch(arg):
            return f"{match[1]}{self.value(match[1].rstrip(': '), match[2])}"
        return self.value(_named(before, arg), arg)

    def address(self, url: str) -> str:
        """An address with its secret parts replaced, so that the rest of it can be read."""
        url = _USERINFO.sub(lambda match: f"{self._part('PASSWORD', match.group()[:-1])}@", url)
        url = _QUERY.sub(lambda match: f"{match[1]}{match[2]}={self._part(match[2], match[3])}", url)
        return _SEGMENT.sub(lambda match: self._part("", match.group()), url)

    def _part(self, name: str, text: str) -> str:
        is_secret = name == "PASSWORD" or (looks_secret(name, text) and not _HARMLESS_VALUE.fullmatch(text))
        return self._reference(name, text) if is_secret and "${" not in text else text

    def _credential(self, name: str, value: str) -> str:
        led_in = _LED_IN.match(value)
        start = led_in.end() if led_in else 0
        return f"{value[:start]}{self._reference(name, value[start:])}" if value[start:] else value

    def _reference(self, name: str, value: str) -> str:
        return f"${{{self._name_for(self._called(name), value)}}}"

    def _called(self, name: str) -> str:
        """``GITHUB_TOKEN`` as it is; ``API_KEY`` could be anybody's, so it gets the server's name."""
        words = [word.upper() for word in _NO_WORD.split(name) if word]
        words = words[1:] if words[:1] == ["X"] else words
        called, server = "_".join(words or ["SECRET"]), self._server.upper()
        if called.startswith(server) or (called.isidentifier() and not _GENERIC.issuperset(words)):
            return called
        return f"{server}_{called}"


def _is_written_secret(name: str, value: str) -> bool:
    if _HARMLESS_VALUE.fullmatch(value) or name in ORDINARY_VARIABLES:
        return False
    if is_ordinary_name(name) and not looks_secret("", value):
        return False
    is_secret = looks_secret(name, value) and not _is_place(name, value)
    return is_secret or any(part for part in _parts(value) if len(part) >= SECRET_MIN)
