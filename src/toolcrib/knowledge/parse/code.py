"""Source code: functions and classes are the headings, found by simple rules that hold for most languages."""

import re
from collections.abc import Iterator

from toolcrib.core.knowledge import Heading, Outline
from toolcrib.knowledge.parse.parsed import Parsed
from toolcrib.knowledge.parse.text import decode

_DEFINITION = re.compile(
    r"""^(?P<indent>[ \t]*)
    (?:(?:export|default|public|private|protected|internal|static|abstract|final|async|pub(?:\([^)]*\))?|override
        |open|sealed|data|unsafe|extern|inline|virtual|partial|readonly|declare)\s+){0,6}
    (?:
        (?P<kind>def|class|function\*?|func|fn|interface|trait|struct|enum|impl|module|namespace|object|record|type
            |protocol|extension|macro_rules!|message|service)
        \s+(?:\([^)\n]{0,80}\)\s*)?(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::)[\w$]+)*)
      | (?:const|let|var)\s+(?P<arrow>[A-Za-z_$][\w$]*)\s*=\s*(?:async\s*)?(?:function\b|\([^)\n]{0,200}\)\s*=>)
      | (?:CREATE|create)\s+(?:OR\s+REPLACE\s+|or\s+replace\s+)?(?:TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|TRIGGER
            |table|view|index|function|procedure|trigger)\s+(?P<sql>[\w."]+)
    )""",
    re.VERBOSE | re.MULTILINE,
)
_PREAMBLE = re.compile(r"[ \t]*(?:@|#\[|//|#|\*|/\*|--)")
LINE_MAX = 2000


def parse_code(content: bytes) -> Parsed:
    """Code as it is, with its definitions as headings."""
    text = decode(content)
    return Parsed(text, "code", outline=Outline(headings=tuple(_definitions(text))))


def _definitions(text: str) -> Iterator[Heading]:
    if any(len(line) > LINE_MAX for line in text.splitlines()):  # minified, or data: it has no structure to follow
        return
    last = 0
    for match in _DEFINITION.finditer(text):
        name = match["name"] or match["arrow"] or match["sql"]
        depth = len(match["indent"].expandtabs(4)) // 2
        title = f"{match['kind']} {name}" if match["kind"] else name
        start = _with_preamble(text, match.start(), last)
        yield Heading(start, 1 + depth, title)
        last = match.end()


def _with_preamble(text: str, start: int, last: int) -> int:
    """Decorators and comments right above a definition belong to it."""
    while start > last:
        above = text.rfind("\n", last, start - 1) + 1
        if above <= last or not _PREAMBLE.match(text, above, start):
            return start
        start = above
    return start
