"""Readers: from what a file holds to what toolcrib uses. One reader per kind of value; no coercion but durations."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal

from toolcrib.core.kinds import Transport
from toolcrib.core.limits import Rate
from toolcrib.core.names import META_TOOLS, READING_TOOLS, is_tool_name
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.patterns import lazy_pattern

Reader = Callable[[Any], Any]

_DURATION = lazy_pattern(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
_RATE = lazy_pattern(r"(\d{1,9})\s*/\s*(\d+(?:\.\d+)?)?\s*(ms|s|m|h|d)")
RATE_MAX = 100_000
_SIZE = lazy_pattern(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB)?")
_BYTES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SMALLEST_LIMIT = 4000
_SIZE_MIN = 1_000_000
_IMPORT_PATH = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*)?")
_KEY_ADDRESS = lazy_pattern(r"https://\S+|http://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?(?:/\S*)?")
_PAGE_ADDRESS = lazy_pattern(r"https?://[\w.-]+(:\d{1,5})?/?", re.ASCII)
_REFERENCE = lazy_pattern(r"\$\{(?:env:)?[A-Za-z_]\w*\}")
_ADDRESS = lazy_pattern(r"(?:https?://|\$\{)\S+")


_KINDS: Mapping[type, str] = {
    bool: "true or false",
    str: "a string",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a table",
    type(None): "null",
}


class Mismatch(Exception):
    """A value is not what was expected, ``at`` a place inside it; becomes a ``ConfigError`` with its line."""

    def __init__(self, expected: str, given: object, at: tuple[str, ...] = ()) -> None:
        super().__init__(expected)
        self.expected, self.given, self.at = expected, given, at


def text(value: object) -> str:
    """Any string."""
    if not isinstance(value, str):
        raise Mismatch("a string", value)
    return value


def some_text(value: object) -> str:
    """A string with something in it."""
    if not isinstance(value, str) or not value.strip():
        raise Mismatch("a string that is not empty", value)
    return value


def table(value: object) -> Mapping[str, Any]:
    """A table, whatever its keys are."""
    if not isinstance(value, Mapping):
        raise Mismatch("a table", value)
    return value


def flag(value: object) -> bool:
    """True or false, not a word for it."""
    if not isinstance(value, bool):
        raise Mismatch("true or false", value)
    return value


def flag_or_auto(value: object) -> bool | Literal["auto"]:
    """True, false, or the word that leaves it to toolcrib."""
    if value == "auto":
        return "auto"
    if not isinstance(value, bool):
        raise Mismatch('true, false or "auto"', value)
    return value


def count(value: object) -> int:
    """A whole number from 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Mismatch("a whole number from 1", value)
    return value


def count_or_none(value: object) -> int:
    """A whole number from 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Mismatch("a whole number from 0", value)
    return value


def port(value: object) -> int:
    """A TCP port; zero lets the system choose."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 65535:
        raise Mismatch("a port number from 0 to 65535", value)
    return value


def duration_s(value: object) -> float:
    """Seconds from a number, or from a string such as ``"5m"``, ``"30s"``, ``"500ms"``."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        return float(match[1]) * _SECONDS[match[2]]
    raise Mismatch('seconds as a number, or a duration such as "5m", "30s" or "500ms"', value)


def timeout_s(value: object) -> float:
    """A duration that leaves time to do something."""
    seconds = duration_s(value)
    if seconds == 0:
        raise Mismatch("a duration longer than zero", value)
    return seconds


def rate(value: object) -> Rate:
    """So many calls in so long, from a string such as ``"10/s"``, ``"600/1m"``, ``"100/1h"``."""
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise Mismatch('a rate such as "10/s", "600/1m" or "100/1h"', value)
    found = Rate(int(match[1]), float(match[2] or 1) * _SECONDS[match[3]])
    if not 1 <= found.count <= RATE_MAX or found.window_s == 0:
        raise Mismatch(f"a rate of 1 to {RATE_MAX} calls in a time longer than zero", value)
    return found


def size(value: object) -> int:
    """Bytes from a whole number, or from a string such as ``"256KiB"`` or ``"1.5MB"``."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        return int(float(match[1]) * _BYTES.get(match[2], 1))
    raise Mismatch('bytes as a whole number, or a size such as "256KiB" or "10MB"', value)


def result_limit(value: object) -> int:
    """A size that leaves room for a preview; zero for no limit."""
    read = size(value)
    if 0 < read < _SMALLEST_LIMIT:
        raise Mismatch('0 for no limit, or a size from "4KB"', value)
    return read


def memory_size(value: object) -> int:
    """A size from 1 MB: less starts no program."""
    read = size(value)
    if read < _SIZE_MIN:
        raise Mismatch('a size of at least 1 MB such as "512MB" or "2GiB"', value)
    return read


