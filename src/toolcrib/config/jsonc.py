"""JSON as people write it: comments and trailing commas allowed, every key with its line."""

import re
from typing import Any, NamedTuple, NoReturn

import msgspec

from toolcrib.config.written import KeyPath, Written
from toolcrib.core.errors import ConfigError

DEPTH_MAX = 64

TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\n]+|//[^\n]*)
    |(?P<comment>/\*.*?\*/)
    |(?P<mark>[{}\[\],:])
    |(?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<word>[^\s{}\[\],:"/]+)
    |(?P<stray>.)""",
    re.DOTALL | re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


_END = _Token("end", "the end of the file", 0)


def read_jsonc(text: str, where: str) -> Written:
    """The values of a JSON file, with the lines of its keys."""
    reader = _Reader(text, where)
    root = reader.document()
    return Written(where, root, reader.lines, tuple(reader.repeated))


def read_values(text: str, where: str) -> Any:
    """The values alone, for those who need no lines; plain JSON is read many times faster."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return read_jsonc(text, where).root


def is_blank(text: str) -> bool:
    """Whether there is nothing in a text but white space and comments."""
    return all(match.lastgroup in ("skip", "comment") for match in TOKEN.finditer(text))


def has_comments(text: str) -> bool:
    """Whether writing the values out again would lose something a person wrote."""
    return any(match.lastgroup == "comment" or match.group().startswith("//") for match in TOKEN.finditer(text))


class _Reader:
    """A recursive walk over the tokens; arrays are read, but keys inside them get no line."""

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        self._tokens = _tokens(text)
        self._at = 0
        self.lines: dict[KeyPath, int] = {}
        self.repeated: list[tuple[KeyPath, int]] = []

    def document(self) -> Any:
        root = self._value(())
        if (extra := self._next()) is not _END:
            self._fail(extra, "the end of the file")
        return root

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _value(self, path: KeyPath | None, depth: int = 0) -> Any:
        token = self._next()
        if depth > DEPTH_MAX:
            raise ConfigError(f"Nested deeper than {DEPTH_MAX} levels.", where=self._where, line=token.line)
        if token.text == "{":
            return self._object(path, depth)
        if token.text == "[":
            return self._array(depth)
        return self._scalar(token)

    def _object(self, path: KeyPath | None, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while self._peek().text != "}":
            key = self._key(path)
            members[key] = self._value(None if path is None else (*path, key), depth + 1)
            self._separator("}")
        self._at += 1
        return members

    def _key(self, path: KeyPath | None) -> str:
        token = self._next()
        if token.kind != "text":
            self._fail(token, 'a key in double quotes, or "}"')
        key = str(self._scalar(token))
        if (colon := self._next()).text != ":":
            self._fail(colon, f'":" after {token.text}')
        if path is not None:
            self._note((*path, key), token.line)
        return key

    def _note(self, path: KeyPath, line: int) -> None:
        if path in self.lines:
            self.repeated.append((path, line))
        else:
            self.lines[path] = line

    def _array(self, depth: int) -> list[Any]:
        items = []
        while self._peek().text != "]":
            items.append(self._value(None, depth + 1))
            self._separator("]")
        self._at += 1
        return items

    def _separator(self, closing: str) -> None:
        if self._peek().text == ",":
            self._at += 1
        elif self._peek().text != closing:
            self._fail(self._peek(), f'"," or "{closing}"')

    def _scalar(self, token: _Token) -> Any:
        if token.kind in {"text", "word"}:
            try:
                return msgspec.json.decode(token.text)
            except (msgspec.MsgspecError, UnicodeError):
                pass
        return self._fail(token, "a value")

    def _fail(self, token: _Token, expected: str) -> NoReturn:
        line = token.line or (self._tokens[-1].line if self._tokens else 1)
        shown = token.text if token is _END else "a string" if token.kind == "text" else repr(token.text[:12])
        raise ConfigError(f"This is not JSON: expected {expected}, found {shown}.", where=self._where, line=line)


def _tokens(text: str) -> list[_Token]:
    tokens, line = [], 1
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind not in {"skip", "comment"}:
            tokens.append(_Token(kind, match.group(), line))
        line += match.group().count("\n")
    return tokens
