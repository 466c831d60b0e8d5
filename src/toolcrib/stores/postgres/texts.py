"""Any text as PostgreSQL can hold it: its ``text`` takes everything but NUL, which is written as ``\\0`` there."""

import re

_WRITTEN = re.compile(r"\\(.)", re.DOTALL)


def to_text(value: str) -> str:
    """As it is stored; the same for the same text, and for no other."""
    if "\\" not in value and "\0" not in value:
        return value
    return value.replace("\\", "\\\\").replace("\0", "\\0")


def from_text(stored: str) -> str:
    """As it was."""
    return _WRITTEN.sub(lambda found: "\0" if found[1] == "0" else found[1], stored) if "\\" in stored else stored