def address(value: object) -> str:
    """An http or https address, or one that begins with a reference."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise Mismatch("an address that begins with http:// or https://", value)
    return value


def page_address(value: object) -> str:
    """Scheme and host of a page, without a path."""
    if not isinstance(value, str) or not _PAGE_ADDRESS.fullmatch(value):
        raise Mismatch("an address without a path, such as https://tools.example", value)
    return value.rstrip("/")


def reference(value: object) -> str:
    """A reference to the environment and nothing else, for what must not stand in a file."""
    if not isinstance(value, str) or not _REFERENCE.fullmatch(value):
        raise Mismatch('a reference to a variable such as "${OPENAI_API_KEY}"', value)
    return value


def engine_url(*schemes: str) -> Reader:
    """The address of a database, or a reference to a variable that holds it."""
    expected = f'an address such as "{schemes[0]}://…", or a reference such as "${{{schemes[0].upper()}_URL}}"'

    def read(value: object) -> str:
        if isinstance(value, str) and (
            _REFERENCE.fullmatch(value) or value.startswith(tuple(f"{s}://" for s in schemes))
        ):
            return value
        raise Mismatch(expected, value)

    return read


def key_source(value: object) -> str:
    """Where public keys come from: an address nobody can listen in on, or a file."""
    if not isinstance(value, str) or not value.strip() or ("://" in value and not _KEY_ADDRESS.fullmatch(value)):
        raise Mismatch("an https:// address (or http:// on this machine), or the path of a file", value)
    return value


def import_path(value: object) -> str:
    """``module`` or ``module:function``."""
    if not isinstance(value, str) or not _IMPORT_PATH.fullmatch(value):
        raise Mismatch('an import path such as "package.module" or "package.module:function"', value)
    return value


def tool_name(value: object) -> str:
    """A name under which clients can be shown a tool."""
    if not isinstance(value, str) or not is_tool_name(value) or value in (*META_TOOLS, *READING_TOOLS):
        raise Mismatch("a name of letters, digits, - and _ that toolcrib does not use itself", value)
    return value


def json_table(value: object) -> dict[str, Any]:
    """A table that could as well be JSON."""
    if not isinstance(value, Mapping):
        raise Mismatch("a table of parameters and their values", value)
    return {key: _inside(_json, item, key) for key, item in value.items()}


def _json(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _inside(_json, item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_inside(_json, item, str(index)) for index, item in enumerate(value)]
    if not isinstance(value, str | int | float):
        raise Mismatch("a value that JSON has, too; a date as a string", value)
    return value


def list_of(read: Reader, expected: str) -> Reader:
    """A reader for lists whose every item ``read`` accepts."""

    def read_list(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Mismatch(expected, value)
        return tuple(_inside(read, item, str(index)) for index, item in enumerate(value))

    return read_list


def texts(what: str) -> Reader:
    """A reader for lists of strings, none of them empty."""
    return list_of(some_text, f"a list of {what}")


strings = list_of(text, "a list of strings")
ports = list_of(port, "a list of ports")


def some_of(words: tuple[str, ...]) -> Reader:
    """A reader for lists of words out of a few."""
    return list_of(one_of(*words), "a list of " + ", ".join(words))


def one_of(*words: str) -> Reader:
    """A reader for one word out of a few."""

    def read_word(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise Mismatch("one of " + ", ".join(f'"{word}"' for word in words), value)
        return words[words.index(value)]  # the member, where the words are those of an enum

    return read_word


_TRANSPORTS = {
    "stdio": Transport.STDIO,
    "local": Transport.STDIO,
    "http": Transport.HTTP,
    "streamablehttp": Transport.HTTP,
    "streamable": Transport.HTTP,
    "remote": Transport.HTTP,
    "sse": Transport.SSE,
}
"""The words that programs have for the same, without what they put between their parts."""


def transport(value: object) -> Transport:
    """How a server is spoken to, in anybody's spelling."""
    known = _TRANSPORTS.get(re.sub("[-_]", "", value).lower()) if isinstance(value, str) else None
    if known is None:
        raise Mismatch("one of " + ", ".join(f'"{word}"' for word in Transport), value)
    return known


def map_of(read: Reader, expected: str) -> Reader:
    """A reader for tables whose every value ``read`` accepts."""

    def read_map(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Mismatch(expected, value)
        return {key: _inside(read, item, key) for key, item in value.items()}

    return read_map


text_map = map_of(text, "a table of strings")


level = one_of(*SecurityLevel)


def one_of_each(keys: tuple[str, ...], words: tuple[str, ...]) -> Reader:
    """A reader for a table with known keys, each one word out of a few."""

    def read_table(value: object) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise Mismatch("a table such as { " + f'{keys[-1]} = "{words[-1]}"' + " }", value)
        for key in value:
            if key not in keys:
                raise Mismatch("a table whose keys are of " + ", ".join(keys), key)
        return {keys[keys.index(key)]: _inside(one_of(*words), item, key) for key, item in value.items()}

    return read_table


def show(value: object) -> str:
    """What was given, for a message: the kind of thing, and the thing itself if it is short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the string "{value if len(value) <= 40 else value[:37] + "..."}"'
    if isinstance(value, int | float):
        return f"the number {value}"
    return kind(value)


def kind(value: object) -> str:
    """The kind of thing alone, for places where secrets stand."""
    return _KINDS.get(type(value), "a date or time")


def as_written(value: Any) -> Any:
    """A value that was read, as a file or JSON has it."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Rate | Transport):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        plain = type(value)()  # only what somebody said
        said = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: as_written(item) for name, item in said.items() if item != getattr(plain, name)}
    return dict(value) if isinstance(value, Mapping) else value


def _inside(read: Reader, item: object, key: str) -> Any:
    try:
        return read(item)
    except Mismatch as mismatch:
        raise Mismatch(mismatch.expected, mismatch.given, (key, *mismatch.at)) from None
