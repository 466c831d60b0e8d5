"""How tools are doing: health checks, failures, what they used; and checking arguments without a call."""

import asyncio

import pytest

from toolcrib.calls.metrics import exposition
from toolcrib.config.model import Config
from toolcrib.core.access import Caller, Grants
from toolcrib.core.errors import DefinitionError
from toolcrib.core.kinds import Health
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.sources.native import source as native
from toolcrib.sources.native.functions import define
from toolcrib.testing import FakeSource, MemoryAudit, memory_crib


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def spin(rounds: int) -> int:
    """Work for a while."""
    return sum(number * number for number in range(rounds))


def fails() -> None:
    """Never works."""
    raise ValueError("no luck")


# Health


async def fine() -> None:
    pass


def broken() -> None:
    raise ConnectionError("the database is away")


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (fine, ""),
        (lambda: True, ""),
        (lambda: False, "Its health check says that it cannot work."),
        (lambda: "The index is empty.", "The index is empty."),
        (broken, "Its health check failed: ConnectionError: the database is away."),
    ],
)
async def test_a_tools_own_health_check_counts(check, why):
    """It is asked when the health is, not with every call; the whole is degraded while one fails."""
    async with memory_crib(tools=[define(add, health_check=check)]) as made:
        before, after = made.crib.health(), await made.crib.check_health()
        made.crib.unregister("add")
        gone = made.crib.health()

    assert before.failing == {}
    assert after.failing == ({"add": why} if why else {})
    assert after.status is (Health.DEGRADED if why else Health.HEALTHY)
    assert (gone.failing, gone.status) == ({}, Health.HEALTHY)


async def test_a_health_check_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(native, "HEALTH_CHECK_S", 0.02)

    async with memory_crib(tools=[define(add, health_check=asyncio.Event().wait)]) as made:
        health = await made.crib.check_health()

    assert health.failing == {"add": "Its health check did not end within 0.02 s."}


def test_a_health_check_is_a_function():
    with pytest.raises(DefinitionError, match="Tool 'add': health_check: it must be a function without parameters"):
        define(add, health_check="yes")


async def test_tools_that_keep_failing_are_counted():
    """With what the last failure said. The whole is not degraded: what was asked of them may have been wrong."""
    async with memory_crib(tools=[fails, add]) as made:
        await made.crib.call("fails")
        await made.crib.call("add", {"a": 1})
        health = await made.crib.check_health()

    assert health.failing == {"fails": "fails failed: ValueError: no luck"}
    assert health.status is Health.HEALTHY


# What calls use


async def test_what_calls_use_is_in_the_metrics():
    """Processor time of a function in a thread, and how large its results were."""
    async with memory_crib(tools=[spin, add]) as made:
        await made.crib.call("spin", {"rounds": 200_000})
        await made.crib.call("spin", {"rounds": 200_000})
        await made.crib.call("add", {"a": 40})
        tallies = {name: tally.view() for name, tally in made.crib.metrics.tools.items()}
        page = exposition(made.crib.metrics, made.crib.health(), "1", 0.0)

    assert tallies["spin"].cpu_seconds > tallies["add"].cpu_seconds >= 0
    assert tallies["spin"].cpu_seconds <= tallies["spin"].total_seconds + 0.1
    assert (tallies["add"].result_bytes, tallies["spin"].result_bytes) == (2, 2 * len(str(spin(200_000))))
    assert 'toolcrib_call_result_bytes_total{tool="add"} 2' in page
    assert f'toolcrib_call_cpu_seconds_total{{tool="spin"}} {tallies["spin"].cpu_seconds:.16g}' in page


# Checking without calling


async def test_arguments_are_checked_without_running_anything():
    """With defaults, as the tool would be given them; nothing is counted, told or written down."""
    ran, log = list[int](), MemoryAudit()

    def note(a: int, b: int = 2) -> None:
        ran.append(a + b)

    async with memory_crib(tools=[note], audit=log) as made:
        before = len(log.noted)
        good, bad = await made.crib.validate("note", {"a": 1}), await made.crib.validate("note", {"a": "x"})
        none = await made.crib.validate("note_it")

        assert (ran, len(log.noted), made.crib.metrics.tools, made.events[-1:]) == ([], before, {}, made.events[-1:])
    assert (good.success, good.data) == (True, {"a": 1, "b": 2})
    assert (bad.error.code, "'a'" in bad.error.message or "a:" in bad.error.message) == ("TOOL_INVALID_INPUT", True)
    assert (none.error.code, "Did you mean 'note'?" in none.error.message) == ("TOOL_NOT_FOUND", True)


async def test_what_would_be_put_right_for_a_server_is_said():
    """Renamed and repaired as in a call; the server is not asked."""
    schema = {"type": "object", "properties": {"deviceName": {"type": "string"}, "level": {"type": "integer"}}}
    home = FakeSource("home", [Tool("dim", input_schema=schema)])
    async with memory_crib(home) as made:
        result = await made.crib.validate("home__dim", {"device_name": "lamp", "level": "3"})

    assert result.data == {"deviceName": "lamp", "level": 3}
    assert len(result.metadata["repairs"]) == 1
    assert home.calls == []


@pytest.mark.parametrize("name", [5, None, ""])
async def test_checking_raises_nothing_either(name):
    async with memory_crib(tools=[add]) as made:
        result = await made.crib.validate(name, {"a": 1})

    assert result.error.code in ("TOOL_INVALID_INPUT", "TOOL_NOT_FOUND")


async def test_a_tool_that_is_hidden_from_a_caller_is_none():
    reader = Caller("reader", grants=Grants(SecurityLevel.READ_ONLY))
    async with memory_crib(tools=[define(add, security_level="admin")]) as made:
        hidden, none = [await made.crib.validate(name, caller=reader) for name in ("add", "sub")]

    assert hidden.error.message == none.error.message.replace("'sub'", "'add'")


# Room


async def test_definitions_may_take_only_so_much():
    """One more native one is refused; of servers' tools the last by name are left out, and said to be."""
    long = "Does something. " * 20
    config = Config(catalog_memory=1_500)
    servers = [FakeSource(name, [Tool("work", long), Tool("zest", long)]) for name in ("one", "two")]
    async with memory_crib(*servers, tools=[define(add, description=long)], config=config) as made:
        await made.crib.refresh()
        names = [tool.name for tool in await made.crib.tools()]
        why = made.crib.explain("two__zest").reasons
        with pytest.raises(DefinitionError, match=r"memory: with it the definitions take .* no more than 1500"):
            made.crib.register(define(spin, description=long * 4))

    assert names == ["add", "one__work", "one__zest"]
    assert "the definitions take all of 1500 bytes ([catalog] memory)" in " ".join(why)
