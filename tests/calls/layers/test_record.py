"""Record: what was run, how it went and how long it took, by a clock that stands still."""

import asyncio

import msgspec
import pytest

from toolcrib.calls.layers.observe import Told, Watchers, count_raised, observe, slow
from toolcrib.calls.metrics import RECENT, Metrics
from toolcrib.calls.pipeline import Subject
from toolcrib.core import events
from toolcrib.core.access import Caller
from toolcrib.core.errors import CallTimeout, InvalidArguments, SourceUnavailable
from toolcrib.core.events import Event
from toolcrib.core.offers import Tool
from toolcrib.core.requests import ErrorInfo, Request, Result
from toolcrib.testing import ManualClock

FINE = Result({"content": []})
FAILED = Result({"content": [], "isError": True}, error=ErrorInfo("TOOL_EXECUTION_FAILED", "no luck"))


class Recorded:
    """The layer around a source that takes as long, and ends, as it is told."""

    def __init__(self, slow_s: float = 1.0) -> None:
        self.clock, self.metrics, self.events = ManualClock(), Metrics(), list[Event]()
        self._seconds, self._outcome = 0.0, FINE
        layer = observe(Watchers(self.metrics, self.events.append), Told(self.clock, lambda: "ab", slow_s=slow_s))
        self._step = layer(Subject("srv__work", "srv", Tool("work")), self._source)

    async def _source(self, call: Request) -> Result:
        self.clock.advance(self._seconds)
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    async def run(self, outcome: object = FINE, seconds: float = 0.25) -> object:
        self._seconds, self._outcome = seconds, outcome
        call = Request("srv__work", "work", {"secret": "value"}, "id-1", Caller("me"))
        try:
            return await self._step(call)
        except BaseException as error:
            return error

    @property
    def tally(self) -> dict:
        return msgspec.to_builtins(self.metrics.tools["srv__work"].view())


def finished(code: str, level: str, seconds: float = 0.25) -> Event:
    fields = {"tool": "srv__work", "id": "id-1", "trace_id": "ab", "caller": "me", "seconds": seconds, "code": code}
    return Event(events.CALL_FINISHED, level, fields)


async def test_a_good_call_is_counted_and_told_quietly():
    """Name, id, caller, duration; never an argument."""
    recorded = Recorded()

    assert await recorded.run() is FINE

    assert recorded.events == [finished("", "debug")]
    assert recorded.tally == {
        "executed": 1,
        "failed": 0,
        "timedOut": 0,
        "refused": 0,
        "totalSeconds": 0.25,
        "slowestSeconds": 0.25,
        "cpuSeconds": 0.0,
        "peakMemoryBytes": 0,
        "resultBytes": 0,
        "lastError": "",
        "health": "healthy",
    }


@pytest.mark.parametrize(
    ("outcome", "code", "last_error", "timed_out"),
    [
        (FAILED, "TOOL_EXECUTION_FAILED", "no luck", 0),
        (SourceUnavailable("down"), "TOOL_UNAVAILABLE", "down", 0),
        (CallTimeout("late"), "TOOL_TIMEOUT", "late", 1),
        (KeyError("bug"), "TOOL_INTERNAL", "'bug'", 0),
    ],
)
async def test_a_bad_call_is_counted_told_and_passed_on(outcome, code, last_error, timed_out):
    """As a result or as an exception, whichever it was."""
    recorded = Recorded()

    assert await recorded.run(outcome) is outcome

    assert recorded.events == [finished(code, "warning")]
    assert recorded.tally == {
        "executed": 1,
        "failed": 1,
        "timedOut": timed_out,
        "refused": 0,
        "totalSeconds": 0.25,
        "slowestSeconds": 0.25,
        "cpuSeconds": 0.0,
        "peakMemoryBytes": 0,
        "resultBytes": 0,
        "lastError": last_error,
        "health": "unhealthy",
    }


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(asyncio.CancelledError(), "TOOL_CANCELLED"), (InvalidArguments("no"), "TOOL_INVALID_INPUT")],
)
async def test_what_the_caller_did_is_told_but_is_no_failure_of_the_tool(outcome, code):
    """Giving up, or asking wrongly, leaves the tool as healthy as it was."""
    recorded = Recorded()

    assert await recorded.run(outcome) is outcome

    assert recorded.events == [finished(code, "warning")]
    assert (recorded.tally["failed"], recorded.tally["refused"], recorded.tally["health"]) == (0, 1, "healthy")


