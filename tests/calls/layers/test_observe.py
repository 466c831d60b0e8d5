"""Observe: whoever looks on at a call, all see the same of it."""

import asyncio
import contextlib
import weakref

import msgspec
import pytest

from toolcrib.calls.layers import observe as observing
from toolcrib.calls.layers.observe import Told, Watchers, observe
from toolcrib.calls.live import GAVE_UP, UNFIT, Live
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.core.access import Caller, Decision, Grants
from toolcrib.core.audit import NoAudit
from toolcrib.core.errors import CallEnded, InvalidArguments, PermissionDenied, ToolFailed, UnknownTool
from toolcrib.core.events import Event
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import ErrorInfo, Request, RequestContext, Result
from toolcrib.testing import ManualClock, MemoryAudit

SYSTEM = SecurityLevel.SYSTEM
FINE = Result(raw=b"{}")
FAILED = Result({"content": [], "isError": True}, error=ErrorInfo("TOOL_EXECUTION_FAILED", "no luck"))


class Watched:
    """One tool with everybody looking on, by one clock."""

    def __init__(self) -> None:
        self.clock, self.metrics, self.events = ManualClock(), Metrics(), list[Event]()
        self.log, self.live = MemoryAudit(), Live(ManualClock(1000.0), self.clock)
        self._watchers = Watchers(self.metrics, self.events.append, self.log, self.live)

    def around(self, source: Step, **told: object) -> Step:
        layer = observe(self._watchers, Told(self.clock, lambda: "fresh", **told))
        return layer(Subject("srv__work", "srv", Tool("work")), source)

    @property
    def seen(self) -> dict[str, tuple[str, float]]:
        """How the only call ended and how long it took, by each who looked on."""
        [entry], [shown], event = self.log.noted, self.live.recent(), self.events[-1]
        return {
            "log": (entry.outcome, entry.duration_ms),
            "live": (shown.outcome, shown.view().duration_ms),
            "events": (event.fields["code"] or "success", event.fields["seconds"] * 1000),
        }


def call() -> Request:
    return Request("srv__work", "work", {"path": "a"}, "id-1", Caller("me"))


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (FINE, "success"),
        (FAILED, "TOOL_EXECUTION_FAILED"),
        (ToolFailed("no luck"), "TOOL_EXECUTION_FAILED"),
        (PermissionDenied("no"), "TOOL_PERMISSION_DENIED"),
        (KeyError("ours"), "TOOL_INTERNAL"),
        (asyncio.CancelledError(), "TOOL_CANCELLED"),
    ],
)
async def test_everybody_sees_the_same_end_after_the_same_time(outcome, code):
    """However a call ends; and nothing of it is under way any more."""
    watched = Watched()

    async def source(given: Request) -> Result:
        watched.clock.advance(0.25)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    ended = (await asyncio.gather(watched.around(source)(call()), return_exceptions=True))[0]

    assert ended is outcome or isinstance(ended, type(outcome))
    assert watched.seen == dict.fromkeys(("log", "live", "events"), (code, 250.0))
    assert (watched.metrics.in_flight, watched.live.running()) == (0, [])


async def test_a_call_that_a_person_ends_is_told_to_everybody_as_their_word():
    """Not as a cancellation; and its task is not left cancelled."""
    watched, reached = Watched(), asyncio.Event()

    async def source(given: Request) -> Result:
        reached.set()
        return await asyncio.get_running_loop().create_future()

    running = asyncio.create_task(watched.around(source)(call()))
    await reached.wait()
    assert watched.live.cancel("id-1")

    with pytest.raises(CallEnded, match="A person ended this call"):
        await running
    assert {code for code, _ in watched.seen.values()} == {CallEnded.code}
    assert running.cancelling() == 0


async def test_what_is_known_of_the_arguments_is_the_same_in_the_log_and_on_the_page():
    """Their shape, found out once; no value."""
    watched = Watched()

    async def source(given: Request) -> Result:
        return FINE

    await watched.around(source)(call())

    [entry], [shown] = watched.log.noted, watched.live.recent()
    assert entry.details == {"arguments_size": 12, "arguments": {"path": "string 1"}, "result_size": 2}
    assert (shown.arguments, shown.trace_id) == ({"path": "string 1"}, entry.trace_id)


