"""News: what happens, in the few topics that people who look on care about; plain values, nothing secret."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.core import events
from toolcrib.core.events import Event

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
    events.DISCOVERY_STARTED: SERVER,
    events.DISCOVERY_SERVER_SUCCESS: SERVER,
    events.DISCOVERY_SERVER_FAILED: SERVER,
    events.SERVER_CREATED: SERVER,
    events.SERVER_CHANGED: SERVER,
    events.SERVER_REMOVED: SERVER,
    events.SERVER_CONNECTING: SERVER,
    events.SERVER_CONNECTED: SERVER,
    events.SERVER_LOST: SERVER,
    events.SERVER_STOPPED: SERVER,
    events.SERVER_PAUSED: SERVER,
    events.SERVER_RESUMED: SERVER,
    events.REGISTRY_SERVER_REMOVED: SERVER,
    events.REGISTRY_UPDATED: CATALOG,
    events.TOOL_HELD: CATALOG,
    events.SERVER_HELD: SERVER,
    events.TOOL_IMITATES: CATALOG,
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
