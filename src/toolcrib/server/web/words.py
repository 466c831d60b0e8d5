"""Numbers, moments, callers and icons, as a person reads them."""

from contextlib import suppress
from datetime import UTC, datetime

from markupsafe import Markup

from toolcrib.core.errors import ToolcribError
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.stores.connections import ConnectionBook

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
    """A moment since 1970 as ``2026-01-31 12:30 UTC``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def when(moment: float | str, shape: str = "full") -> Markup | str:
    """A moment with its zone: seconds since 1970, or as it is written; ``shape`` is ``full`` or ``time``.

    Written in UTC; where there are scripts, the browser writes it anew in the zone of whoever reads it.
    """
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError):
        return str(moment)
    utc = found.astimezone(UTC)
    full = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    shown = f"{utc:%H:%M:%S} UTC" if shape == "time" else full
    return Markup('<time datetime="{}" data-zone="{}" title="{}">{}</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%S}Z", shape, full, shown
    )


STROKES = {
    "gauge": "M4 18a9 9 0 1 1 16 0M12 14l4-5M12 15.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3",
    "server": "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01M12 7h4M12 17h4",
    "tool": "M14.5 5.5a4.5 4.5 0 0 0-5.7 5.7L3.5 16.5a2.1 2.1 0 0 0 3 3l5.3-5.3a4.5 4.5 0 0 0 "
    "5.7-5.7L15 11l-2.5-.5L12 8z",
    "pulse": "M3 12h4l3-8 4 16 3-8h4",
    "inbox": "M3 13l3-8h12l3 8v6H3zM3 13h5l1.5 3h5l1.5-3h5",
    "log": "M6 3h9l4 4v14H6zM14 3v5h5M9 12h7M9 16h7",
    "book": "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11M9 8h6",
    "plug": "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
    "cog": "M12 15.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M12 2.5v3M12 18.5v3M2.5 12h3M18.5 12h3M5.3 5.3l2.1 "
    "2.1M16.6 16.6l2.1 2.1M5.3 18.7l2.1-2.1M16.6 7.4l2.1-2.1",
    "search": "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14M16.2 16.2L21 21",
    "sun": "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 2v2M12 20v2M2 12h2M20 12h2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 "
    "1.4M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4",
    "moon": "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
    "out": "M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9",
    "plus": "M12 5v14M5 12h14",
    "check": "M4 12.5l5 5L20 6.5",
    "cross": "M6 6l12 12M18 6L6 18",
    "alert": "M12 3.5L2.5 20h19zM12 10v4.5M12 17.5h.01",
    "info": "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M12 11v5M12 8h.01",
    "copy": "M9 9h11v11H9zM5 15H4V4h11v1",
    "refresh": "M20 11a8 8 0 0 0-14.5-4L3 9.5M3 4v5.5h5.5M4 13a8 8 0 0 0 14.5 4l2.5-2.5M21 20v-5.5h-5.5",
    "power": "M12 3v8M6.5 6.5a8 8 0 1 0 11 0",
    "trash": "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
    "edit": "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
    "arrow": "M5 12h14M13 6l6 6-6 6",
    "import": "M12 3v11M7.5 10l4.5 4.5L16.5 10M4 17v4h16v-4",
    "shield": "M12 3l8 3v6c0 4.5-3.5 7.5-8 9-4.5-1.5-8-4.5-8-9V6z",
    "key": "M8 17a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 13h9M18 13v4M15 13v3",
    "clock": "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M12 7v5.5l3.5 2",
    "coins": "M12 10c4 0 7-1.3 7-3s-3-3-7-3-7 1.3-7 3 3 3 7 3M5 7v5c0 1.7 3 3 7 3s7-1.3 7-3V7M5 12v5c0 1.7 3 3 7 "
    "3s7-1.3 7-3v-5",
    "quote": "M4 5h16v11H11l-4 4v-4H4zM8 9h8M8 12h5",
    "file": "M6 3h9l4 4v14H6zM14 3v5h5",
    "hand": "M8 12V6a1.5 1.5 0 0 1 3 0v5M11 11V4.5a1.5 1.5 0 0 1 3 0V11M14 11V6a1.5 1.5 0 0 1 3 0v8a6.5 6.5 "
    "0 0 1-6.5 6.5c-3 0-4.5-1.5-6-4.5L3 12.5a1.5 1.5 0 0 1 2.5-1.5L8 14",
    "more": "M5 12h.01M12 12h.01M19 12h.01",
    "play": "M7 4.5v15l12-7.5z",
    "chevron": "M9 6l6 6-6 6",
    "upload": "M12 15V4M7.5 8L12 3.5 16.5 8M4 16v4h16v-4",
    "repeat": "M17 3l4 4-4 4M21 7H8a5 5 0 0 0-5 5M7 21l-4-4 4-4M3 17h13a5 5 0 0 0 5-5",
    "link": "M10 14a4 4 0 0 0 6 .5l3-3a4.2 4.2 0 0 0-6-6l-1.5 1.5M14 10a4 4 0 0 0-6-.5l-3 3a4.2 4.2 0 0 0 6 6l1.5-1.5",
}


def icon(name: str, size: int = 18) -> Markup:
    """An icon that says nothing to a screen reader; the text beside it does."""
    return Markup(  # noqa: S704 - both parts are ours
        f'<svg class="icon" viewBox="0 0 24 24" width="{size}" height="{size}" aria-hidden="true">'
        f'<path d="{STROKES[name]}"/></svg>'
    )


KIND = "token:"
CONNECTED = "oauth:"


class CallerNames:
    """Reads the names of tokens, also of those that have ended; a new one counts from the next look on."""

    def __init__(self, tokens: TokenBook, connections: ConnectionBook | None = None) -> None:
        self._tokens, self._connections = tokens, connections

    def name_of(self, caller: str) -> str:
        """The name of whoever holds a token; a connected client is called as it calls itself, with whoever let it in.
        Everybody else is called by their id."""
        if caller.startswith(CONNECTED) and self._connections is not None:
            return self._client(caller.removeprefix(CONNECTED)) or caller
        name = self._tokens.names().get(caller.removeprefix(KIND)) if caller.startswith(KIND) else None
        return name or caller

    def _client(self, connection_id: str) -> str:
        with suppress(ToolcribError):
            found = self._connections.look().connections.get(connection_id) if self._connections is not None else None
            return f"{found.client_name} of {found.user_name}" if found is not None else ""
        return ""

    def ids_of(self, name: str) -> list[str]:
        """Everybody a name stands for."""
        return [KIND + token for token, known in self._tokens.names().items() if known == name]