@pytest.mark.parametrize("outcome", [FINE, FAILED, ToolFailed("no luck")])
@pytest.mark.parametrize(("took_s", "is_slow"), [(2.0, False), (2.001, True)])
async def test_whatever_takes_longer_than_it_may_is_told_as_slow(outcome, took_s, is_slow):
    """However it ends; exactly as long is not longer."""
    watched = Watched()

    async def source(given: Request) -> Result:
        watched.clock.advance(took_s)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    await asyncio.gather(watched.around(source, slow_s=2.0)(call()), return_exceptions=True)

    assert [event.name for event in watched.events].count("call.slow") == is_slow


@pytest.mark.parametrize(
    ("outcome", "counts", "decision"),
    [
        (FINE, (1, 0, 0), "allowed"),
        (FAILED, (1, 1, 0), "allowed"),
        (ToolFailed("x"), (1, 1, 0), "allowed"),
        (PermissionDenied("x"), (0, 0, 1), "denied"),
        (asyncio.CancelledError(), (0, 0, 1), "allowed"),
    ],
)
async def test_each_end_is_counted_and_its_decision_written(outcome, counts, decision):
    watched = Watched()

    async def source(given: Request) -> Result:
        assert watched.metrics.in_flight == 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    await asyncio.gather(watched.around(source)(call()), return_exceptions=True)

    tally = watched.metrics.of("srv__work")
    assert (tally.executed, tally.failed, tally.refused) == counts
    assert [entry.decision for entry in watched.log.noted] == [decision]


async def test_a_call_of_a_hidden_tool_leaves_what_one_of_no_tool_leaves():
    """No server, no level, no time, and nothing in the counts of the tool."""
    watched = Watched()

    async def source(given: Request) -> Result:
        given.context.decision = Decision.HIDDEN
        watched.clock.advance(5.0)
        raise UnknownTool("srv__work")

    await asyncio.gather(watched.around(source)(call()), return_exceptions=True)

    [entry] = watched.log.noted
    assert (entry.server, entry.level, entry.duration_ms, entry.outcome) == ("", "", None, UnknownTool.code)
    assert watched.metrics.of("srv__work").executed == 0
    assert watched.metrics.unknown == {UnknownTool.code: 1}
    assert watched.events[-1].fields["seconds"] == 0.0
    assert watched.live.recent()[0].view().duration_ms == 0.0


@pytest.mark.parametrize(("servers", "shown"), [(("srv",), ("srv", "write")), (("other",), ("", ""))])
async def test_what_is_shown_of_a_tool_depends_on_what_its_caller_may_know(servers, shown):
    watched = Watched()

    async def source(given: Request) -> Result:
        return FINE

    step = watched.around(source)
    for number in range(2):
        await step(Request("srv__work", "work", {}, f"id-{number}", Caller("me", grants=Grants(SYSTEM, servers))))

    assert {(one.server, one.level) for one in watched.live.recent()} == {shown}


TRACEPARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"


@pytest.mark.parametrize(
    ("meta", "already", "is_written", "trace_id"),
    [
        ({"traceparent": TRACEPARENT}, "", True, "ab" * 16),
        ({"progressToken": 1}, "", True, "fresh"),
        ({}, "", True, "fresh"),
        ({"traceparent": TRACEPARENT}, "", False, "ab" * 16),
        ({"traceparent": TRACEPARENT}, "known", False, "known"),
        ({}, "", False, "fresh"),
        ({}, "known", True, "known"),
    ],
)
async def test_a_call_belongs_to_the_trace_its_caller_named(meta, already, is_written, trace_id):
    """Without one it gets one of its own, whoever looks on."""
    watched = Watched()
    watched.log = watched.log if is_written else NoAudit()
    watched._watchers = Watchers(watched.metrics, watched.events.append, watched.log, watched.live)
    asked = msgspec.structs.replace(call(), meta=meta, context=RequestContext(trace_id=already))

    await watched.around(answer_fine)(asked)

    [shown] = watched.live.recent()
    assert (asked.context.trace_id, shown.trace_id, shown.arguments) == (trace_id, trace_id, {"path": "string 1"})


