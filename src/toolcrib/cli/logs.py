"""Events as log lines on stderr: one JSON object each for programs, one short line each for people."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from toolcrib.cli.console import Console, escaped
from toolcrib.cli.invoke import Options
from toolcrib.core import events
from toolcrib.core.events import Event
from toolcrib.schema.text import printable

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
STYLES = {"debug": ("dim",), "info": ("dim",), "warning": ("yellow",), "error": ("red",)}

TOLD_ANYWAY = frozenset(
    {
        events.CALL_FINISHED,
        events.DISCOVERY_SERVER_FAILED,
        events.SERVER_CONNECTING,
        events.SERVER_LOST,
        "call.raised",
        "call.unknown",
    }
)
"""What a command that runs once says itself, in its own words, when it ends."""


class Log:
    """An ``Emit`` that writes what is serious enough."""

    def __init__(self, console: Console, level: str, format: str, *, untold: frozenset[str] = frozenset()) -> None:  # noqa: A002
        self._console, self._format = console, format
        self._trace_id = secrets.token_hex(8)
        self.level, self.untold = level, untold

    def hears(self, level: str) -> bool:
        """Whether anything of that level is written."""
        return LEVELS.get(level, 40) >= LEVELS[self.level]

    def __call__(self, event: Event) -> None:
        """Write the event, or not."""
        if not self.hears(event.level) or event.name in self.untold:
            return
        is_json = self._format == "json"
        self._console.write_log(as_json(event, self._trace_id) if is_json else as_text(event, self._console))


def one_shot_log(options: Options, console: Console) -> Log:
    """The log of a command that runs once: warnings, but nothing it will say itself unless it is asked for."""
    untold = frozenset() if options.log_level else TOLD_ANYWAY
    return Log(console, options.log_level or "warning", options.log_format or "text", untold=untold)


def serving_log(options: Options, console: Console) -> Log:
    """The log of a server: for people on a terminal, for programs anywhere else."""
    format_here = "text" if console.err.isatty() else "json"
    return Log(console, options.log_level or "info", options.log_format or format_here)


def as_json(event: Event, trace_id: str) -> str:
    """One line for programs."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    head = {"time": now, "level": event.level, "event": event.name, "trace_id": trace_id}
    fields = {"call_id" if key == "id" else key: value for key, value in event.fields.items()}
    text = msgspec.json.encode(head | fields, enc_hook=str).decode()
    return escaped(text)


def as_text(event: Event, console: Console) -> str:
    """One line for people."""
    time = console.paint(f"{datetime.now():%H:%M:%S}", "dim", talk=True)
    level = console.paint(f"{event.level:<7}", *STYLES.get(event.level, ()), talk=True)
    return f"{time} {level} {event.name}{_fields(event.fields)}"


def _fields(fields: Mapping[str, Any]) -> str:
    return "".join(f" {key}={_value(value)}" for key, value in fields.items() if value != "")


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    text = printable(str(value)).replace("\n", " | ")
    return f'"{text}"' if " " in text else text
