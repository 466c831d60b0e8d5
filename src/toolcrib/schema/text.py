"""Text from strangers: what nobody can see is taken out, or shown for what it is.

Invisible characters can hide instructions from a person and still reach a model; control characters can rewrite a
terminal. Emoji sequences, and the joiners that Arabic and Indic scripts are written with, stay whole.
"""

import re

from toolcrib.core.patterns import lazy_pattern

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_FORMAT = (
    r"\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    r"\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_FILLERS = r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\ufe00-\ufe0f\U000e0000-\U000e0fff"
_UNASSIGNABLE = r"\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"
_SEPARATORS = r"\u2028\u2029"

_EMOJI = r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINED_SCRIPTS = r"\u0620-\u06d3\u0904-\u0dff"

_FLAGS = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)
"""England, Scotland, Wales: the only flags written with tags, which otherwise hide text."""

_KEPT = (
    rf"(?:(?<=[{_EMOJI}])[\ufe0e\ufe0f]"
    rf"|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    rf"|(?<=\U0001f3f4)(?:{_FLAGS})"
    rf"|(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f))\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_JOINED_SCRIPTS}])[\u200c\u200d](?=[{_JOINED_SCRIPTS}]))"
)
_TERMINAL = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
_NEWLINE = rf"\r\n|\r|[{_SEPARATORS}]"
_UNSEEN = rf"[{_CONTROL}{_FORMAT}{_FILLERS}{_UNASSIGNABLE}]"

SUSPECT = re.compile(rf"[{_CONTROL}{_FORMAT}{_FILLERS}{_UNASSIGNABLE}{_SEPARATORS}]")
_CLEAN = lazy_pattern(rf"(?P<kept>{_KEPT})|(?P<newline>{_NEWLINE})|{_TERMINAL}|(?P<unseen>{_UNSEEN})")


def clean_text(text: str) -> str:
    """The text without invisible characters and terminal controls; line breaks and tabs stay."""
    return _CLEAN.sub(_drop, text) if SUSPECT.search(text) else text


def printable(text: str) -> str:
    """The text safe for a terminal or log: colours and cursor moves dropped, all else unseen shown as ``\\u{...}``."""
    return _CLEAN.sub(_reveal, text) if SUSPECT.search(text) else text


def unseen_characters(text: str) -> list[str]:
    """What ``clean_text`` would take out, as ``U+200B``; each once, in order of code."""
    if not SUSPECT.search(text):
        return []
    found = {ord(char) for match in _CLEAN.finditer(text) if not match["kept"] for char in SUSPECT.findall(match[0])}
    return [f"U+{code:04X}" for code in sorted(found)]


def _drop(match: re.Match[str]) -> str:
    return match["kept"] or ("\n" if match["newline"] else "")


def _reveal(match: re.Match[str]) -> str:
    return f"\\u{{{ord(match['unseen']):x}}}" if match["unseen"] else _drop(match)
