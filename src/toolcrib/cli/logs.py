"""Events as log lines on stderr: one JSON object each for programs, one short line each for people."""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.cli.console import Console, escaped
from toolcrib.cli.invoke import Options
from toolcrib.cli.joining import LOG_BYTES, open_log, wanted_here
from toolcrib.core import events
from toolcrib.core.events import Event
from toolcrib.schema.text import printable
from toolcrib.stores.files import write_all
from toolcrib.stores.run_files import log_path

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
        self.trace_id = secrets.token_hex(8)
        self.level, self.untold = level, untold

    def hears(self, level: str) -> bool:
        """Whether anything of that level is written."""
        return LEVELS.get(level, 40) >= LEVELS[self.level]

    def __call__(self, event: Event) -> None:
        """Write the event, or not."""
        if not self.hears(event.level) or event.name in self.untold:
            return
        is_json = self._format == "json"
        self._console.write_log(as_json(event, self.trace_id) if is_json else as_text(event, self._console))


def one_shot_log(options: Options, console: Console) -> Log:
    """The log of a command that runs once: warnings, but nothing it will say itself unless it is asked for."""
    untold = frozenset() if options.log_level else TOLD_ANYWAY
    return Log(console, options.log_level or "warning", options.log_format or "text", untold=untold)


def serving_log(options: Options, console: Console, level: str = "info") -> "KeptLog":
    """The log of a server: for people on a terminal, for programs anywhere else, and in a file for `toolcrib logs`.

    ``level`` is what is told here; the file always has at least "info", unless less is asked for.
    """
    format_here = "text" if console.err.isatty() else "json"
    log = Log(console, options.log_level or level, options.log_format or format_here)
    if getattr(options, "log_file", ""):  # what is said here goes there already
        return KeptLog(log, None)
    try:
        file = LogFile(log_path(os.environ, wanted_here(options.config, os.environ, Path.cwd(), {}).key))
    except OSError:  # `toolcrib logs` says that there is none
        return KeptLog(log, None)
    options.log_file = str(file.path)
    return KeptLog(log, file, options.log_level or "info")


class LogFile:
    """A log that only its owner can read, as JSON lines; when it gets long, the older part is put aside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_log(path)
        self._room = LOG_BYTES - os.fstat(self._file).st_size

    def write(self, line: str) -> None:
        """Append a line; where the disk is full, it is lost."""
        data = line.encode() + b"\n"
        with suppress(OSError):
            if self._room < 0:
                old, self._file = self._file, -1
                os.close(old)
                self._file, self._room = open_log(self.path), LOG_BYTES
            write_all(self._file, data)
            self._room -= len(data)


class KeptLog:
    """An ``Emit`` that writes to the terminal, or what stands in for it, and to a file."""

    def __init__(self, log: Log, file: LogFile | None, level: str = "info") -> None:
        self.log, self._file = log, file
        self._trace_id = log.trace_id
        self._least = LEVELS[level]

    def hears(self, level: str) -> bool:
        """Whether anything of that level is written anywhere."""
        return self.log.hears(level) or self._is_kept(level)

    def _is_kept(self, level: str) -> bool:
        return self._file is not None and LEVELS.get(level, 40) >= self._least

    def keep(self, event: Event) -> None:
        """Write the event to the file alone."""
        if self._file is not None and self._is_kept(event.level):
            self._file.write(as_json(event, self._trace_id))

    def __call__(self, event: Event) -> None:
        """Write the event."""
        self.keep(event)
        self.log(event)


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
    return f"{time} {_told(event, console, talk=True)}"


def line_as_text(line: str, console: Console) -> str:
    """A line that was written for programs, for people; what is none of ours as it is, made safe."""
    entry = _entry(line)
    if entry is None:
        return printable(line)
    told = Event(str(entry.pop("event")), str(entry.pop("level", "")), entry)
    moment = str(entry.pop("time", ""))
    entry.pop("trace_id", None)
    with suppress(ValueError):
        moment = f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
    return f"{console.paint(printable(moment), 'dim')} {_told(told, console, talk=False)}"


def line_as_json(line: str) -> str:
    """The same for programs, as it was written."""
    return escaped(line if _entry(line) is not None else msgspec.json.encode({"text": line}).decode())


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return entry if isinstance(entry, dict) and "event" in entry else None


def _told(event: Event, console: Console, *, talk: bool) -> str:
    level = console.paint(printable(f"{event.level:<7}"), *STYLES.get(event.level, ()), talk=talk)
    return f"{level} {printable(event.name)}{_fields(event.fields)}"


def _fields(fields: Mapping[str, Any]) -> str:
    return "".join(f" {key}={_value(value)}" for key, value in fields.items() if value != "")


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    text = printable(str(value)).replace("\n", " | ")
    return f'"{text}"' if " " in text else text
