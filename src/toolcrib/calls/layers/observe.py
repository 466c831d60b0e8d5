"""Observe: each call is counted and timed, told where it matters, written down, and shown while it runs.

All of that is one layer, because it is done for every call: a layer for each would be a coroutine for each.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from toolcrib.calls.layers.audit import (
    facts_of,
    plain_names,
    result_values,
    shape_of,
    size_of,
    told_repairs,
    trace_id_of,
    unknown_call,
)
from toolcrib.calls.live import GAVE_UP, UNFIT, About, Live, LiveCall, ended_by_person, message_of
from toolcrib.calls.metrics import Metrics, ToolMetrics
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core import events
from toolcrib.core.access import EVERYTHING, NATIVE, Decision, Grants, decide
from toolcrib.core.audit import VISIT, Audit, AuditEntry, NoAudit
from toolcrib.core.errors import CallEnded, CallerError, CallTimeout, InvalidArguments, PermissionDenied, ToolcribError
from toolcrib.core.events import Emit, Event, trace_ids
from toolcrib.core.requests import ErrorInfo, Request, Result, told_of


def at_source() -> Layer:
    """Mark the moment a call comes to its source: what is left of it is the tool's own time."""

    def layer(subject: Subject, following: Step) -> Step:
        del subject

        def step(call: Request) -> Awaitable[Result]:
            live = call.context.live
            if live is not None:
                live.reach_tool()
            return following(call)

        return step

    return layer


def count_raised(tally: ToolMetrics, elapsed_s: float, error: BaseException) -> None:
    """What the caller did wrong, or somebody gave up, is no failure of the tool."""
    if isinstance(error, CallerError | CallEnded) or not isinstance(error, Exception):
        tally.note_refused(code_of(error))
        return
    tally.note_failed(elapsed_s, code_of(error), str(error) or type(error).__name__)
    if isinstance(error, CallTimeout):
        tally.timed_out += 1


def code_of(error: BaseException) -> str:
    """The code of whatever ended a call."""
    if isinstance(error, ToolcribError):
        return error.code
    return "TOOL_INTERNAL" if isinstance(error, Exception) else "TOOL_CANCELLED"


def finished(call: Request, elapsed_s: float, code: str, level: str = "warning") -> Event:
    """A call has ended, with an error if there is a code."""
    return Event(
        events.CALL_FINISHED,
        level,
        {**told_of(call), "caller": call.caller.id, "seconds": elapsed_s, "code": code},
    )


def slow(call: Request, elapsed_s: float) -> Event:
    """A call has taken long."""
    return Event(events.CALL_SLOW, "warning", {**told_of(call), "seconds": round(elapsed_s, 3)})


SUCCESS = "success"
GRANTS_KEPT = 256
UNKNOWN: About = ("", "")
"""What is shown of a tool to a caller who may not know of it."""


@dataclass(frozen=True, slots=True)
class Watchers:
    """Who looks on: the tallies, whoever hears of events, the audit log, and people."""

    metrics: Metrics
    emit: Emit = events.drop
    log: Audit = field(default_factory=NoAudit)
    live: Live | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """How much is told, and by which clock."""

    clock: Callable[[], float]
    new_trace_id: Callable[[], str] = field(default_factory=lambda: trace_ids().__next__)
    redact: Callable[[str], str] | None = None
    """Takes the secrets out of encoded arguments and results; ``None``: neither is written down at all."""
    level: str = "debug"
    """Of what is told of a call that went well."""
    slow_s: float = math.inf
    """Whatever takes longer is told as a warning."""


def observe(watchers: Watchers, told: Told) -> Layer:
    """Note how each call ended, however it ended; a call that a person ends fails with their word."""

    def layer(subject: Subject, following: Step) -> Step:
        watch = _Watch(subject, watchers, told)
        metrics, clock = watchers.metrics, told.clock

        async def step(call: Request) -> Result:
            began = clock()
            if call.context.is_visit:
                return await watch.visit(call, following, began)
            entry = watch.begin(call, began)
            metrics.in_flight += 1
            try:
                result = await following(call)
            except BaseException as error:
                metrics.in_flight -= 1
                seen = watch.settle(call, entry, error)
                watch.fail(call, entry, began, seen)
                if seen is error:
                    raise
                raise seen from None
            metrics.in_flight -= 1
            watch.finish(call, entry, began, result)
            return result

        return step

    return layer