async def answer_fine(given: Request) -> Result:
    return FINE


class Quiet(list[Event]):
    """Somebody whom only what matters is told."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def hears(self, level: str) -> bool:
        return level != "debug"


@pytest.mark.parametrize(("outcome", "told"), [(FINE, []), (FAILED, ["TOOL_EXECUTION_FAILED"])])
async def test_only_failures_are_told_to_whoever_does_not_hear_of_successes(outcome, told):
    heard, clock = Quiet(), ManualClock()

    async def source(given: Request) -> Result:
        return outcome

    step = observe(Watchers(Metrics(), heard), Told(clock))(Subject("srv__work", "srv", Tool("work")), source)
    await step(call())

    assert [event.fields["code"] for event in heard] == told


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (FINE, ""),
        (FAILED, "no luck"),
        (Result({}, error=ErrorInfo(InvalidArguments.code, "a secret value")), UNFIT),
        (ToolFailed("no luck"), "no luck"),
        (asyncio.CancelledError(), GAVE_UP),
    ],
)
async def test_the_page_says_why_a_call_failed_and_shows_no_values(outcome, message):
    watched = Watched()

    async def source(given: Request) -> Result:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    await asyncio.gather(watched.around(source)(call()), return_exceptions=True)

    assert watched.live.recent()[0].message == message


@pytest.mark.parametrize(("decision", "written"), [("", "allowed"), (Decision.ASK, "ask")])
async def test_the_log_holds_what_was_decided_and_mended_of_a_call(decision, written):
    watched = Watched()

    async def source(given: Request) -> Result:
        given.context.decision, given.context.repairs = decision, ("path: number to text",)
        watched.clock.advance(0.0012346)
        return FINE

    await watched.around(source)(call())

    [entry] = watched.log.noted
    assert (entry.decision, entry.duration_ms, "repairs" in entry.details) == (written, 1.235, True)
    assert (entry.server, entry.caller, entry.execution_id, entry.level) == ("srv", "me", "id-1", "write")


class Released(Grants):
    """Grants of which one can tell when nobody holds them any more."""


async def test_what_callers_may_know_is_remembered_for_so_many_of_them_only(monkeypatch):
    """The next one after that has it forgotten and begun anew."""
    monkeypatch.setattr(observing, "GRANTS_KEPT", 2)
    step = observe(Watchers(Metrics(), live=Live(ManualClock(), ManualClock(), keep=0)), Told(ManualClock()))(
        Subject("srv__work", "srv", Tool("work")), answer_fine
    )
    held, counts = [], []
    for server in ("a", "b", "c"):
        grants = Released(SYSTEM, (server,))
        held.append(weakref.ref(grants))
        await step(Request("srv__work", "work", {}, server, Caller("me", grants=grants)))
        del grants
        counts.append(sum(ref() is not None for ref in held))

    assert counts == [1, 2, 1]


async def test_a_long_call_is_written_down_with_its_exact_time():
    watched = Watched()

    async def source(given: Request) -> Result:
        watched.clock.advance(100.0)
        return FINE

    await watched.around(source)(call())

    assert [entry.duration_ms for entry in watched.log.noted] == [100_000.0]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(FINE, "success"), (FAILED, "TOOL_EXECUTION_FAILED"), (PermissionDenied("no"), "TOOL_PERMISSION_DENIED")],
)
async def test_what_the_page_looks_at_is_written_down_and_counts_as_no_call(outcome: Result | Exception, code: str):
    """Neither the tallies nor the live view know of it."""
    watched = Watched()

    async def source(_: Request) -> Result:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    visit = call()
    visit.context.is_visit = True
    with contextlib.suppress(PermissionDenied):
        await watched.around(source)(visit)

    [entry] = watched.log.noted
    assert (entry.event, entry.outcome, entry.caller) == ("visit", code, "me")
    assert (entry.trace_id, entry.details["arguments"]) == ("fresh", {"path": "string 1"})
    assert (watched.metrics.totals()["executed"], watched.metrics.in_flight, watched.live.begun) == (0, 0, 0)
    assert watched.events == []
