"""Live: every call is seen, however it ends, and a person may end it wherever it is."""

import asyncio
import threading

import msgspec
import pytest

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.live import Live, LiveCall
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.access import EVERYTHING, Caller, Grants
from toolcrib.core.audit import CALL
from toolcrib.core.errors import InvalidArguments, ToolFailed
from toolcrib.core.limits import CommonLimits
from toolcrib.core.requests import Result
from toolcrib.testing import FakeSource, ManualClock, MemoryAudit, memory_crib

OWNER = Caller("owner", "token", EVERYTHING)
ENDED = "A person ended this call of {}. Do not try it again unasked."


def board() -> Live:
    return Live(ManualClock(1000.0), ManualClock())


def outcomes(live: Live) -> list[tuple[str, str]]:
    return [(call.tool, call.outcome) for call in reversed(live.recent())]


def told(result: Result) -> tuple[str, str]:
    return result.error.code, result.error.message


async def begun(live: Live, count: int = 1) -> LiveCall:
    """The newest of the calls under way, once there are so many and it has come to where it waits."""
    async with asyncio.timeout(150):
        while len(live.running()) < count:
            await asyncio.sleep(0)
    return live.running()[-1]


async def waiting_for(live: Live, step: str) -> LiveCall:
    """The call that waits for this, once there is one."""
    async with asyncio.timeout(150):
        while True:
            for call in live.running():
                if any(found.name == step and found.end_ms is None for found in call.steps):
                    return call
            await asyncio.sleep(0)


async def test_every_call_is_seen_however_it_ends():
    """Done, failed, refused for its arguments, not allowed, or of a tool that is nowhere."""
    files, live = FakeSource("files", ["read", "fail"]), board()
    files.answers["fail"] = ToolFailed("It did not work.")
    nobody = Caller("nobody", "token", Grants())

    def add(a: int) -> int:
        return a

    async with memory_crib(files, tools=[add], live=live) as made:
        await made.crib.call("files__read", {"path": "secret"})
        await made.crib.call("files__fail")
        await made.crib.call("add", {"a": "hunter2"})
        await made.crib.call("files__read", caller=nobody)
        await made.crib.call("ghost", {"path": "secret"})
        assert made.crib.live is live

    assert outcomes(live) == [
        ("files__read", "success"),
        ("files__fail", "TOOL_EXECUTION_FAILED"),
        ("add", "TOOL_INVALID_INPUT"),
        ("files__read", "TOOL_PERMISSION_DENIED"),
        ("ghost", "TOOL_NOT_FOUND"),
    ]
    assert live.running() == []
    assert live.of_tool("files__fail")[0].message == "It did not work."
    assert live.of_tool("add")[0].server == "native"
    assert live.of_tool("ghost")[0].arguments == {"path": "string 6"}
    shown = repr([call.view() for call in live.recent()])
    assert "hunter2" not in shown
    assert "secret" not in shown


async def test_it_shows_what_the_audit_log_found_out():
    """The same trace, so that one leads to the other."""
    log, live = MemoryAudit(), board()
    async with memory_crib(FakeSource("files", ["read"]), audit=log, live=live) as made:
        await made.crib.call("files__read", {"path": "a", "depth": 1})

    (call,) = live.recent()
    (entry,) = [entry for entry in log.noted if entry.event == CALL]
    assert (call.id, call.trace_id) == (entry.execution_id, entry.trace_id)
    assert call.arguments == {"path": "string 1", "depth": "integer"}
    assert (call.server, call.level) == (entry.server, entry.level)


async def test_without_a_log_it_shows_the_trace_that_the_caller_brought():
    """And one of its own if there was none."""
    live, trace = board(), "4bf92f3577b34da6a3ce929d0e0e4736"
    async with memory_crib(FakeSource("files", ["read"]), live=live) as made:
        parent = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        await made.crib.run(made.crib.request("files__read", {}, meta=parent))
        await made.crib.call("files__read")

    own, brought = [call.trace_id for call in live.recent()]
    assert (brought, len(own), own != brought) == (trace, 32, True)


async def test_without_it_nothing_is_kept():
    """A library or a one-shot command has nobody who looks on."""
    files = FakeSource("files", ["read"])
    async with memory_crib(files) as made:
        await made.crib.call("files__read")

    assert made.crib.live is None
    assert files.calls[0].context.live is None


async def test_a_person_ends_a_call_of_a_server():
    """The server's own work is called off, and the caller is told why, as a result."""
    files, live, log = FakeSource("files", ["read"]), board(), MemoryAudit()
    files.calling.hold()
    async with memory_crib(files, live=live, audit=log) as made:
        task = asyncio.create_task(made.crib.call("files__read"))
        await files.calling.reached.wait()
        said = live.cancel(live.running()[0].id)
        result = await task
        again = live.cancel(live.recent()[0].id)
        files.calling.release()
        after = await made.crib.call("files__read")

    assert (said, again) == (True, False)
    assert told(result) == ("TOOL_CANCELLED", ENDED.format("files__read"))
    assert not result.error.retryable
    assert after.error is None
    assert outcomes(live) == [("files__read", "TOOL_CANCELLED"), ("files__read", "success")]
    assert [entry.outcome for entry in log.noted if entry.event == CALL] == ["TOOL_CANCELLED", "success"]
    assert made.crib.metrics.of("files__read").failed == 0


