"""Numbers and moments as a person reads them."""

from datetime import UTC, datetime

_STEPS = ((60.0, 1.0, "second"), (3600.0, 60.0, "minute"), (86400.0, 3600.0, "hour"), (float("inf"), 86400.0, "day"))
_UNITS = {"second": "s", "minute": "min", "hour": "h", "day": "d"}


def count(number: float, one: str, many: str = "") -> str:
    """``1 tool``, ``2 tools``, ``1,234 tools``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def kind(shape: str) -> str:
    """The kind of an argument with its size: ``string 9`` becomes ``string of 9 characters``."""
    name, _, size = shape.partition(" ")
    if not size.isdigit():
        return shape
    return f"{name} of {count(int(size), {'string': 'character', 'object': 'field'}.get(name, 'item'))}"


def sentence(text: str) -> str:
    """The text with a capital at its beginning; a command stays as it is typed."""
    return text if text.startswith("toolcrib ") else text[:1].upper() + text[1:]


def short(number: float) -> str:
    """``950``, ``1.2k``, ``34k``, ``1.5M``."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if number >= limit:
            scaled = number / limit
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """``0.4 ms``, ``35 ms``, ``1.2 s``, ``3 min``."""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def span(seconds: float) -> str:
    """A stretch of time in its largest unit: ``45 seconds``, ``3 hours``."""
    _, step, unit = next(entry for entry in _STEPS if seconds < entry[0])
    return count(int(max(0.0, seconds) // step), unit)


def ago(moment: str, now: datetime | None = None) -> str:
    """How long ago a written moment was; empty when there is none."""
    try:
        seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return ""
    return "just now" if seconds < 5 else f"{_brief(seconds)} ago"


def _brief(seconds: float) -> str:
    _, step, unit = next(entry for entry in _STEPS if seconds < entry[0])
    return f"{int(seconds // step)} {_UNITS[unit]}"


def clock(seconds: float) -> str:
    """A moment since 1970 as ``2026-01-31 12:30``, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def at(seconds: float) -> str:
    """A moment since 1970 as the time of day, ``12:30:05``, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")
