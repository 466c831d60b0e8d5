"""Breaker: a server that keeps failing is left alone; its callers are told why and until when."""

import asyncio

import pytest

from toolcrib.calls.layers.breaker import Breakers, BreakerWatch, breaker, refuse_if_open
from toolcrib.calls.layers.deadline import deadline, replay
from toolcrib.calls.pipeline import Subject, compose
from toolcrib.config.model import Config, ServerConfig
from toolcrib.core.errors import (
    CallTimeout,
    ConnectionLost,
    InternalError,
    InvalidArguments,
    OutcomeUnknown,
    ProtocolError,
    RemoteError,
    SourceUnavailable,
    ToolcribError,
    ToolFailed,
)
from toolcrib.core.events import Event, drop
from toolcrib.core.offers import Tool
from toolcrib.core.requests import ErrorInfo, Request, RequestContext, Result
from toolcrib.testing import FakeSource, ManualClock, memory_crib

FAILED = Result({"content": [], "isError": True}, error=ErrorInfo("TOOL_EXECUTION_FAILED", "no"))
GONE = SourceUnavailable("The server 'files' went away.", hint="Try: restart it.")
TINY_S = 0.001


class Bench:
    """A fake server behind deadline, breaker and replay, with a clock in hand."""

    def __init__(self, timeout_s: float = 60.0) -> None:
        self.clock, self.events = ManualClock(), list[Event]()
        self.breakers = Breakers(self.clock)
        self.source = FakeSource("files", ["read"])
        layers = [deadline(60.0), breaker(self.breakers, self.events.append), replay()]
        self.step = compose(
            layers, Subject("files__read", "files", Tool("read", timeout_s=timeout_s)), self.source.answer
        )

    @property
    def state(self) -> str:
        return self.breakers.standing("files")[0]

    async def call(self, answer: object = "fine", timeout_s: float | None = None) -> object:
        """What comes of a call that the server answers like this."""
        self.source.answers["read"] = answer
        try:
            return await self.step(Request("files__read", "read", {}, timeout_s=timeout_s))
        except (ToolcribError, asyncio.CancelledError) as error:
            return error

    async def open(self) -> None:
        for _ in range(5):
            await self.call(GONE)


async def hang(_: Request) -> str:
    await asyncio.Event().wait()
    raise AssertionError


async def test_five_failures_in_a_row_keep_their_own_words_and_then_the_server_is_left_alone():
    """The refusal says what it was, and when it will be tried again; the server is not asked."""
    bench = Bench()

    failures = [await bench.call(GONE) for _ in range(5)]
    refused = await bench.call()

    assert failures == [GONE] * 5
    assert len(bench.source.calls) == 5
    assert str(refused) == (
        "Server 'files' failed 5 times in a row and is left alone; last: The server 'files' went away. "
        "Try again in 1 s."
    )
    assert refused.details == {"server": "files", "breaker": "open", "retry_after_s": 1.0}
    assert (refused.code, refused.retryable) == ("TOOL_UNAVAILABLE", True)
    assert [(event.name, event.fields["seconds"]) for event in bench.events] == [("server.paused", 1.0)]


async def test_after_the_pause_one_call_tries_and_its_success_opens_the_way():
    """While it tries, others are still refused."""
    bench = Bench()
    await bench.open()
    bench.clock.advance(1.0)
    bench.source.answers["read"] = "fine"
    bench.source.calling.hold()

    trying = asyncio.create_task(bench.step(Request("files__read", "read", {})))
    await bench.source.calling.reached.wait()
    during, other = bench.state, await bench.call()
    bench.source.calling.release()
    result = await trying

    assert (during, other.details["breaker"], result.text, bench.state) == ("half-open", "half-open", "fine", "closed")
    assert (await bench.call()).text == "fine"
    assert [event.name for event in bench.events] == ["server.paused", "server.resumed"]


async def test_a_failed_try_doubles_the_pause():
    """One more failure in the row."""
    bench = Bench()
    await bench.open()
    bench.clock.advance(1.0)

    tried, refused = await bench.call(GONE), await bench.call()

    assert tried is GONE
    assert (refused.details["retry_after_s"], refused.message.split(" and")[0]) == (
        2.0,
        "Server 'files' failed 6 times in a row",
    )


@pytest.mark.parametrize(
    "failure", [ProtocolError("rubbish"), SourceUnavailable("no way there"), CallTimeout("no connection in time")]
)
async def test_what_the_server_does_wrong_counts(failure):
    """Whatever kind it is."""
    bench = Bench()
    for _ in range(5):
        await bench.call(failure)

    assert bench.state == "open"


async def test_a_server_that_went_away_is_not_shut_out():
    """Writes whose outcome is unknown close the door for nobody: the server is on its way back."""
    bench = Bench()
    for _ in range(9):
        await bench.call(ConnectionLost("The server's process ended."))

    assert (bench.state, bench.breakers.of("files").failures) == ("closed", 0)
    assert (await bench.call()).text == "fine"