async def test_a_person_ends_a_native_call():
    """An async function sees a cancellation, and may clean up."""
    live, cleaned = board(), []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)
        return "never"

    async with memory_crib(tools=[work], live=live) as made:
        task = asyncio.create_task(made.crib.call("work"))
        live.cancel((await begun(live)).id)
        result = await task

    assert told(result) == ("TOOL_CANCELLED", ENDED.format("work"))
    assert cleaned == [True]


async def test_a_person_ends_a_call_that_runs_in_a_thread():
    """The caller need not wait for the function, which nobody can stop."""
    live, started, release = board(), threading.Event(), threading.Event()

    def work() -> str:
        started.set()
        release.wait(150)
        return "late"

    async with memory_crib(tools=[work], live=live) as made:
        task = asyncio.create_task(made.crib.call("work"))
        await asyncio.to_thread(started.wait, 60)
        live.cancel(live.running()[0].id)
        result = await task
        release.set()

    assert told(result) == ("TOOL_CANCELLED", ENDED.format("work"))


async def test_a_person_ends_a_call_that_waits_for_approval():
    """The question is withdrawn, the tool never ran."""
    files, live = FakeSource("files", ["write"]), board()
    async with memory_crib(files, config=Config(security=SecurityConfig(policy="ask")), live=live) as made:
        await made.crib.inbox.look(OWNER)
        task = asyncio.create_task(made.crib.call("files__write"))
        call = await waiting_for(live, "approval")
        await made.crib.inbox.look(OWNER, 60)
        live.cancel(call.id)
        result = await task
        left = await made.crib.inbox.look(OWNER)

    assert told(result) == ("TOOL_CANCELLED", ENDED.format("files__write"))
    assert (left, files.calls) == ([], [])
    assert [(step.name, step.end_ms is None) for step in call.steps] == [("approval", False)]


async def test_a_person_ends_a_call_that_waits_for_its_place():
    """The place it waited for goes to the next."""
    files, live = FakeSource("files", ["read"]), board()
    files.calling.hold()
    config = Config(limits=CommonLimits(parallel=1), servers={"files": ServerConfig("files", command="files")})
    async with memory_crib(files, config=config, live=live) as made:
        first = asyncio.create_task(made.crib.call("files__read"))
        await files.calling.reached.wait()
        second = asyncio.create_task(made.crib.call("files__read"))
        call = await waiting_for(live, "queue")
        third = asyncio.create_task(made.crib.call("files__read"))
        await begun(live, 3)
        live.cancel(call.id)
        result = await second
        files.calling.release()
        others = await asyncio.gather(first, third)

    assert told(result) == ("TOOL_CANCELLED", ENDED.format("files__read"))
    assert [other.error for other in others] == [None, None]
    assert len(files.calls) == 2
    assert [step.name for step in live.recent()[0].steps] == ["queue", "tool"]


async def test_an_answered_call_shows_how_long_it_waited_for_the_answer():
    """Then comes the tool's own time."""
    files, live = FakeSource("files", ["write"]), board()
    async with memory_crib(files, config=Config(security=SecurityConfig(policy="ask")), live=live) as made:
        await made.crib.inbox.look(OWNER)
        task = asyncio.create_task(made.crib.call("files__write"))
        (found,) = await made.crib.inbox.look(OWNER, 60)
        live.clock.advance(3.0)
        made.crib.inbox.answer(found.question.id, ApprovalReply.ONCE, OWNER)
        await task

    (call,) = live.recent()
    assert call.outcome == "success"
    assert [msgspec.to_builtins(step.view()) for step in call.steps] == [
        {"name": "approval", "startMs": 0.0, "endMs": 3000.0},
        {"name": "tool", "startMs": 3000.0, "endMs": 3000.0},
    ]


@pytest.mark.parametrize("person_first", [True, False])
async def test_a_caller_that_gives_up_is_cancelled_even_if_a_person_ends_the_call_as_well(person_first):
    """A real cancellation is never turned into a result, whichever came first."""
    files, live = FakeSource("files", ["read"]), board()
    files.calling.hold()
    async with memory_crib(files, live=live) as made:
        task = asyncio.create_task(made.crib.call("files__read"))
        await files.calling.reached.wait()
        loop, call = asyncio.get_running_loop(), live.running()[0]
        if person_first:
            live.cancel(call.id)
            loop.call_soon(task.cancel)
        else:
            task.cancel()
            assert live.cancel(call.id) is False
        with pytest.raises(asyncio.CancelledError):
            await task

    assert task.cancelled()
    assert outcomes(live) == [("files__read", "TOOL_CANCELLED")]