class _Watch:
    """Looks on at the calls of one tool."""

    __slots__ = (
        "_about",
        "_abouts",
        "_clock",
        "_emit",
        "_event",
        "_known",
        "_live",
        "_log",
        "_metrics",
        "_reach",
        "_tally",
        "_tells_success",
        "_told",
        "_writes",
    )

    def __init__(self, subject: Subject, watchers: Watchers, told: Told) -> None:
        self._emit, self._log, self._live = watchers.emit, watchers.log, watchers.live
        self._told, self._clock = told, told.clock
        self._about = subject.server or NATIVE, str(subject.offer.security_level)
        self._reach, self._abouts = subject.reach, dict[Grants, About]()
        self._known = plain_names(subject.offer.input_schema)
        self._metrics, self._tally = watchers.metrics, watchers.metrics.of(subject.key)
        self._event = str(subject.kind)
        self._tells_success = events.hears(watchers.emit, told.level)
        self._writes = not isinstance(watchers.log, NoAudit)

    def begin(self, call: Request, began: float) -> LiveCall | None:
        """Find out what shall be known of a call, and show it."""
        live, context = self._live, call.context
        if not context.trace_id:
            context.trace_id = (call.meta and trace_id_of(call.meta)) or self._told.new_trace_id()
        context.security_level = self._about[1]
        if self._writes:
            context.facts = facts_of(call, self._told.redact, self._known)
        elif live is not None:
            context.facts = {"arguments": shape_of(call.arguments, self._known)}
        if live is None:
            return None
        grants = call.caller.grants
        about = self._about if grants is EVERYTHING else self._abouts.get(grants) or self._about_for(grants)
        entry = context.live = live.open(call, about, context.facts["arguments"], began)
        return entry

    async def visit(self, call: Request, following: Step, began: float) -> Result:
        """Only write down what the page looks at: nobody called anything."""
        call.context.trace_id = call.context.trace_id or self._told.new_trace_id()
        if self._writes:
            call.context.facts = facts_of(call, self._told.redact, self._known)
        try:
            result = await following(call)
        except BaseException as error:
            ruling = "denied" if isinstance(error, PermissionDenied) else "allowed"
            self._note_visit(call, began, code_of(error), ruling)
            raise
        self._note_visit(call, began, SUCCESS if result.error is None else result.error.code, "allowed")
        return result

    def _note_visit(self, call: Request, began: float, outcome: str, ruling: str) -> None:
        if self._writes:
            self._write(call, self._clock() - began, outcome, ruling, VISIT)

    def _about_for(self, grants: Grants) -> About:
        """The server and level of the tool, for a caller who may know of it."""
        about = UNKNOWN if decide(grants, self._reach) is Decision.HIDDEN else self._about
        if len(self._abouts) >= GRANTS_KEPT:
            self._abouts.clear()
        self._abouts[grants] = about
        return about

    def finish(self, call: Request, entry: LiveCall | None, began: float, result: Result) -> None:
        """The tool has answered, if only that it failed."""
        ended, fault = self._clock(), result.error
        elapsed_s, outcome = ended - began, SUCCESS if fault is None else fault.code
        call.context.elapsed_s, size = elapsed_s, size_of(result)
        if entry is not None and self._live is not None:
            message = "" if fault is None else UNFIT if outcome == InvalidArguments.code else fault.message
            self._live.close(entry, ended, outcome, message)
        if self._writes:
            call.context.facts["result_size"] = size
            if self._told.redact is not None:
                call.context.facts["result"] = result_values(result, self._told.redact)
            self._write(call, elapsed_s, outcome, "allowed")
        self._tally.note_use(call.context.cpu_s, call.context.memory_bytes, size)
        if fault is None:
            self._tally.note(elapsed_s, 0)
        else:
            self._tally.note_failed(elapsed_s, outcome, fault.message)
        if fault is not None or self._tells_success:
            self._emit(self._finished(call, elapsed_s, fault))
        if elapsed_s > self._told.slow_s:
            self._emit(slow(call, elapsed_s))

    def _finished(self, call: Request, elapsed_s: float, fault: ErrorInfo | None) -> Event:
        if fault is None:
            return finished(call, elapsed_s, "", self._told.level)
        return finished(call, elapsed_s, fault.code)

    def settle(self, call: Request, entry: LiveCall | None, error: BaseException) -> BaseException:
        """What really ended a call: a cancellation may be the word of a person."""
        if isinstance(error, asyncio.CancelledError) and entry is not None and self._live is not None:
            return ended_by_person(call.name) if self._live.settles_cancellation(entry) else error
        return error

    def fail(self, call: Request, entry: LiveCall | None, began: float, error: BaseException) -> None:
        """It has ended without an answer."""
        if call.context.decision == Decision.HIDDEN:
            self._fail_hidden(call, entry, began, error)
            return
        ended, code = self._clock(), code_of(error)
        call.context.elapsed_s = elapsed_s = ended - began
        if entry is not None and self._live is not None:
            message = GAVE_UP if isinstance(error, asyncio.CancelledError) else message_of(error)
            self._live.close(entry, ended, code, message)
        if self._writes:
            self._write(call, elapsed_s, code, "denied" if isinstance(error, PermissionDenied) else "allowed")
        self._tally.note_use(call.context.cpu_s, call.context.memory_bytes, 0)
        count_raised(self._tally, elapsed_s, error)
        self._emit(finished(call, elapsed_s, code))
        if elapsed_s > self._told.slow_s:
            self._emit(slow(call, elapsed_s))

    def _fail_hidden(self, call: Request, entry: LiveCall | None, began: float, error: BaseException) -> None:
        """Refused to a caller who may not know of the tool: the records are those of a tool that is not there."""
        code = code_of(error)
        if entry is not None and self._live is not None:
            self._live.close(entry, began, code, message_of(error))
        if self._writes:
            self._log.note(unknown_call(call, code))
        self._metrics.count_unknown(code)
        self._emit(finished(call, 0.0, code))

    def _write(self, call: Request, elapsed_s: float, outcome: str, decision: str, event: str = "") -> None:
        caller, context, (server, level) = call.caller, call.context, self._about
        if context.repairs:
            context.facts["repairs"] = told_repairs(context.repairs)
        entry = AuditEntry(
            event or self._event,
            call.name,
            server,
            caller.id,
            caller.kind,
            call.id,
            context.trace_id,
            level,
            context.decision or decision,
            outcome,
            int(elapsed_s * 1e6 + 0.5) / 1000,  # `round` to three places costs many times as much
            context.facts,
        )
        self._log.note(entry)
