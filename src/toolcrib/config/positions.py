"""Lines of TOML keys. ``tomllib`` keeps none, so the text it has accepted is walked once more, for keys only."""

import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

from toolcrib.config.written import KeyPath

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
