"""From configuration to the layers that every call passes: their list, and what they share."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.calls.approvals import AnswerBook, Approvals, ApprovalSettings
from toolcrib.calls.elicit import ClientSurface, Seal
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.layers.approve import approve
from toolcrib.calls.layers.arguments import arguments, normalise
from toolcrib.calls.layers.audit import witness
from toolcrib.calls.layers.breaker import Breakers, breaker
from toolcrib.calls.layers.deadline import deadline, freshen, replay
from toolcrib.calls.layers.fleet_limit import fleet_limit
from toolcrib.calls.layers.keep import KeepSettings, keep
from toolcrib.calls.layers.limit import limit, start
from toolcrib.calls.layers.observe import Told, Watchers, at_source, observe
from toolcrib.calls.layers.permit import IsolationOf, permit, shelter
from toolcrib.calls.layers.result import result
from toolcrib.calls.marks import Marks
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.config.model import Config
from toolcrib.config.references import Environment
from toolcrib.core.audit import Audit, AuditEntry, NoAudit
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.clocks import Moments, elapsed
from toolcrib.core.errors import ConfigError, ToolcribError, ToolFailed
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.kinds import IsolationLevel
from toolcrib.crib.backend import find_backend
from toolcrib.crib.servers import Rig
from toolcrib.stores.audit.note import HeadNote, NotedPlace
from toolcrib.stores.audit.writer import QueuedAudit
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import witness_directory
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


def audit_place(config: Config, around: Environment) -> NotedPlace:
    """Where the audit log is, whether it is switched on or not; its head is noted elsewhere."""
    return noted(find_backend(config, around))


def noted(backend: Backend) -> NotedPlace:
    """The same of what is kept in one place."""
    place = backend.audit()
    return NotedPlace(place, HeadNote.of(place, witness_directory(backend.around.env)))


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


async def write_down(config: Config, around: Environment, entry: AuditEntry) -> None:
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


def make_rig(
    config: Config, emit: Emit, answers: AnswerBook, log: Audit | None = None, marks: Marks | None = None
) -> Rig:
    """What the layers of one Crib share."""
    inbox = Inbox(time.monotonic)
    settings = ApprovalSettings(config.security.ask_timeout_s)
    audit_log = log or NoAudit()
    desk = Approvals(answers, settings, audit_log, emit=emit, surfaces=[ClientSurface(), inbox], marks=marks)
    return Rig(emit, Metrics(), Breakers(time.monotonic), desk, inbox, audit_log)


async def nowhere(subject: Subject) -> IsolationLevel | None:
    """An ``IsolationOf`` where nothing is isolated."""
    del subject
    return IsolationLevel.NONE


def layer_stack(
    config: Config,
    rig: Rig,
    onlookers: Onlookers = NOBODY,
    isolation_of: IsolationOf = nowhere,
    own: Sequence[Layer] = (),
) -> list[Layer]:
    """What every call passes, first to last; ``own`` are the program's, which see only what may be run."""

    def unchecked(tool: str, reason: str) -> None:
        rig.emit(Event("tool.unchecked", "warning", {"tool": tool, "reason": reason}))

    clock = time.perf_counter if rig.live is None else rig.live.clock
    told = Told(clock, redact=onlookers.redact, slow_s=config.slow_call_s)
    return [
        *onlookers.spans(),
        observe(Watchers(rig.metrics, rig.emit, rig.log, rig.live), told),
        permit(),
        shelter(config.isolation.minimum, isolation_of),
        approve(rig.desk, make_seal(config.security.ask_timeout_s, rig.desk.secret)),
        deadline(config.call_timeout_s),
        _limiting(config, rig),
        witness(rig.log),
        *_keeping(config, rig),
        normalise(rig.emit),
        arguments(unchecked, rig.helpers, rig.emit),
        result(unchecked, rig.helpers),
        *own_layers(own),
        breaker(rig.breakers, rig.emit),
        replay(),
        start(config.limits, rig.breakers.clock),
        freshen(),
        *([] if rig.live is None else [at_source()]),
    ]


def own_layers(layers: Sequence[Layer]) -> list[Layer]:
    """A program's own layers; what they raise becomes an error with a code."""
    for each in layers:
        if not callable(each):
            raise ConfigError(
                f"{each!r:.80} is not a layer.",
                hint="A layer is a function of a Subject and the next Step that returns a Step: see toolcrib.Layer.",
            )
    return [_guard, *layers] if layers else []


def _guard(subject: Subject, following: Step) -> Step:
    """Around a program's own layers; what comes from further inside has a code already."""

    async def step(call: ToolCall) -> ToolResult:
        try:
            outcome = await following(call)
        except ToolcribError:
            raise
        except Exception as error:  # the edge of the program's own code
            told = f"{subject.name} was ended by a layer of the program: {type(error).__name__}: {error}"
            raise ToolFailed(told.removesuffix(": ")) from error
        if isinstance(outcome, ToolResult):
            return outcome
        gave = f"it gave {type(outcome).__name__}, not a toolcrib.ToolResult"
        raise ToolFailed(f"{subject.name} was ended by a layer of the program: {gave}.")

    return step


def make_seal(lifetime_s: float, secret: bytes) -> Seal:
    """For what stateless clients carry; by a clock that nobody sets, unless replicas must agree on when it ends."""
    return Seal(Moments() if secret else elapsed, lifetime_s, secret)


def _limiting(config: Config, rig: Rig) -> Layer:
    """With other replicas, limits hold over all of them."""
    if rig.fleet is None:
        return limit(config.limits, rig.breakers)
    return fleet_limit(config.limits, rig.breakers, rig.fleet)


def _keeping(config: Config, rig: Rig) -> list[Layer]:
    """Without a place for them, no result is too large."""
    if rig.results is None:
        return []
    return [keep(rig.results, KeepSettings(config.results.limit, config.results.keep_s), rig.emit, rig.helpers)]
