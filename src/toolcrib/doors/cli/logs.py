"""Events as log lines on stderr: one JSON object each for programs, one short sentence each for people."""

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from toolcrib.core.events import Event
from toolcrib.doors.cli.console import Console
from toolcrib.schema.text import SUSPECT, printable

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
STYLES = {"debug": ("dim",), "info": (), "warning": ("yellow",), "error": ("red",)}


def log_to(console: Console, *, level: str, format: str) -> Callable[[Event], None]:  # noqa: A002
    """An ``Emit`` that writes what is at least as serious as ``level``."""
    least = LEVELS[level]
    trace_id = secrets.token_hex(8)

    def emit(event: Event) -> None:
        if LEVELS.get(event.level, 40) >= least:
            line = as_json(event, trace_id) if format == "json" else as_text(event, console)
            console.write_log(line)

    return emit


def as_json(event: Event, trace_id: str) -> str:
    """One line for programs."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    head = {"time": now, "level": event.level, "event": event.name, "trace_id": trace_id}
    fields = {"call_id" if key == "id" else key: value for key, value in event.fields.items()}
    text = msgspec.json.encode(head | fields, enc_hook=str).decode()
    return SUSPECT.sub(lambda match: msgspec.json.encode(match[0]).decode()[1:-1], text)


def as_text(event: Event, console: Console) -> str:
    """One line for people."""
    time = console.paint(f"{datetime.now():%H:%M:%S}", "dim", talk=True)
    level = console.paint(f"{event.level:<7}", *STYLES.get(event.level, ()), talk=True)
    return f"{time} {level} {event.name}{_fields(event.fields)}"


def _fields(fields: Mapping[str, Any]) -> str:
    return "".join(f" {key}={_value(value)}" for key, value in fields.items())


def _value(value: Any) -> str:
    text = printable(str(value)).replace("\n", " | ")
    return f'"{text}"' if " " in text else text