@pytest.mark.parametrize("outcome", [FINE, FAILED, CallTimeout("late")])
async def test_a_slow_call_is_warned_about_however_it_ends(outcome):
    """With its name and duration; one exactly at the limit is not slow."""
    recorded = Recorded()

    await recorded.run(outcome, seconds=1.0)
    await recorded.run(outcome, seconds=1.5)

    assert [event for event in recorded.events if event.name == events.CALL_SLOW] == [
        Event(events.CALL_SLOW, "warning", {"tool": "srv__work", "id": "id-1", "trace_id": "ab", "seconds": 1.5})
    ]


async def test_health_follows_the_recent_calls():
    """Most failed: unhealthy; some: degraded; after enough good ones: healthy again."""
    recorded = Recorded()
    seen = []

    for outcome in [FINE, FAILED, FAILED, FAILED, FINE, FINE] + [FINE] * (RECENT - 2):
        await recorded.run(outcome)
        seen.append(recorded.tally["health"])

    assert seen[:6] == ["healthy", "degraded", "unhealthy", "unhealthy", "unhealthy", "degraded"]
    assert seen[-3:] == ["degraded", "degraded", "healthy"]


async def test_a_tool_that_always_fails_is_unhealthy_for_good():
    """Past successes do not count for ever."""
    recorded = Recorded()
    await recorded.run(FINE)

    for _ in range(3 * RECENT):
        await recorded.run(FAILED)

    assert recorded.tally["health"] == "unhealthy"


async def test_totals_are_sums_over_all_tools():
    """What the health page shows."""
    recorded = Recorded()
    await recorded.run(seconds=0.5)
    await recorded.run(CallTimeout("late"), seconds=0.5)
    recorded.metrics.of("other").executed = 3

    assert recorded.metrics.totals() == {"executed": 5, "failed": 1, "timedOut": 1, "totalSeconds": 1.0}


async def test_nothing_is_told_to_nobody():
    """Without a listener, good calls make no events."""
    metrics = Metrics()

    async def source(call: Request) -> Result:
        return FINE

    step = observe(Watchers(metrics), Told(ManualClock()))(Subject("a", "", Tool("a")), source)

    assert await step(Request("a", "a", {})) is FINE
    assert metrics.of("a").executed == 1


@pytest.mark.parametrize(("outcome", "told"), [(FINE, []), (FAILED, ["warning"])])
async def test_where_only_warnings_are_heard_success_is_not_put_into_words(outcome, told):
    """What went wrong is told as ever; both are counted."""
    metrics, heard = Metrics(), list[Event]()

    class Serious:
        def hears(self, level: str) -> bool:
            return level == "warning"

        def __call__(self, event: Event) -> None:
            heard.append(event)

    async def source(call: Request) -> Result:
        return outcome

    step = observe(Watchers(metrics, Serious()), Told(ManualClock()))(Subject("a", "", Tool("a")), source)
    await step(Request("a", "a", {}))

    assert [event.level for event in heard] == told
    assert metrics.of("a").executed == 1


@pytest.mark.parametrize(("error", "told"), [(KeyError("x"), "'x'"), (ValueError(), "ValueError")])
def test_an_error_without_words_is_told_by_its_kind(error, told):
    tally = Metrics().of("srv__work")

    count_raised(tally, 0.5, error)

    assert (tally.failed, tally.last_error) == (1, told)


def test_how_long_a_slow_call_took_is_told_to_the_millisecond():
    told = slow(Request("srv__work", "work", {}, "id-1"), 1.23456)

    assert (told.level, told.fields) == ("warning", {"tool": "srv__work", "id": "id-1", "seconds": 1.235})


@pytest.mark.parametrize(
    ("wanted", "code", "level"), [("info", "", "info"), ("debug", "", "debug"), ("info", "x", "warning")]
)
async def test_calls_that_went_well_are_told_at_the_level_that_is_wanted(wanted, code, level):
    """As quietly as ever unless somebody says otherwise; failures are warnings always."""
    heard, outcome = list[Event](), FAILED if code else FINE

    async def source(call: Request) -> Result:
        return outcome

    layer = observe(Watchers(Metrics(), heard.append), Told(ManualClock(), level=wanted))
    await layer(Subject("srv__work", "srv", Tool("work")), source)(Request("srv__work", "work", {}, "id-1"))

    assert [(event.name, event.level) for event in heard] == [(events.CALL_FINISHED, level)]
