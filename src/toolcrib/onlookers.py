"""Who is told of every call besides the metrics: the audit log, and OpenTelemetry where it is wanted."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolcrib.calls.pipeline import Layer
from toolcrib.config.masks import shown_url
from toolcrib.config.model import Config
from toolcrib.core.audit import Audit, AuditEntry, NoAudit
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event, drop
from toolcrib.shared import find_store
from toolcrib.stores.audit import QueuedAudit
from toolcrib.stores.audit_file import AuditFile
from toolcrib.stores.audit_log import AuditPlace
from toolcrib.stores.audit_note import HeadNote, NotedPlace
from toolcrib.stores.paths import state_directory, witness_directory
from toolcrib.surroundings import Surroundings
from toolcrib.version import VERSION


@dataclass(frozen=True, slots=True)
class Onlookers:
    """What the layers that only look on need besides the log."""

    redact: Callable[[str], str] | None = None
    """Takes the secrets out of arguments whose values shall be in the log; ``None`` keeps values out of it."""
    tracer: Any = None
    """An OpenTelemetry tracer."""

    def spans(self) -> list[Layer]:
        """The layer that opens a span around all others, if there is a tracer."""
        if self.tracer is None:
            return []
        from toolcrib.calls.layers.trace import trace

        return [trace(self.tracer)]


NOBODY = Onlookers()


def audit_place(config: Config, around: Surroundings) -> NotedPlace:
    """Where the audit log is, whether it is switched on or not; its head is noted elsewhere."""
    place = _audit_place(config, around)
    return NotedPlace(place, HeadNote.of(place, witness_directory(around.env)))


def _audit_place(config: Config, around: Surroundings) -> AuditPlace:
    """In the shared database, or in a file."""
    store = find_store(config.store, around.env)
    if store is None:
        return AuditFile(audit_path(config, around))
    from toolcrib.stores.postgres.audit import AuditTable

    return AuditTable(store, shown_url(store.url))


def audit_path(config: Config, around: Surroundings) -> Path:
    """The file of a log that is in one; a relative path is seen from the working directory."""
    if not config.audit.path:
        return state_directory(around.env) / "audit.db"
    return (around.cwd / Path(config.audit.path).expanduser()).absolute()


def open_audit(config: Config, place: NotedPlace, emit: Emit) -> Audit:
    """The audit log as configured; nothing is opened or imported before the first entry. To be closed."""
    if not config.audit.enabled:
        return NoAudit()
    loop = asyncio.get_running_loop()

    def send(event: Event) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(emit, event)

    def tell(problem: str) -> None:
        name, level = ("audit.unavailable", "error") if problem else ("audit.available", "warning")
        send(Event(name, level, {"problem": problem} if problem else {}))

    def tell_changed(problem: str) -> None:
        send(Event("audit.changed", "error", {"problem": problem}))

    return QueuedAudit(replace(place, tell=tell_changed), time.time_ns, tell)


async def write_down(config: Config, around: Surroundings, entry: AuditEntry) -> None:
    """Put one decision into the audit log from outside a Crib; returns when it will survive a power cut."""
    log = open_audit(config, audit_place(config, around), drop)
    try:
        await log.commit(entry)
    finally:
        await log.close()


def find_tracer(config: Config, env: Mapping[str, str]) -> Any:
    """The OpenTelemetry tracer if spans are wanted, by the configuration or OpenTelemetry's own variables."""
    if not config.telemetry.traces and not _is_hinted(env):
        return None
    try:
        from opentelemetry.trace import get_tracer
    except ImportError:
        if not config.telemetry.traces:
            return None
        hint = "Install toolcrib[otel]."
        raise ConfigError("telemetry.traces is on, but OpenTelemetry is not installed.", hint=hint) from None
    return get_tracer("toolcrib", VERSION)


def _is_hinted(env: Mapping[str, str]) -> bool:
    exporter = env.get("OTEL_TRACES_EXPORTER", "")
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return False
    return bool(exporter or env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
