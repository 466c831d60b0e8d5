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


COMPARED_LINES_MAX = 20_000
NEAR = 0.6
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Edit:
    """A text to be replaced; ``count`` is how often it must be there, ``None`` any number of times."""

    old: str
    new: str
    count: int | None = 1


def apply_edit(text: str, edit: Edit) -> str:
    """The text with the edit made; raises ``InvalidArguments`` if it does not fit."""
    if not edit.old:
        raise InvalidArguments("old_text is empty.", hint="Give the text to be replaced, or use file_write.")
    if edit.old == edit.new:
        raise InvalidArguments("old_text and new_text are the same.", hint="There is nothing to change.")
    crlf = uses_crlf(text)
    old = edit.old if edit.old in text else with_ends_of(edit.old, crlf)
    found = text.count(old)
    if not found:
        raise _missing(text, edit.old)
    if edit.count is not None and found != edit.count:
        raise _miscounted(text, old, edit.count)
    return text.replace(old, with_ends_of(edit.new, crlf) if crlf else edit.new)


def _miscounted(text: str, old: str, expected: int) -> InvalidArguments:
    places = [text.count("\n", 0, at) + 1 for at in _places(text, old)]
    shown = ", ".join(map(str, places[:20])) + (", ..." if len(places) > 20 else "")
    return InvalidArguments(
        f"old_text is there {len(places)} times, not {expected}: at line {shown}. Nothing was changed.",
        hint="Give more of the lines around it, or set count, or all.",
        details={"lines": places[:100]},
    )


def _places(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def _missing(text: str, old: str) -> InvalidArguments:
    lines = [line.rstrip("\r\n") for line in split_lines(text)]
    spaced = _differs_in_space(lines, old)
    if spaced is not None:
        start, end = spaced
        why = f"Lines {start + 1} to {end} differ from it only in white space:"
        return _shown(why, lines, [range(start, end)])
    near = [range(max(at - 1, 0), min(at + 2, len(lines))) for at in _nearest(lines, old)]
    return _shown("The nearest lines are:" if near else "Nothing like it is there.", lines, near)


def _shown(why: str, lines: list[str], places: list[range]) -> InvalidArguments:
    numbers = sorted({at for place in places for at in place})[:30]
    excerpt = "\n".join(f"{at + 1:>6}\t{lines[at][:300]}" for at in numbers)
    return InvalidArguments(
        f"old_text is not in the file. Nothing was changed. {why}" + (f"\n{excerpt}\n" if excerpt else ""),
        hint="Read the file again and copy the text exactly, white space included.",
        details={"nearest_lines": [at + 1 for at in numbers]},
    )


def _differs_in_space(lines: list[str], old: str) -> tuple[int, int] | None:
    wanted = [" ".join(line.split()) for line in old.strip("\n").splitlines()]
    plain = [" ".join(line.split()) for line in lines[:COMPARED_LINES_MAX]]
    for start in range(len(plain) - len(wanted) + 1):
        if plain[start] == wanted[0] and plain[start : start + len(wanted)] == wanted:
            return start, start + len(wanted)
    return None


def _nearest(lines: list[str], old: str) -> list[int]:
    """The lines most like the longest line of the text that was looked for."""
    key = max((line.strip() for line in old.splitlines()), key=len, default="")[:300]
    if not key:
        return []
    matcher = difflib.SequenceMatcher(b=key, autojunk=False)
    rated = []
    for at, line in enumerate(lines[:COMPARED_LINES_MAX]):
        matcher.set_seq1(line.strip()[:300])
        if matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR and matcher.ratio() >= NEAR:
            rated.append((-matcher.ratio(), at))
    return [at for _, at in sorted(rated)[:SHOWN]]
