"""From configuration to the layers that every call passes: their list, and what they share."""

import time

from toolcrib.calls.approvals import AnswerBook, Desk, DeskSettings
from toolcrib.calls.breaker import Breakers
from toolcrib.calls.elicit import ClientSurface, Seal
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.layers.approve import approve
from toolcrib.calls.layers.arguments import arguments
from toolcrib.calls.layers.audit import witness
from toolcrib.calls.layers.breaker import breaker
from toolcrib.calls.layers.deadline import deadline
from toolcrib.calls.layers.fleet_limit import fleet_limit
from toolcrib.calls.layers.keep import KeepSettings, keep
from toolcrib.calls.layers.limit import limit
from toolcrib.calls.layers.live import at_source
from toolcrib.calls.layers.normalise import normalise
from toolcrib.calls.layers.observe import Told, Watchers, observe
from toolcrib.calls.layers.permit import permit
from toolcrib.calls.layers.replay import replay
from toolcrib.calls.layers.result import result
from toolcrib.calls.layers.shelter import IsolationOf, shelter
from toolcrib.calls.layers.start import start
from toolcrib.calls.marks import Marks
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Layer, Subject
from toolcrib.calls.rig import Rig
from toolcrib.config.model import Config
from toolcrib.core.audit import Audit, NoAudit
from toolcrib.core.clocks import Moments, elapsed
from toolcrib.core.events import Emit, Event
from toolcrib.isolate.levels import IsolationLevel
from toolcrib.onlookers import NOBODY, Onlookers


def make_rig(
    config: Config, emit: Emit, answers: AnswerBook, log: Audit | None = None, marks: Marks | None = None
) -> Rig:
    """What the layers of one Crib share."""
    inbox = Inbox(time.monotonic)
    settings = DeskSettings(config.security.ask_timeout_s)
    audit_log = log or NoAudit()
    desk = Desk(answers, settings, audit_log, emit=emit, surfaces=[ClientSurface(), inbox], marks=marks)
    return Rig(emit, Metrics(), Breakers(time.monotonic), desk, inbox, audit_log)


async def nowhere(subject: Subject) -> IsolationLevel | None:
    """An ``IsolationOf`` where nothing is isolated."""
    del subject
    return IsolationLevel.NONE


def layer_stack(
    config: Config, rig: Rig, onlookers: Onlookers = NOBODY, isolation_of: IsolationOf = nowhere
) -> list[Layer]:
    """What every call passes, first to last."""

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
        breaker(rig.breakers, rig.emit),
        replay(),
        start(config.limits, rig.breakers.clock),
        *([] if rig.live is None else [at_source()]),
    ]


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
