"""From configuration to the layers that every call passes: their list, and what they share."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from toolcrib.calls.approvals import AnswerBook, Approvals, ApprovalSettings
from toolcrib.calls.elicit import ApprovalSeal, ClientSurface
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.layers.approve import approve
from toolcrib.calls.layers.arguments import arguments, normalise
from toolcrib.calls.layers.audit import witness
from toolcrib.calls.layers.breaker import breaker
from toolcrib.calls.layers.deadline import deadline, freshen, replay
from toolcrib.calls.layers.fleet_limit import fleet_limit
from toolcrib.calls.layers.keep import KeepSettings, keep
from toolcrib.calls.layers.limit import limit, start
from toolcrib.calls.layers.observe import Told, Watchers, at_source, observe
from toolcrib.calls.layers.permit import IsolationOf, permit, shelter
from toolcrib.calls.layers.result import result
from toolcrib.calls.layers.sign_in import sign_in
from toolcrib.calls.layers.skill import skill
from toolcrib.calls.marks import Marks
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.config.model import Config
from toolcrib.core.audit import Audit, AuditEntry, NoAudit
from toolcrib.core.clocks import Moments, elapsed
from toolcrib.core.errors import ConfigError, ToolcribError, ToolFailed
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.kinds import IsolationLevel
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import Request, Result
from toolcrib.core.seal import Seal
from toolcrib.crib.backend import find_backend
from toolcrib.crib.servers import Parts
from toolcrib.stores.audit.note import HeadNote, NotedPlace
from toolcrib.stores.audit.writer import QueuedAudit
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment, witness_directory
from toolcrib.version import VERSION


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


def make_approvals(
    config: Config, emit: Emit, answers: AnswerBook, log: Audit, inbox: Inbox, marks: Marks | None = None
) -> Approvals:
    """What asks people: by the client, or in the inbox."""
    settings = ApprovalSettings(config.security.ask_timeout_s)
    return Approvals(answers, settings, log, emit=emit, surfaces=[ClientSurface(), inbox], marks=marks)


async def nowhere(subject: Subject) -> IsolationLevel | None:
    """An ``IsolationOf`` where nothing is isolated."""
    del subject
    return IsolationLevel.NONE


def layer_stack(
    config: Config,
    parts: Parts,
    own: Sequence[Layer] = (),
    isolation_of: IsolationOf = nowhere,
    redact: Callable[[str], str] | None = None,
    tracer: Any = None,
) -> list[Layer]:
    """What every request passes, first to last; ``own`` are the program's, which see only what may be run.

    ``redact`` takes the secrets out of arguments whose values shall be in the audit log; without it none are. With a
    ``tracer`` of OpenTelemetry, there is a span around all other layers.
    """

    def unchecked(tool: str, reason: str) -> None:
        parts.emit(Event("tool.unchecked", "warning", {"tool": tool, "reason": reason}))

    clock = time.perf_counter if parts.live is None else parts.live.clock
    told = Told(clock, redact=redact, slow_s=config.slow_call_s, level=config.call_log)
    return [
        *_spans(tracer),
        observe(Watchers(parts.metrics, parts.emit, parts.log, parts.live), told),
        permit(),
        shelter(config.isolation.minimum, isolation_of),
        _once(approve(parts.desk, ApprovalSeal(parts.seal, config.security.ask_timeout_s))),
        deadline(config.call_timeout_s, config.call_timeout_total_s),
        *_signing_in(config, parts),
        _once(_limiting(config, parts)),
        _once(witness(parts.log)),
        *_keeping(config, parts),
        _once(normalise(parts.emit)),
        _once(arguments(unchecked, parts.helpers, parts.emit)),
        result(unchecked, parts.helpers),
        skill(),
        *own_layers(own),
        breaker(parts.breakers, parts.emit),
        replay(),
        _once(start(config.limits, parts.breakers.clock)),
        freshen(),
        *([] if parts.live is None else [at_source()]),
    ]


def checking_layers(parts: Parts) -> list[Layer]:
    """What a rehearsal passes: the layers that look at arguments; they tell nobody."""
    return [normalise(drop), arguments(_tell_nobody, parts.helpers)]


def _tell_nobody(tool: str, reason: str) -> None:
    """What cannot be checked of a tool is told when it is called."""


def _once(layer: Layer) -> Layer:
    """A layer that a call passes when it begins, and not again when somebody asks how the work on it stands."""

    @wraps(layer)
    def unless_asked_later(subject: Subject, following: Step) -> Step:
        return following if subject.kind is RequestKind.TASK else layer(subject, following)

    return unless_asked_later


def _spans(tracer: Any) -> list[Layer]:
    if tracer is None:
        return []
    from toolcrib.calls.layers.trace import trace  # needs the extra otel

    return [trace(tracer)]


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

    async def step(call: Request) -> Result:
        try:
            outcome = await following(call)
        except ToolcribError:
            raise
        except Exception as error:  # the edge of the program's own code
            told = f"{subject.name} was ended by a layer of the program: {type(error).__name__}: {error}"
            raise ToolFailed(told.removesuffix(": ")) from error
        if isinstance(outcome, Result):
            return outcome
        gave = f"it gave {type(outcome).__name__}, not a toolcrib.Result"
        raise ToolFailed(f"{subject.name} was ended by a layer of the program: {gave}.")

    return step


def make_seal(secret: bytes) -> Seal:
    """For what stateless clients carry; by a clock that nobody sets, unless replicas must agree on when it ends."""
    return Seal(Moments() if secret else elapsed, secret)


def _limiting(config: Config, parts: Parts) -> Layer:
    """With other replicas, limits hold over all of them."""
    if parts.coordination is None:
        return limit(config.limits, parts.breakers)
    return fleet_limit(config.limits, parts.breakers, parts.coordination)


def _signing_in(config: Config, parts: Parts) -> list[Layer]:
    """Above the limits: whoever is away to sign in keeps no place."""
    return [] if parts.sign_ins is None else [sign_in(parts.sign_ins, config.security.ask_timeout_s)]


def _keeping(config: Config, parts: Parts) -> list[Layer]:
    """Without a place for them, no result is too large."""
    if parts.results is None:
        return []
    return [keep(parts.results, KeepSettings(config.results.limit, config.results.keep_s), parts.emit, parts.helpers)]
