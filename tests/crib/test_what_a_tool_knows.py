"""What a tool is told of the call that runs it: level, limit, rate; what a result says of its call; what is truthful of
a thread."""

import asyncio
import threading
from typing import Any

from toolcrib.config.model import Config
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.limits import CommonLimits, Rate
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import Request
from toolcrib.crib.builder import open_crib
from toolcrib.sources.native.functions import define
from toolcrib.testing import memory_crib

ANN = Caller("ann", grants=EVERYTHING)


def look(call: Request) -> dict[str, Any]:
    """What it is told."""
    return {
        "level": call.security_level,
        "limit": call.time_limit_s,
        "left": call.rate_limit_remaining,
        "id": call.id,
        "caller": call.caller.id,
        "trace": call.context.trace_id,
    }


async def test_a_tool_sees_its_level_its_limit_its_rate_and_whose_call_it_is():
    """The level that counts here, not what its author said; of several rates the narrowest."""
    config = Config(
        limits=CommonLimits(caller_rate=Rate(3, 60)),
        security=SecurityConfig(levels={"look": SecurityLevel.ADMIN}),
        call_timeout_s=20.0,
    )
    async with memory_crib(tools=[define(look, security_level="read_only")], config=config) as made:
        first = await made.crib.call("look", caller=ANN)
        second = await made.crib.call("look", caller=ANN, timeout_s=4)
        other = await made.crib.call("look")

    assert first.data == {
        "level": "admin",
        "limit": 20.0,
        "left": 2,
        "id": first.metadata["execution_id"],
        "caller": "ann",
        "trace": first.metadata["trace_id"],
    }
    assert (second.data["limit"], second.data["left"], other.data["left"]) == (4, 1, 2)


async def test_a_tools_own_limit_counts_before_the_configured_one_and_no_rate_is_none():
    async with memory_crib(tools=[define(look, timeout_s=7)]) as made:
        told = (await made.crib.call("look")).data

    assert (told["limit"], told["left"], told["level"]) == (7, None, "write")


async def test_a_result_says_how_long_it_took_and_under_which_ids_it_is_known():
    """A failure, too; a result that a layer hands out twice belongs to each of the calls."""
    async with memory_crib(tools=[look]) as made:
        fine, wrong = await made.crib.call("look", caller=ANN), await made.crib.call("look", {"x": 1})
        none = await made.crib.call("nothing")

    assert fine.execution_time_ms > 0
    assert fine.metadata.keys() == {"execution_id", "trace_id", "caller"}
    assert (fine.metadata["caller"], len(fine.metadata["trace_id"])) == ("ann", 32)
    assert wrong.error.code == "TOOL_INVALID_INPUT"
    ids = {result.metadata["execution_id"] for result in (fine, wrong, none)}
    assert (len(ids), none.execution_time_ms) == (3, 0.0)
    assert (fine.of(wrong.request).metadata, fine.metadata["caller"]) == (wrong.metadata, "ann")


async def test_a_thread_that_runs_on_is_told_truthfully():
    """It cannot be ended, and what it does may still have its effect: not "cancelled". An async one was."""
    release, ended = threading.Event(), threading.Event()

    def stuck() -> str:
        release.wait(150)
        ended.set()
        return "late"

    async def waiting() -> None:
        await asyncio.Event().wait()

    async with open_crib({"mcpServers": {}}, tools=[stuck, waiting]) as crib:
        late, cancelled = await crib.call("stuck", timeout_s=0.05), await crib.call("waiting", timeout_s=0.05)
        runs_on = not ended.is_set()
        release.set()

    assert (late.error.code, runs_on) == ("TOOL_TIMEOUT", True)
    assert late.error.message == (
        "stuck did not finish within 0.05 s. Nobody waits for it any more, but its thread runs on until the function"
        " returns: it may still have its effect. Look whether it had, before you call it again. An async function, or"
        " an isolated one, can be ended."
    )
    assert late.error.details == {"timeout_s": 0.05, "runs_on": True}
    assert cancelled.error.message == (
        "waiting did not finish within 0.05 s and was cancelled. Ask for less at once, or raise the timeout."
    )
    assert ended.wait(150)
