"""JSON as people write it: read with the line of every key, and edited without touching anything else."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec

from toolcrib.config.positions import KeyPath, PlacedValues, dotted
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


def read_jsonc(text: str, where: str) -> PlacedValues:
    """The values of a JSON file, with the lines of its keys."""
    reader = _Reader(text, where)
    root = reader.document()
    return PlacedValues(where, root, reader.lines, tuple(reader.repeated))


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


BOM = "\ufeff"
_INDENT = re.compile(r"\n([ \t]+)\S")


class _Member(NamedTuple):
    key: str
    start: int
    end: int
    comma: int | None
    table: "_Table | None"


class _Table(NamedTuple):
    open: int
    close: int
    members: list[_Member]

    def member(self, key: str) -> _Member | None:
        """The member that counts: the last one of its name."""
        return next((member for member in reversed(self.members) if member.key == key), None)


def insert_member(text: str, path: KeyPath, value: Mapping[str, Any], where: str) -> str:
    """The document with ``value`` at ``path``; tables on the way that are missing are made."""
    mark, body = _split_mark(text)
    root = _scan(body, where)
    if root is None:
        lead = body if not body or body.endswith("\n") else body + _newline(body)
        return mark + lead + _dump(_nested(path, value), "  ", _newline(body)) + _newline(body)
    table, rest = _deepest(root, path, where)
    edited = _insert(body, table, rest[0], _nested(rest[1:], value))
    return mark + _checked(body, edited, path, value, where)


def remove_member(text: str, path: KeyPath, where: str) -> str:
    """The document without what stands at ``path``; the same document if nothing does."""
    if path[-1].isidentifier() and f'"{path[-1]}"' not in text and "\\u" not in text:
        return text  # a large file needs no closer look
    mark, body = _split_mark(text)
    table = _scan(body, where)
    for key in path[:-1]:
        member = table.member(key) if table else None
        table = member.table if member else None
    member = table.member(path[-1]) if table else None
    if table is None or member is None:
        return text
    return mark + _remove(body, table, member)


def _split_mark(text: str) -> tuple[str, str]:
    return (BOM, text[1:]) if text.startswith(BOM) else ("", text)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _nested(path: KeyPath, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _deepest(root: _Table, path: KeyPath, where: str) -> tuple[_Table, KeyPath]:
    """The innermost table of the path that is there, and what of the path is left to make."""
    table = root
    for depth, key in enumerate(path[:-1]):
        member = table.member(key)
        if member is None:
            return table, path[depth:]
        if member.table is None:
            raise ConfigError(f"{dotted(path[: depth + 1])} is not a table.", where=where, hint="Edit it by hand.")
        table = member.table
    return table, path[-1:]


def _insert(text: str, table: _Table, key: str, value: Any) -> str:
    newline, unit = _newline(text), _unit(text)
    outer = _line_indent(text, table.open)
    if not table.members:
        entry = _entry(key, value, unit, outer + unit, newline)
        return _insert_first(text, table, newline + outer + unit + entry, newline + outer)
    last = table.members[-1]
    if "\n" not in text[table.open : table.members[0].start]:
        return _insert_beside(text, last, f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    indent = _line_indent(text, last.start)
    entry = newline + indent + _entry(key, value, unit, indent, newline)
    at = _content_end(text, table.close)
    if last.comma is not None:
        return f"{text[:at]}{entry},{text[at:]}"
    return f"{text[: last.end]},{text[last.end : at]}{entry}{text[at:]}"


def _insert_first(text: str, table: _Table, entry: str, ending: str) -> str:
    """Into a table without members, after the comments it may hold."""
    at = _content_end(text, table.close)
    rest = text[at : table.close]
    has_line = "\n" in rest
    return f"{text[:at]}{entry}{ending if not has_line else rest}{text[table.close :]}"


def _insert_beside(text: str, last: _Member, entry: str) -> str:
    """Into a table on one line."""
    if last.comma is not None:
        return f"{text[: last.comma + 1]} {entry},{text[last.comma + 1 :]}"
    return f"{text[: last.end]}, {entry}{text[last.end :]}"


def _remove(text: str, table: _Table, member: _Member) -> str:
    start = _content_end(text, member.start)
    end = member.end if member.comma is None else member.comma + 1
    left = [other for other in table.members if other is not member]
    if not left and not text[table.open + 1 : start].strip():
        inner = text[end : table.close]
        return text[: table.open + 1] + (inner if inner.strip() else "") + text[table.close :]
    before = [other for other in left if other.start < member.start]
    if member.comma is None and before and (comma := before[-1].comma) is not None:
        return text[:comma] + text[comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _content_end(text: str, before: int) -> int:
    """Where what stands before a position ends, white space left aside."""
    return len(text[:before].rstrip(" \t\r\n"))


def _line_indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return "\t" if found and "\t" in found[1] else found[1] if found and len(found[1]) <= 8 else "  "


def _entry(key: str, value: Any, unit: str, indent: str, newline: str) -> str:
    return f"{json.dumps(key)}: " + _dump(value, unit, newline + indent)


def _dump(value: Any, unit: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline)


def _checked(before: str, edited: str, path: KeyPath, value: Any, where: str) -> str:
    """Better no edit than one that changes what it should not."""
    expected = read_values(before, where)
    table = expected
    for key in path[:-1]:
        table = table.setdefault(key, {})
    table[path[-1]] = value
    if read_values(edited, where) != expected:
        raise ConfigError("This file is written in a way that cannot be edited.", where=where, hint="Edit it by hand.")
    return edited


class _EditToken(NamedTuple):
    text: str
    start: int
    end: int


def _scan(text: str, where: str) -> _Table | None:
    """The tables of a document with their places; ``None`` for one that holds nothing but comments."""
    tokens = [
        _EditToken(match.group(), match.start(), match.end())
        for match in TOKEN.finditer(text)
        if match.lastgroup not in ("skip", "comment")
    ]
    if not tokens:
        return None
    read_values(text, where)
    if tokens[0].text != "{":
        raise ConfigError("The file is not a table.", where=where, hint="Edit it by hand.")
    return _scan_table(tokens, 0)[0]


def _scan_table(tokens: list[_EditToken], at: int) -> tuple[_Table, int]:
    opened, members = tokens[at].start, []
    at += 1
    while tokens[at].text != "}":
        key, value = tokens[at], at + 2
        table, at = _scan_table(tokens, value) if tokens[value].text == "{" else (None, _skip_value(tokens, value))
        end = tokens[at - 1].end
        comma = tokens[at].start if tokens[at].text == "," else None
        members.append(_Member(json.loads(key.text), key.start, end, comma, table))
        at += comma is not None
    return _Table(opened, tokens[at].start, members), at + 1


def _skip_value(tokens: list[_EditToken], at: int) -> int:
    depth = 0
    while True:
        depth += (tokens[at].text in ("[", "{")) - (tokens[at].text in ("]", "}"))
        at += 1
        if depth == 0:
            return at
