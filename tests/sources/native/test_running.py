"""Native tools in workers: what goes in, what comes out, and how they end."""

import asyncio
import os
from dataclasses import replace

import pytest
from tests.isolate import jobs
from tests.transports.processes import exists, helpers, until

from toolcrib import open_crib, tool
from toolcrib.core.errors import DefinitionError, SourceUnavailable
from toolcrib.core.requests import Request
from toolcrib.sources.native.functions import MARK, native_tool
from toolcrib.sources.native.source import NativeSource
from toolcrib.stores.paths import Environment


@pytest.fixture(scope="session")
def around(tmp_path_factory):
    """This machine, with a memory of its own for what the self-test finds."""
    return Environment(env={**os.environ, "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))})


@pytest.fixture
def call(around):
    """Calls one of the jobs through a whole crib."""

    async def call(function, arguments=None, **more):
        async with open_crib({"mcpServers": {}}, tools=[function], surroundings=around) as crib:
            return await crib.call(native_tool(function).tool.name, arguments or {}, **more)

    return call


def granting(function, **grants):
    """The same tool with other grants."""
    entry = native_tool(function)
    return replace(entry, isolation=replace(entry.isolation, **grants))


async def test_arguments_and_results_are_the_types_the_function_knows(call):
    """As in this process: JSON to dataclass and back, defaults filled in, coroutines awaited."""
    result = await call(jobs.move, {"point": {"x": 1}})

    assert result.data == {"x": 2, "y": 1}


async def test_the_function_runs_in_another_process(call):
    """Under a keeper, like a server."""
    assert (await call(jobs.who)).data["pid"] != os.getpid()


async def test_what_a_worker_used_is_told_with_its_call(call):
    """Its processor time, and the most memory it had: an interpreter takes some megabytes."""
    context = (await call(jobs.who)).request.context

    assert context.cpu_s > 0
    assert 1_000_000 < context.memory_bytes < 10_000_000_000


async def test_what_is_printed_does_not_reach_the_answer(call):
    """By print, by descriptor, by a subprocess."""
    assert (await call(jobs.chatter)).data == "the answer"


async def test_there_is_nothing_on_stdin(call):
    """A function that reads it sees the end, not our request."""
    assert (await call(jobs.read_stdin)).data == ""


async def test_a_secret_file_stays_secret(call, tmp_path):
    """The function that may read it in this process may not in its worker."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret")

    refused = await call(jobs.read_file, {"path": str(secret)})
    granted = await call(granting(jobs.read_file, read=(str(secret),)), {"path": str(secret)})

    assert (refused.error.code, granted.data) == ("TOOL_EXECUTION_FAILED", "s3cret")
    assert "PermissionError" in refused.error.message


async def test_an_exception_comes_back_with_its_message(call):
    """Typed as a failure of the tool."""
    result = await call(jobs.refuse, {"reason": "not on Sundays"})

    assert result.error.code == "TOOL_EXECUTION_FAILED"
    assert result.error.message == "refuse failed: ValueError: not on Sundays"


async def test_a_service_that_is_away_can_be_tried_again(call):
    """The same distinction as in this process."""
    result = await call(jobs.unreachable)

    assert (result.error.code, result.error.retryable) == ("TOOL_UNAVAILABLE", True)


async def test_too_much_memory_is_an_error(call):
    """Of that call, and of nothing else."""
    result = await call(jobs.take, {"size": 1 << 30})

    assert (result.error.code, result.error.message) == ("TOOL_EXECUTION_FAILED", "take failed: MemoryError")
    assert (await call(jobs.take, {"size": 1000})).data == 1000


@pytest.mark.parametrize(("number", "words"), [(9, "killed by SIGKILL"), (11, "killed by SIGSEGV"), (24, "SIGXCPU")])
async def test_a_killed_worker_is_a_failure_that_says_how_it_ended(call, number, words):
    """Memory, a crash, processor time."""
    result = await call(jobs.die, {"number": number})

    assert result.error.code == "TOOL_EXECUTION_FAILED"
    assert words in result.error.message


async def test_a_worker_that_leaves_without_an_answer_is_a_failure(call):
    """With its last words."""
    result = await call(jobs.leave, {"code": 0})

    assert result.error.code == "TOOL_EXECUTION_FAILED"
    assert "'going'" in result.error.message


async def test_a_call_that_is_cancelled_takes_its_worker_along(around, tmp_path):
    """It is gone soon after; nothing hangs."""
    note = tmp_path / "note"
    entry = granting(jobs.linger, write=(str(tmp_path),))
    async with open_crib({"mcpServers": {}}, tools=[entry], surroundings=around) as crib:
        running = asyncio.create_task(crib.call("linger", {"note": str(note)}))
        await until(lambda: note.exists() and note.read_text())
        pid = int(note.read_text())
        running.cancel()
        await asyncio.wait([running])

        await until(lambda: not exists(pid))
    assert helpers() == set()


async def test_the_deadline_of_a_call_holds_for_its_worker(call, tmp_path):
    """A typed timeout."""
    entry = granting(jobs.linger, write=(str(tmp_path),))

    result = await call(entry, {"note": str(tmp_path / "note")}, timeout_s=1.0)

    assert result.error.code == "TOOL_TIMEOUT"


async def test_wrong_arguments_are_refused_before_a_worker_is_started(call):
    """In the same words as for other tools."""
    assert (await call(jobs.refuse, {"reason": 3})).error.code == "TOOL_INVALID_INPUT"


async def test_a_source_without_workers_runs_nothing_isolated():
    """Rather not at all than here."""
    source = NativeSource([jobs.who])

    with pytest.raises(SourceUnavailable, match="must run isolated"):
        await source.answer(Request("who", "who", {}))


def closure():
    def inner() -> int:
        return 1

    return inner


def takes_call(call: Request) -> str:
    return call.name


def in_main() -> int:
    return 1


in_main.__module__ = "__main__"


class Methods:
    def method(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (closure(), "not at the top of its module"),
        (Methods().method, "not at the top of its module"),
        (in_main, "__main__"),
        (takes_call, "Request"),
    ],
)
def test_a_function_that_a_worker_cannot_find_is_no_isolated_tool(function, words):
    """Said when it is defined, not when it is called."""
    with pytest.raises(DefinitionError, match=words) as caught:
        native_tool(define_isolated(function))

    assert "drop isolated" in caught.value.hint


def define_isolated(function):
    from toolcrib.sources.native.functions import define

    return define(function, isolated=True)


def test_an_unknown_level_is_refused():
    """With those that there are."""
    with pytest.raises(DefinitionError, match="'jail' is not one of none, limits, confined, isolated, auto"):
        tool(isolation="jail")(in_main)


def test_isolated_is_short_for_confined():
    """And none is none."""
    assert native_tool(jobs.chatter).isolation.level == "confined"
    assert native_tool(jobs.who).isolation.level == "limits"
    assert getattr(jobs.who, MARK).isolation.network is None
