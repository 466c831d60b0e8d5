"""What a passage states: its sentences as a person would quote them, and the commands they introduce. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from toolcrib.search.tokens import STOP_WORDS, analyse

COVERED = 0.6
"""The share of a sentence's words that its citations must have."""
NEARLY_COVERED = 0.35
NEAR = 0.6
"""How near in meaning a sentence must be that is covered less."""

_MARKER = re.compile(r"\[(\d{1,3})\]")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'’”)\]]*(?:\s*\[\d{1,3}\])*\s+(?=[^\s\[])|\n+")
_LEADING = re.compile(r"^(?:[-*•]|\d+[.)])\s+")

Similarity = Callable[[str, Sequence[str]], float]
"""How near a sentence is in meaning to the nearest of some texts, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Support:
    """One sentence, and what its citations say to it."""

    sentence: str
    markers: tuple[int, ...]
    score: float
    is_supported: bool


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text; markers behind a full stop belong to the sentence before."""
    start = 0
    for gap in _SENTENCE_END.finditer(text):
        yield from _some(text[start : gap.end()])
        start = gap.end()
    yield from _some(text[start:])


def _some(piece: str) -> Iterator[str]:
    if any(char.isalnum() for char in piece):
        yield piece.strip()


def markers_in(text: str) -> tuple[int, ...]:
    """The numbers cited, each once, in order."""
    return tuple(dict.fromkeys(int(found) for found in _MARKER.findall(text)))


def without_markers(text: str) -> str:
    """The words alone."""
    return _LEADING.sub("", _MARKER.sub("", text)).strip()


def check(answer: str, cited: Mapping[int, str], similarity: Similarity | None = None) -> list[Support]:
    """Each sentence of an answer, held against the passages it cites."""
    return [_check(sentence, cited, similarity) for sentence in sentences(answer)]


def _check(sentence: str, cited: Mapping[int, str], similarity: Similarity | None) -> Support:
    numbers = markers_in(sentence)
    passages = [cited[number] for number in numbers if number in cited]
    if not passages:
        return Support(sentence, numbers, 0.0, is_supported=False)
    plain = without_markers(sentence)
    covered = coverage(plain, passages)
    near = similarity(plain, passages) if similarity is not None and covered < COVERED else 0.0
    is_supported = covered >= COVERED or (covered >= NEARLY_COVERED and near >= NEAR)
    return Support(sentence, numbers, round(max(covered, min(near, covered + 0.2)), 3), is_supported)


def coverage(sentence: str, passages: Sequence[str]) -> float:
    """The share of a sentence's words that stand in the passages; numbers count three times."""
    said = {term for term in analyse(sentence) if term not in STOP_WORDS}
    if not said:
        return 0.0
    there = {term for passage in passages for term in analyse(passage)}
    weights = {term: 3.0 if any(char.isdigit() for char in term) else 1.0 for term in said}
    return sum(weight for term, weight in weights.items() if term in there) / sum(weights.values())


LEAST, MOST = 12, 500
"""Characters of what can be quoted."""
COMMANDS_MAX = 40
"""Lines of a block of commands that are looked at."""
LINE_MAX = 120

