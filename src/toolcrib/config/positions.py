"""What a person wrote, with the line of every key, so that every complaint can point to it."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from toolcrib.config.model import Origin
from toolcrib.core.errors import ConfigError

KeyPath = tuple[str, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class PlacedValues:
    """The values of one file, and where in it they stand."""

    where: str
    root: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    repeated: tuple[tuple[KeyPath, int], ...] = ()
    """Keys that were written again, with the line of the repetition."""

    def line(self, path: KeyPath) -> int | None:
        """The line of a key, or of the closest key around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def origin(self, path: KeyPath) -> Origin:
        """The place of a key as a value."""
        return Origin(self.where, self.line(path))

    def error(self, path: KeyPath, message: str, hint: str = "") -> ConfigError:
        """A complaint about what stands at ``path``."""
        return ConfigError(message, where=self.where, line=self.line(path), hint=hint)

    def under(self, path: KeyPath) -> dict[KeyPath, int]:
        """The lines of all keys below ``path``, named from there."""
        size = len(path)
        return {key[size:]: line for key, line in self.lines.items() if key[:size] == path and len(key) > size}


def value_at(root: object, path: KeyPath) -> Any:
    """What stands at a path; ``None`` where nothing does."""
    for key in path:
        root = root.get(key) if isinstance(root, Mapping) else None
    return root


def dotted(path: KeyPath) -> str:
    """A path as TOML writes it: ``servers.time.tools."kb.search"``."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else f'"{part}"' for part in path)


_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<long>\"{3}(?:[^\\]|\\.)*?\"{3,5}|'{3}.*?'{3,5})
    |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
    |(?P<mark>[\[\]{}=,.])
    |(?P<bare>[^\s\[\]{}=,."'\#]+)""",
    re.DOTALL | re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def toml_lines(text: str) -> dict[KeyPath, int]:
    """The line where each key is first written; a table without its own header has the line of its first mention."""
    lines: dict[KeyPath, int] = {}
    for path, line in toml_places(text):
        for size in range(1, len(path) + 1):
            lines.setdefault(path[:size], line)
    return lines


def toml_places(text: str) -> list[tuple[KeyPath, int]]:
    """Every key and table header with its line, in the order of the text."""
    return [(path, line) for path, line, _ in _Scan(text).places()]


def toml_headers(text: str) -> list[tuple[KeyPath, int]]:
    """Every table header with its line, in the order of the text."""
    return [(path, line) for path, line, is_header in _Scan(text).places() if is_header]


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind != "skip":
            yield _Token(kind, match.group(), line)
        line += match.group().count("\n")


_Place = tuple[KeyPath, int, bool]


class _Scan:
    """One walk over the tokens of a TOML text."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def places(self) -> Iterator[_Place]:
        table: KeyPath = ()
        while (token := self._peek()) is not None:
            if token.kind == "newline":
                self._at += 1
            elif token.text == "[":
                table = self._header()
                yield table, token.line, True
            else:
                yield from self._pair(table)

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _is_at(self, *texts: str) -> bool:
        token = self._peek()
        return token is not None and token.kind in {"mark", "newline"} and token.text in texts

    def _header(self) -> KeyPath:
        while self._is_at("["):
            self._at += 1
        path = self._key()
        while self._is_at("]"):
            self._at += 1
        return path

    def _key(self) -> KeyPath:
        parts: list[str] = []
        while (token := self._peek()) is not None and (token.kind in {"bare", "quoted"} or token.text == "."):
            if token.text != ".":
                parts.append(_unquote(token))
            self._at += 1
        return tuple(parts)

    def _pair(self, table: KeyPath) -> Iterator[_Place]:
        first = self._tokens[self._at]
        path = table + self._key()
        yield path, first.line, False
        self._at += 1
        if self._is_at("{"):
            yield from self._inline_table(path)
        else:
            self._skip_value()

    def _inline_table(self, path: KeyPath) -> Iterator[_Place]:
        self._at += 1
        while self._peek() is not None and not self._is_at("}"):
            if self._is_at(",", "\n"):
                self._at += 1
            else:
                yield from self._pair(path)
        self._at += 1

    def _skip_value(self) -> None:
        depth = 0
        while self._peek() is not None and (depth or not self._is_at("\n", ",", "}")):
            depth += self._is_at("[", "{") - self._is_at("]", "}")
            self._at += 1


def _unquote(token: _Token) -> str:
    return token.text if token.kind == "bare" else str(tomllib.loads(f"key = {token.text}")["key"])
