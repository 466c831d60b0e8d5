"""What toolcrib tells about itself: small named events with plain fields, never argument values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

DISCOVERY_STARTED = "tools.discovery.started"
DISCOVERY_SERVER_SUCCESS = "tools.discovery.server.success"
DISCOVERY_SERVER_FAILED = "tools.discovery.server.failed"
REGISTRY_UPDATED = "tools.registry.updated"
REGISTRY_SERVER_REMOVED = "tools.registry.server.removed"
TOOL_IMITATES = "tool.imitates"
TOOLS_LEFT_OUT = "tools.left_out"
SERVER_CONNECTING = "server.connecting"
SERVER_CONNECTED = "server.connected"
SERVER_LOST = "server.lost"
SERVER_STOPPED = "server.stopped"
SERVER_CREATED = "server.created"
SERVER_CHANGED = "server.changed"
SERVER_REMOVED = "server.removed"
TOOL_HELD = "tool.held"
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


Emit = Callable[[Event], None]


def drop(event: Event) -> None:
    """An ``Emit`` for those who do not listen."""


def hears(emit: Emit, level: str) -> bool:
    """Whether it makes a difference to tell of something of that level; an ``Emit`` with a ``hears`` of its own says so
    itself, once and for all, so that what happens all the time need not be put into words nobody reads."""
    own = getattr(emit, "hears", None)
    return bool(own(level)) if own is not None else emit is not drop