_FENCE = re.compile(r" {0,3}(?:`{3,}|~{3,})\s*(\w*)")
_HEADING = re.compile(r" {0,3}#{1,6}\s|\s*(?:={3,}|-{3,}|\*{3,})\s*$")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_ROW = re.compile(r"\s*\|")
_SHELLS = frozenset({"sh", "bash", "shell", "zsh", "console", "powershell"})
_TABLE = re.compile(r"\[+([^\[\]]+)\]+\s*(?:#.*)?$")
_SETTING = re.compile(r"""\s*(?:[\w.\-]+|"[^"]*")\s*=\s*\S|\s*\[+[\w."\-]+\]+\s*(?:#|$)""")
_END = re.compile(r"[.!?…][\"'’”)\]*]*(?:\s*\[\d{1,3}\])*\s+|[。！？]+\s*")
_SHORT = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|ca|approx|no|nos|fig|eq|dr|mr|mrs|ms|st|prof|al)|\b\w)\.\s+$", re.IGNORECASE
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_LINK = re.compile(r"!?\[([^\]\[]*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_LEANS = re.compile(
    r"(?:it|its|they|their|them|this|that|these|those|he|she|such|so|then|there|otherwise|but|and|also|either|both"
    r"|neither|else|each|here|the same|the latter|if so|if not|(?:when|if|once|unless|until|where|for|after|before"
    r"|without|with|from|of|in|to|on|by|whoever has) (?:that|this|it|they|them|these|those|such))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Command:
    """A line to type or to write, and what its comment says of it."""

    line: str
    note: str = ""
    table: str = ""
    """Where it stands, if it is a setting."""

    def __str__(self) -> str:
        place = f" under `[{self.table}]`" if self.table else ""
        return f"`{self.line}`{place}" + (f" ({self.note})" if self.note else "")

    @property
    def key(self) -> str:
        """The name of a setting."""
        return self.line.partition("=")[0].strip()

    @property
    def words(self) -> str:
        """What it says itself: what is quoted in it is an example's own matter."""
        return " ".join((self.table, _QUOTED.sub(" ", self.line), self.note))


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence; without a text, commands that nothing introduces."""

    text: str
    commands: tuple[Command, ...] = ()
    leans: bool = False
    """Whether it cannot be understood without the one before."""
    is_row: bool = False
    paragraph: int = 0
    """Which of its text it stands in; 0: in none, it is a row, a record or a command."""

    @property
    def is_introduction(self) -> bool:
        """Whether something has to follow it."""
        return self.text.endswith((":", "："))


def statements(text: str, *, by_line: bool = False) -> list[Statement]:
    """What a text states, in its order; ``by_line`` for texts in which every line is one record."""
    if by_line:
        return [Statement(plain(line)) for line in text.splitlines() if is_statement(plain(line))]
    found: list[Statement] = []
    for number, (kind, lines) in enumerate(_blocks(text), 1):
        if kind == "code":
            _introduce(found, lines)
        elif kind == "row":
            found += [Statement(row, is_row=True) for row in _rows(lines)]
        elif kind != "cut":
            found += _of_paragraph(" ".join(line.strip() for line in lines), number)
    return found


def plain(text: str) -> str:
    """Words as they are read: links by their text, nothing bold, no markers, no list signs."""
    unlinked = _LINK.sub(r"\1", text)
    return " ".join(without_markers(_STRONG.sub(r"\2", unlinked)).replace("**", "").split())


def sentences_of(paragraph: str) -> Iterator[str]:
    """A paragraph's sentences; a full stop behind an abbreviation ends none."""
    start = 0
    for end in _END.finditer(paragraph):
        if _SHORT.search(paragraph, max(start, end.start() - 8), end.end()):
            continue
        yield paragraph[start : end.end()].strip()
        start = end.end()
    if paragraph[start:].strip():
        yield paragraph[start:].strip()


def is_statement(sentence: str) -> bool:
    """Whether it can be quoted: no question, no code, neither too short nor too long."""
    prose = re.sub(r"`[^`]*`", "x", sentence)
    signs = sum(char in "{}[]=<>_$;|\\" for char in prose)
    is_odd = prose.startswith(("#", '"""', "<", "@")) or sentence.endswith("?") or signs > len(prose) / 20
    return LEAST <= len(sentence) <= MOST and not is_odd and any(char.isalpha() for char in prose)


def _of_paragraph(paragraph: str, number: int) -> list[Statement]:
    """Its sentences, each knowing whether it leans on the one before; what leans on nothing quotable is left out."""
    found: list[Statement] = []
    can_lean = False
    for sentence in map(plain, sentences_of(paragraph)):
        leans = _LEANS.match(sentence) is not None
        is_quotable = is_statement(sentence) and (can_lean or not leans)
        if is_quotable:
            found.append(Statement(sentence, leans=leans, paragraph=number))
        can_lean = is_quotable
    return found


def _introduce(found: list[Statement], lines: Sequence[str]) -> None:
    """Give commands to the sentence right before them, if it introduces something."""
    commands = tuple(_commands(lines))
    if commands and found and found[-1].is_introduction and not found[-1].commands:
        found[-1] = replace(found[-1], commands=commands)
    elif commands:
        found.append(Statement("", commands))


def _commands(lines: Sequence[str]) -> Iterator[Command]:
    """The lines of a block that can be typed or written by themselves."""
    fence = _FENCE.match(lines[0])
    language = fence[1].lower() if fence else ""
    inside = [line.strip() for line in lines[1:] if line.strip() and not line.lstrip().startswith("#")]
    if language == "toml":
        yield from _settings(inside[:COMMANDS_MAX])
    elif language in _SHELLS:
        for line in _typed(_whole(inside)[:COMMANDS_MAX]):
            command, _, note = line.partition("  #")
            if len(command) <= LINE_MAX:
                yield Command(command.strip(), note.strip())


def _whole(lines: Sequence[str]) -> list[str]:
    """The lines of a shell; one that ends with a backslash goes on in the next."""
    return "\n".join(lines).replace("\\\n", "").split("\n")


def _typed(lines: Sequence[str]) -> list[str]:
    """Of a session at a prompt only what was typed, not what was answered."""
    if any(line.startswith("$ ") for line in lines):
        return [line[2:] for line in lines if line.startswith("$ ")]
    return list(lines)


def _settings(lines: Sequence[str]) -> Iterator[Command]:
    """Each setting, with the table it belongs to."""
    table = ""
    for line in lines:
        if header := _TABLE.match(line):
            table = header[1]
        elif _SETTING.match(line) and len(line) <= LINE_MAX:
            setting, _, note = line.partition("  #")
            yield Command(setting.strip(), note.strip(), table)


def _rows(lines: Sequence[str]) -> Iterator[str]:
    """The rows of a table below its header, each as one line."""
    for line in lines[2:]:
        cells = [plain(cell) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        row = "; ".join(cell for cell in cells[1:] if cell)
        if row and LEAST <= len(row) <= MOST:
            yield f"{cells[0]}: {row}" if cells[0] else row


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Paragraphs, items, tables and blocks of code, each with its lines; headings are left out."""
    lines = text.splitlines()
    kind, held = ("cut", [""]) if _begins_inside(lines) else ("", [])
    for line in lines:
        is_fence = _FENCE.match(line) is not None
        if kind in ("code", "cut"):
            if not is_fence:
                held.append(line)
                continue
            found = ""
        else:
            found = "code" if is_fence else _kind(line)
            if _goes_on(kind, found) and not _is_title(held[-1], line):
                held.append(line)
                continue
        if kind:
            yield kind, held
        kind, held = found, [line]
    if kind:
        yield kind, held


def _kind(line: str) -> str:
    if not line.strip() or _HEADING.match(line) or _SETTING.match(line):
        return ""
    if _ROW.match(line):
        return "row"
    return "item" if _ITEM.match(line) else "text"


def _goes_on(kind: str, found: str) -> bool:
    return bool(found) and (found == kind != "item" or (kind, found) == ("item", "text"))


def _is_title(line: str, after: str) -> bool:
    """Whether a line stands for itself although no blank one follows."""
    is_short = len(line.strip()) < 40 and not line.rstrip().endswith((",", ";", ".", "-", "|"))
    return is_short and not line.lstrip().startswith("|") and after.lstrip()[:1].isupper()


def _begins_inside(lines: Sequence[str]) -> bool:
    """Whether a passage was cut out of the middle of a block of code."""
    fences = [found[1] for line in lines if (found := _FENCE.match(line))]
    return len(fences) % 2 == 1 and not fences[0]
