"""Regular expressions that mean the same to ripgrep and to Python: what only one of them knows is refused. Pure."""

import re

from toolcrib.core.errors import InvalidArguments

PATTERN_MAX = 1000
_REFUSED = {
    "look": "looks ahead or behind",
    "back": "refers back to a group",
    "other": "has a construct that not every engine knows",
    "greedy": "has a possessive quantifier",
    "property": "asks for a property of characters",
}
_TOKEN = re.compile(
    r"""(?P<back>\\[1-9]|\(\?P=)
    |(?P<look>\(\?<?[=!])
    |(?P<other>\(\?[>(\#]|\\[ZGKXRNhHvV])
    |(?P<property>\\[pP])
    |(?P<end>\\z)
    |(?P<escape>\\.)
    |(?P<named>\(\?<(?=[A-Za-z_]))
    |(?P<class>\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\])
    |(?P<greedy>[*+?}]\+)""",
    re.VERBOSE | re.DOTALL,
)
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def to_python(pattern: str) -> str:
    """The pattern as Python writes it; raises ``InvalidArguments`` for what ripgrep would not take either."""
    if len(pattern) > PATTERN_MAX:
        raise InvalidArguments(f"The pattern has more than {PATTERN_MAX} characters.", hint="Look for less.")
    written = _TOKEN.sub(_translate, pattern)
    try:
        re.compile(written)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidArguments(f"The pattern is no regular expression: {error}.", hint=_LITERAL) from None
    return written


_LITERAL = "To look for the characters as they are, set literal."


def _translate(token: "re.Match[str]") -> str:
    kind, text = token.lastgroup or "", token[0]
    if kind in _REFUSED:
        raise InvalidArguments(f"The pattern {_REFUSED[kind]} ({text!r}).", hint=f"Write it without. {_LITERAL}")
    if kind == "class":
        return _POSIX.sub(_posix, text)
    return {"end": r"\Z", "named": "(?P<"}.get(kind, text)


def _posix(found: "re.Match[str]") -> str:
    if found[2] not in _CLASSES or found[1]:
        raise InvalidArguments(f"The pattern has an unknown class {found[0]!r}.", hint="Write the characters out.")
    return _CLASSES[found[2]]