@pytest.mark.parametrize("loss", [ConnectionLost("It ended."), OutcomeUnknown("It may have been done.")])
def test_a_loss_is_no_failure_of_the_server(loss):
    """Whatever lies between: it is judged as it comes."""
    breakers = Breakers(ManualClock())
    watch = BreakerWatch(Subject("files__read", "files", Tool("read")), breakers, drop)

    watch.judge(Request("files__read", "read", {}), loss, watch.breaker.round, is_try=False)

    assert watch.breaker.failures == 0


@pytest.mark.parametrize(
    "answer",
    [FAILED, RemoteError(-32000, "own words"), ToolFailed("it said no"), "fine"],
    ids=["tool error", "JSON-RPC error", "failed", "success"],
)
async def test_a_server_that_answers_works_whatever_it_says(answer):
    """Four failures, any answer, four failures: nothing is opened; and as a try it closes."""
    bench = Bench()
    for _ in range(4):
        await bench.call(GONE)
    await bench.call(answer)
    for _ in range(4):
        await bench.call(GONE)
    before = bench.state
    await bench.call(GONE)
    bench.clock.advance(1.0)
    await bench.call(answer)

    assert (before, bench.state) == ("closed", "closed")


@pytest.mark.parametrize(
    "error",
    [
        InvalidArguments("not so"),
        InternalError("our own"),
        SourceUnavailable("being restarted", details={"retry_after_s": 3.0}),
    ],
    ids=["caller", "toolcrib", "refusal with a time"],
)
async def test_what_says_nothing_of_the_server_does_not_count(error):
    """Neither for nor against it; as a try it leaves the trying to the next."""
    bench = Bench()
    for _ in range(20):
        await bench.call(error)
    before = bench.state
    await bench.open()
    bench.clock.advance(1.0)
    tried = [await bench.call(error), await bench.call("fine")]

    assert (before, tried[0], tried[1].text, bench.state) == ("closed", error, "fine", "closed")


async def test_calls_that_get_no_answer_in_time_count():
    """The deadline cancels them from outside; the breaker knows it from being called off."""
    bench = Bench(timeout_s=TINY_S)

    late = [await bench.call(hang) for _ in range(5)]
    refused = await bench.call()

    assert {type(error) for error in late} == {CallTimeout}
    assert refused.message == (
        "Server 'files' failed 5 times in a row and is left alone; last: it did not answer read in time."
    )


async def test_a_caller_in_a_hurry_proves_nothing():
    """A limit far below the tool's own is the caller's business."""
    bench = Bench(timeout_s=60.0)

    late = [await bench.call(hang, timeout_s=TINY_S) for _ in range(10)]

    assert ({type(error) for error in late}, bench.state) == ({CallTimeout}, "closed")


async def test_a_call_that_waited_long_for_its_place_proves_nothing():
    """It was late before it began."""
    bench = Bench(timeout_s=TINY_S)
    bench.source.answers["read"] = hang
    for _ in range(10):
        with pytest.raises(CallTimeout):
            await bench.step(Request("files__read", "read", {}, context=RequestContext(waited_s=0.9 * TINY_S)))

    assert bench.state == "closed"


async def test_calls_that_are_called_off_do_not_count_and_a_try_leaves_it_to_the_next():
    """Cancellation is the caller's wish."""
    bench = Bench()
    bench.source.answers["read"] = hang

    async def call_off() -> None:
        task = asyncio.create_task(bench.step(Request("files__read", "read", {})))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for _ in range(10):
        await call_off()
    before = bench.state
    await bench.open()
    bench.clock.advance(1.0)
    bench.source.answers["read"] = hang
    await call_off()
    after = await bench.call("fine")

    assert (before, after.text, bench.state) == ("closed", "fine", "closed")


