"""Patterns with ``*``, ``?`` and ``[…]`` as PostgreSQL understands them; they mean what SQLite's GLOB means by them."""

_SPECIAL = frozenset("*?[")


def is_plain(glob: str) -> bool:
    """Whether it stands for itself only."""
    return not _SPECIAL & set(glob)


def regex_of(glob: str) -> str | None:
    """The same as a regular expression over the whole text; ``None`` if nothing can fit it."""
    parts, at = [], 0
    while at < len(glob):
        letter, at = glob[at], at + 1
        if letter == "*":
            part: str | None = ".*"
        elif letter == "?":
            part = "."
        elif letter == "[":
            part, at = _set(glob, at)
        else:
            part = _literal(letter)
        if part is None:
            return None
        parts.append(part)
    return f"^{''.join(parts)}$"


def _literal(letter: str) -> str:
    return letter if letter.isalnum() or letter == "_" or not letter.isascii() else f"\\{letter}"


def _set(glob: str, at: int) -> tuple[str | None, int]:
    """The set that begins at a place, and where it ends; one without an end, or without members, fits nothing."""
    is_inverted = glob[at : at + 1] == "^"
    at += is_inverted
    ranges, at = _ranges(glob, at)
    if at > len(glob):
        return None, at
    members = "".join(f"{_code(low)}-{_code(high)}" for low, high in ranges if low <= high)
    if not members:
        return ("." if is_inverted else None), at
    return f"[{'^' if is_inverted else ''}{members}]", at


def _ranges(glob: str, at: int) -> tuple[list[tuple[str, str]], int]:
    ranges: list[tuple[str, str]] = []
    prior = ""
    if glob[at : at + 1] == "]":
        ranges.append(("]", "]"))
        at += 1
    while at < len(glob) and glob[at] != "]":
        letter, following = glob[at], glob[at + 1 : at + 2]
        if letter == "-" and prior and following not in ("", "]"):
            ranges.append((prior, following))
            prior, at = "", at + 2
        else:
            ranges.append((letter, letter))
            prior, at = letter, at + 1
    return ranges, at + 1


def _code(letter: str) -> str:
    return f"\\U{ord(letter):08x}"
