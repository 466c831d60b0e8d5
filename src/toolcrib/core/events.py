"""What toolcrib tells about itself: small named events with plain fields, never argument values."""

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.core.access import Caller

DISCOVERY_STARTED = "tools.discovery.started"
DISCOVERY_SERVER_SUCCESS = "tools.discovery.server.success"
DISCOVERY_SERVER_FAILED = "tools.discovery.server.failed"
REGISTRY_UPDATED = "tools.registry.updated"
REGISTRY_SERVER_REMOVED = "tools.registry.server.removed"
TOOL_IMITATES = "tool.imitates"
TOOL_HIDDEN = "tool.hidden"
"""A server's tool is left out of the catalogue because another has its name."""
TOOLS_LEFT_OUT = "tools.left_out"
SERVER_CONNECTING = "server.connecting"
SERVER_INSTALLING = "server.installing"
SERVER_REPAIRED = "server.repaired"
SERVER_CONNECTED = "server.connected"
SERVER_LOST = "server.lost"
SERVER_STOPPED = "server.stopped"
SERVER_CREATED = "server.created"
SERVER_CHANGED = "server.changed"
SERVER_REMOVED = "server.removed"
TOOL_HELD = "tool.held"
TOOL_DISORDERED = "tool.disordered"
SERVER_HELD = "server.held"
SERVER_PAUSED = "server.paused"
SERVER_RESUMED = "server.resumed"
CALL_FINISHED = "call.finished"
CALL_SLOW = "call.slow"
ARGUMENTS_RENAMED = "call.arguments.renamed"
ARGUMENTS_REPAIRED = "call.arguments.repaired"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    name: str
    level: str = "info"
    fields: Mapping[str, Any] = field(default_factory=dict)


def trace_ids() -> Iterator[str]:
    """Trace ids for what brings none; they have to be unique, not secret. Made by the hundred: that is cheaper."""
    while True:
        block = random.randbytes(16 * 128).hex()  # noqa: S311 - as the sentence says
        for at in range(0, len(block), 32):
            yield block[at : at + 32]


Emit = Callable[[Event], None]


def drop(event: Event) -> None:
    """An ``Emit`` that discards events."""


class StandardLog:
    """An ``Emit`` that tells Python's own ``logging``, under the name ``toolcrib``: what a program made of that holds.

    A record has the event's name, fields and trace id as ``event``, ``fields`` and ``trace_id``.
    """

    LEVELS: Mapping[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

    def __init__(self) -> None:
        self._logger = logging.getLogger("toolcrib")
        if not self._logger.handlers:  # else what nobody asked for would go to stderr
            self._logger.addHandler(logging.NullHandler())

    def hears(self, level: str) -> bool:
        """Whether anything of that level reaches anybody now."""
        return self._logger.isEnabledFor(self.LEVELS.get(level, logging.ERROR))

    def __call__(self, event: Event) -> None:
        """Write the event, or not."""
        if self.hears(event.level):
            fields = "".join(f" {key}={_plain(value)}" for key, value in event.fields.items() if value != "")
            more = {"event": event.name, "fields": event.fields, "trace_id": event.fields.get("trace_id", "")}
            level = self.LEVELS.get(event.level, logging.ERROR)
            self._logger.log(level, "%s%s", event.name, fields, extra=more)


def hears(emit: Emit, level: str) -> bool:
    """Whether it makes a difference to tell of something of that level; an ``Emit`` with a ``hears`` of its own says so
    itself, once and for all, so that what happens all the time need not be put into words nobody reads."""
    own = getattr(emit, "hears", None)
    return bool(own(level)) if own is not None else emit is not drop


CALL = "call"
CATALOG = "catalog"
SERVER = "server"
APPROVAL = "approval"
CONFIG = "config"
TOPICS = frozenset({CALL, CATALOG, SERVER, APPROVAL, CONFIG})
MISSED = "missed"
"""What a reader is told that could not be told everything; it belongs to every choice of topics."""

TEXT_MAX = 300

_TOPIC_OF = {
    DISCOVERY_STARTED: SERVER,
    DISCOVERY_SERVER_SUCCESS: SERVER,
    DISCOVERY_SERVER_FAILED: SERVER,
    SERVER_CREATED: SERVER,
    SERVER_CHANGED: SERVER,
    SERVER_REMOVED: SERVER,
    SERVER_CONNECTING: SERVER,
    SERVER_INSTALLING: SERVER,
    SERVER_REPAIRED: SERVER,
    SERVER_CONNECTED: SERVER,
    SERVER_LOST: SERVER,
    SERVER_STOPPED: SERVER,
    SERVER_PAUSED: SERVER,
    SERVER_RESUMED: SERVER,
    REGISTRY_SERVER_REMOVED: SERVER,
    REGISTRY_UPDATED: CATALOG,
    TOOL_HELD: CATALOG,
    TOOL_DISORDERED: CATALOG,
    SERVER_HELD: SERVER,
    TOOL_IMITATES: CATALOG,
    TOOL_HIDDEN: CATALOG,
    "tools.registry.replaced": CATALOG,
    "config.applied": CONFIG,
    "config.rejected": CONFIG,
    "config.restart.needed": CONFIG,
}

_WITHHELD = {"config.rejected": frozenset({"error"})}
"""What an error says of a configuration may quote it; the log has it."""


@dataclass(frozen=True, slots=True)
class News:
    """One thing that happened; ``at`` in seconds since 1970."""

    id: int
    topic: str
    data: Mapping[str, Any]
    at: float


def news_of(event: Event) -> tuple[str, dict[str, Any]] | None:
    """The topic and the data of an event that is news; ``None`` for all others."""
    topic = _TOPIC_OF.get(event.name)
    if topic is None:
        return None
    withheld = _WITHHELD.get(event.name, frozenset())
    fields = {key: _plain(value) for key, value in event.fields.items() if key not in withheld}
    return topic, {"event": event.name, "severity": event.level} | fields


def _plain(value: object) -> str | int | float | bool | None:
    """The value, if it is a number; else one short line without control characters."""
    if value is None or isinstance(value, int | float):
        return value
    text = str(value)[:TEXT_MAX]
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


@dataclass(frozen=True, slots=True)
class Stay:
    """One connected client; ``id`` is for display and cannot be used to enter its session."""

    id: str
    client: str
    """What the client calls itself; not to be believed."""
    era: str
    caller: Caller
    age_s: float
    idle_s: float
    end: Callable[[], None]