async def test_one_loss_is_one_failure_however_many_calls_it_ends():
    """Fifty calls on one connection that breaks: the server has failed once."""
    bench = Bench()
    together = asyncio.Barrier(50)

    async def lose(_: Request) -> Exception:
        await together.wait()
        return GONE

    bench.source.answers["read"] = lose
    calls = [bench.step(Request("files__read", "read", {})) for _ in range(50)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert (outcomes, bench.breakers.of("files").failures) == ([GONE] * 50, 1)


async def test_fifty_calls_that_hang_are_fifty_failures():
    """Each of them waited its whole time for nothing."""
    bench = Bench(timeout_s=TINY_S)
    bench.source.answers["read"] = hang

    calls = [bench.step(Request("files__read", "read", {})) for _ in range(50)]
    await asyncio.gather(*calls, return_exceptions=True)

    assert (bench.state, bench.breakers.of("files").failures) == ("open", 5)


async def test_native_tools_have_no_breaker():
    """A function that reports an unavailable service is asked every time."""

    def down() -> str:
        raise ConnectionError("no network")

    async with memory_crib(tools=[down]) as made:
        results = [await made.crib.call("down") for _ in range(8)]

    assert {result.error.message for result in results} == {results[0].error.message}


# Through a whole Crib


async def test_the_pause_of_one_server_never_hits_another():
    """And health shows which one it is."""
    files, other = FakeSource("files", ["read"]), FakeSource("other", ["read"])
    files.answers["read"] = GONE
    async with memory_crib(files, other) as made:
        await made.crib.current()
        failed = [await made.crib.call("files__read") for _ in range(7)]
        well = [await made.crib.call("other__read") for _ in range(7)]
        health = made.crib.health()

    assert [len(files.calls), len(other.calls)] == [5, 7]
    assert [result.success for result in (*failed, *well)] == [False] * 7 + [True] * 7
    assert failed[6].error.details["retry_after_s"] == 1.0
    assert health.status == "degraded"
    shown = {name: (server.health, server.breaker) for name, server in health.servers.items()}
    assert shown == {"files": ("degraded", "open"), "other": ("healthy", "closed")}
    assert 0 < health.servers["files"].retry_after_seconds <= 1.0


async def test_a_refresh_forgives():
    """Whoever asks for it by hand wants it tried now."""
    files = FakeSource("files", ["read"])
    files.answers["read"] = GONE
    async with memory_crib(files) as made:
        await made.crib.current()
        for _ in range(6):
            await made.crib.call("files__read")
        files.answers["read"] = "back"
        await made.crib.refresh("files")
        result = await made.crib.call("files__read")
        breaker_now = made.crib.health().servers["files"].breaker

    assert (result.text, breaker_now) == ("back", "closed")


async def test_a_server_that_is_configured_anew_starts_afresh():
    """What its predecessor did is not its fault."""
    files = FakeSource("files", ["read"])
    files.answers["read"] = GONE
    async with memory_crib(files, config=Config({"files": ServerConfig("files", command="files")})) as made:
        await made.crib.current()
        for _ in range(6):
            await made.crib.call("files__read")
        made.upcoming["files"] = FakeSource("files", ["read"])
        await made.crib.servers.apply({"files": ServerConfig("files", command="files", env={"MENDED": "1"})})
        result = await made.crib.call("files__read")

    assert result.text == "read ran"


async def test_who_waits_for_a_place_is_refused_while_the_server_is_left_alone_and_not_after():
    bench = Bench()
    refuse_if_open(bench.breakers, "files")
    for _ in range(5):
        await bench.call(ProtocolError("no"))
    found = bench.breakers.of("files")
    wait_s = found.wait_s(bench.clock())

    assert wait_s > 0
    with pytest.raises(SourceUnavailable, match="is left alone"):
        refuse_if_open(bench.breakers, "files")
    bench.clock.advance(wait_s)
    refuse_if_open(bench.breakers, "files")


@pytest.mark.parametrize(
    ("timeout_s", "waited_s", "counts"),
    [(30.0, 0.0, True), (29.9, 0.0, False), (None, 30.0, True), (None, 30.1, False), (25.0, 0.0, False)],
)
def test_a_late_call_counts_if_the_server_had_half_its_usual_time_or_more(timeout_s, waited_s, counts):
    breakers = Breakers(ManualClock())
    watch = BreakerWatch(Subject("files__read", "files", Tool("read", timeout_s=60.0)), breakers, drop)
    call = Request("files__read", "read", {}, timeout_s=timeout_s, context=RequestContext(waited_s=waited_s))
    call.context.is_late = True

    watch.judge(call, asyncio.CancelledError(), watch.breaker.round, is_try=False)

    assert watch.breaker.failures == counts


def test_without_a_usual_time_a_late_call_counts_however_short_its_own_was():
    """There is nothing that it could be called a hurry by."""
    watch = BreakerWatch(Subject("files__read", "files", Tool("read")), Breakers(ManualClock()), drop)
    call = Request("files__read", "read", {}, timeout_s=TINY_S)
    call.context.is_late = True

    watch.judge(call, asyncio.CancelledError(), watch.breaker.round, is_try=False)

    assert watch.breaker.failures == 1


@pytest.mark.parametrize(
    ("is_try", "rounds_ago", "details", "is_counted"),
    [(False, 0, {}, 1), (False, 1, {}, 0), (True, 1, {}, 1), (True, 0, {"retry_after_s": 1.0}, 0)],
)
def test_a_failure_is_news_to_a_try_and_to_whoever_began_since_the_last_one(is_try, rounds_ago, details, is_counted):
    """Not a refusal by somebody who knows when to try again."""
    watch = BreakerWatch(Subject("files__read", "files", Tool("read")), Breakers(ManualClock()), drop)
    began, before = watch.breaker.round - rounds_ago, watch.breaker.round
    error = SourceUnavailable("The server 'files' went away.", hint="", details=details)

    watch.judge(Request("files__read", "read", {}), error, began, is_try=is_try)

    assert watch.breaker.round - before == is_counted


async def test_what_goes_wrong_in_a_lane_keeps_nobody_else_away():
    """Another caller's process of the same server may do well; a try of an open breaker ends all the same."""
    bench = Bench()

    def fail_in_lane(call: Request) -> SourceUnavailable:
        call.context.is_in_lane = True
        return GONE

    for _ in range(10):
        await bench.call(fail_in_lane)
    in_lane = bench.state
    await bench.open()
    bench.clock.advance(60.0)
    await bench.call(fail_in_lane)

    assert in_lane == "closed"
    assert isinstance(await bench.call(), Result)
    assert bench.state == "closed"
