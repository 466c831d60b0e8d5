"""Long work: a call that is answered later. MCP calls it a task and has two shapes of it, one for each era; in here it
is one value, whoever does the work."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from toolcrib.core.kinds import TaskStatus

EXTENSION = "io.modelcontextprotocol/tasks"
"""What the stateless era calls it among the capabilities."""


class TaskState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the work on a call stands."""

    id: str
    """What whoever does the work knows it by: a server's own word, which no client sees, or ours."""
    status: TaskStatus = TaskStatus.WORKING
    message: str = ""
    created_at: str = ""
    """In ISO 8601, as is the next."""
    updated_at: str = ""
    ttl_ms: int | None = None
    """How long after its creation it can be asked about; ``None``: no end is known."""
    poll_ms: int | None = None
    """How long to wait before asking again."""
    requests: bytes = b""
    """What it asks of the client, as the JSON of ``inputRequests``."""
    error: bytes = b""
    """The JSON-RPC error it failed with, as JSON."""
    tool: str = ""
    """The exposed name of the tool that was called: by that it is asked about."""


def declares_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client, or server, of the stateless era says that it knows tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and EXTENSION in extensions


def with_tasks(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The capabilities, and that whoever has them knows tasks."""
    extensions = capabilities.get("extensions")
    known = extensions if isinstance(extensions, Mapping) else {}
    return {**capabilities, "extensions": {**known, EXTENSION: {}}}


def without_tasks(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The capabilities of somebody who does not know tasks."""
    extensions = capabilities.get("extensions")
    if not isinstance(extensions, Mapping):
        return {**capabilities}
    return {**capabilities, "extensions": {name: value for name, value in extensions.items() if name != EXTENSION}}


def moment(seconds: float) -> str:
    """A moment, in seconds since 1970, in ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