async def test_a_cancelled_caller_is_shown_as_one_that_gave_up():
    """Nobody ended that call but itself."""
    files, live = FakeSource("files", ["read"]), board()
    files.calling.hold()
    async with memory_crib(files, live=live) as made:
        task = asyncio.create_task(made.crib.call("files__read"))
        await files.calling.reached.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert [(call.outcome, call.message) for call in live.recent()] == [("TOOL_CANCELLED", "The caller gave up.")]


async def test_a_task_whose_call_was_ended_goes_on_unharmed():
    """Nothing of the cancellation is left in it."""
    files, live = FakeSource("files", ["read"]), board()
    files.calling.hold()

    async def caller(made) -> tuple[str, int, str]:
        result = await made.crib.call("files__read")
        await asyncio.sleep(0)
        async with asyncio.timeout(150):
            await asyncio.sleep(0)
        return result.error.code, asyncio.current_task().cancelling(), "went on"

    async with memory_crib(files, live=live) as made:
        task = asyncio.create_task(caller(made))
        await files.calling.reached.wait()
        live.cancel(live.running()[0].id)

        assert await task == ("TOOL_CANCELLED", 0, "went on")


async def test_of_calls_within_a_call_only_the_one_that_was_meant_ends():
    """The inner one fails for the outer one, in the same task; ended itself, the outer one ends with all in it."""
    files, live = FakeSource("files", ["read"]), board()
    files.calling.hold()
    async with memory_crib(files, live=live) as made:

        async def outer() -> str:
            inner = await made.crib.call("files__read")
            return f"inner: {inner.error.code}"

        made.crib.register(outer)
        results = []
        for ended in ("files__read", "outer"):
            files.calling.reached.clear()
            task = asyncio.create_task(made.crib.call("outer"))
            await files.calling.reached.wait()
            live.cancel(next(call.id for call in live.running() if call.tool == ended))
            results.append(await task)

    assert results[0].text == "inner: TOOL_CANCELLED"
    assert told(results[1]) == ("TOOL_CANCELLED", ENDED.format("outer"))


async def test_a_tool_may_end_its_own_call():
    """It is cancelled where it next waits; one that does not wait any more has simply ended."""
    live = board()

    async def stop(wait: bool) -> str:
        live.cancel(live.running()[0].id)
        if wait:
            await asyncio.Event().wait()
        return "done"

    async with memory_crib(tools=[stop], live=live) as made:
        waited, done = await made.crib.call("stop", {"wait": True}), await made.crib.call("stop", {"wait": False})
        await asyncio.sleep(0)

    assert told(waited) == ("TOOL_CANCELLED", ENDED.format("stop"))
    assert done.text == "done"


async def test_a_tool_that_does_not_let_itself_be_ended_leaves_its_caller_unharmed():
    """What it says counts, and the task is not cancelled later for it."""
    live = board()

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished anyway"
        return "never"

    async with memory_crib(tools=[stubborn], live=live) as made:

        async def caller() -> tuple[str, int]:
            result = await made.crib.call("stubborn")
            return result.text, asyncio.current_task().cancelling()

        task = asyncio.create_task(caller())
        live.cancel((await begun(live)).id)

        assert await task == ("finished anyway", 0)
    assert outcomes(live) == [("stubborn", "success")]


async def test_what_a_tool_says_of_arguments_is_not_shown():
    """It may quote them, like our own words for them."""
    files, live = FakeSource("files", ["read"]), board()
    files.answers["read"] = Result.failed(InvalidArguments("path: got 'hunter2'"))
    async with memory_crib(files, live=live) as made:
        await made.crib.call("files__read")

    assert [call.message for call in live.recent()] == ["The arguments did not fit the tool's input schema."]


async def test_a_call_can_be_ended_again_while_it_takes_its_time_to_end():
    """Whoever asks is told the truth: it still runs, and is being ended."""
    live, cleaning, cleaned = board(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await cleaned.wait()

    async with memory_crib(tools=[work], live=live) as made:
        task = asyncio.create_task(made.crib.call("work"))
        call = await begun(live)
        said = [live.cancel(call.id)]
        await cleaning.wait()
        said.append(live.cancel(call.id))
        cleaned.set()
        result = await task

    assert said == [True, True]
    assert result.error.code == "TOOL_CANCELLED"


async def test_a_late_call_is_late_and_not_ended_by_anybody():
    """The deadline works as ever for calls that are watched."""
    files, live = FakeSource("files", ["read"]), board()
    files.calling.hold()
    async with memory_crib(files, live=live) as made:
        result = await made.crib.call("files__read", timeout_s=0.001)

    assert result.error.code == "TOOL_TIMEOUT"
    assert outcomes(live) == [("files__read", "TOOL_TIMEOUT")]
