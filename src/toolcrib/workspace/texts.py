"""Files as text: their encoding and line ends as they are, their lines with numbers. Pure."""

import codecs
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from toolcrib.core.errors import InvalidArguments

SAMPLE = 8192
PIECE = 1 << 20
WHOLE_MAX = 64 << 20
DIFF_LINES_MAX = 400
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's bytes stand for characters."""

    name: str = "utf-8"
    mark: bytes = b""

    def decode(self, content: bytes) -> str:
        """The text, without the mark; line ends as they are."""
        return content.removeprefix(self.mark).decode(self.name, errors="replace")

    def encode(self, text: str) -> bytes:
        """The bytes, with the mark; raises ``InvalidArguments`` if there are none for a character."""
        try:
            return self.mark + text.encode(self.name)
        except UnicodeEncodeError as error:
            raise InvalidArguments(
                f"The file is {self.name}, which has no {text[error.start]!r}.",
                hint="Write it with other characters, or convert the file first.",
            ) from None


def encoding_of(content: bytes) -> Encoding | None:
    """How to read these bytes; ``None`` if they are no text. What is not UTF-8 keeps its bytes as Latin-1."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return Encoding(name, mark)
    if b"\0" in content[:SAMPLE]:
        return None
    try:
        content.decode()
    except UnicodeDecodeError:
        return None if _is_binary(content[:SAMPLE]) else Encoding("latin-1")
    return Encoding()


def sample_encoding(sample: bytes) -> Encoding | None:
    """The same for the beginning of a file, which may end in the middle of a character."""
    found = encoding_of(sample)
    if found is None or found.name != "latin-1" or len(sample) < SAMPLE:
        return found
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return found
    return Encoding()


def decoded_lines(file: BinaryIO, encoding: Encoding) -> Iterator[str]:
    """The lines with their ends, each with no more than its first piece if it is very long."""
    if encoding.name.startswith("utf-16"):
        yield from split_lines(encoding.decode(file.read(WHOLE_MAX)))
        return
    file.seek(len(encoding.mark))
    plain, is_new = Encoding(encoding.name), True
    for piece in iter(lambda: file.readline(PIECE), b""):
        if is_new:
            yield plain.decode(piece)
        is_new = piece.endswith(b"\n")


def _is_binary(sample: bytes) -> bool:
    control = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    return control > len(sample) // 20


def uses_crlf(text: str) -> bool:
    """Whether most lines end as they do on Windows."""
    return text.count("\r\n") * 2 > text.count("\n")


def with_ends_of(text: str, crlf: bool) -> str:
    """The same lines with the other ends."""
    plain = text.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if crlf else plain


def diff(path: str, before: str, after: str) -> str:
    """What changed, as a unified diff; of a very long one only the beginning."""
    lines = list(
        difflib.unified_diff(_lines(before), _lines(after), f"a/{path}", f"b/{path}", n=3)
        if len(before) + len(after) < 2_000_000
        else [f"({path} is too large to show what changed)\n"]
    )
    shown = [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    if len(shown) > DIFF_LINES_MAX:
        shown = [*shown[:DIFF_LINES_MAX], f"... ({len(shown) - DIFF_LINES_MAX} more lines)\n"]
    return "".join(shown)


def _lines(text: str) -> list[str]:
    return [line.replace("\r\n", "\n") for line in split_lines(text)]


def split_lines(text: str) -> list[str]:
    """The lines with their ends; only a line feed ends one, as for every other program that counts lines."""
    *ended, last = text.split("\n")
    return [*(f"{line}\n" for line in ended), *([last] if last else [])]


def counts(diffed: str) -> tuple[int, int]:
    """How many lines a diff adds, and how many it takes away."""
    body = diffed.splitlines()[2:]
    return sum(line.startswith("+") for line in body), sum(line.startswith("-") for line in body)
