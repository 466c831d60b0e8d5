"""The layers: which there are, and in which order calls meet them."""

import time

import pytest
from opentelemetry.trace import NoOpTracer

from toolcrib.calls.approvals import MemoryAnswers
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.live import Live
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.config.model import Config
from toolcrib.core.audit import NoAudit
from toolcrib.core.errors import ConfigError, PermissionDenied
from toolcrib.core.events import drop
from toolcrib.core.requests import Request, Result
from toolcrib.crib.builder import open_crib
from toolcrib.crib.layers import layer_stack, make_approvals
from toolcrib.crib.servers import Parts
from toolcrib.sources.native.source import NativeSource
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing import FakeSource


def some_parts(live: Live | None = None) -> Parts:
    inbox = Inbox(time.monotonic)
    desk = make_approvals(Config(), drop, MemoryAnswers(), NoAudit(), inbox)
    return Parts(NativeSource(), lambda server: FakeSource(server.name), MemoryRecords(), desk, inbox, live=live)


def test_the_layers_are_listed_in_the_order_a_call_meets_them():
    """Recorded whatever happens, in time whatever happens, limited before any work,
    named before checked, checked before sent; a server in trouble is left alone before it is asked again;
    limits hold once more right before it runs.
    """
    layers = layer_stack(Config(), some_parts())

    assert [layer.__qualname__.partition(".")[0] for layer in layers] == [
        "observe",
        "permit",
        "shelter",
        "approve",
        "deadline",
        "limit",
        "witness",
        "normalise",
        "arguments",
        "result",
        "skill",
        "breaker",
        "replay",
        "start",
        "freshen",
    ]


def test_calls_that_are_watched_are_seen_before_anything_is_refused_and_again_at_their_source():
    """First of all, and where their tool's own time begins."""
    parts = some_parts(Live(time.time, time.perf_counter))

    names = [layer.__qualname__.partition(".")[0] for layer in layer_stack(Config(), parts)]

    assert names[:2] == ["observe", "permit"]
    assert names[-2:] == ["freshen", "at_source"]


async def test_traces_that_are_wanted_come_with_a_layer_of_their_own():
    """Outermost, around everything."""
    assert layer_stack(Config(), some_parts(), tracer=NoOpTracer())[0].__qualname__ == "trace.<locals>.layer"


def double(number: int) -> str:
    """Twice a number."""
    return str(2 * number)


async def test_a_programs_own_layers_see_checked_calls_in_their_order():
    """They may answer, change and refuse; a call whose arguments do not fit never comes to them."""
    seen: list[tuple[str, str, object]] = []

    def noting(word: str):
        def layer(subject: Subject, following: Step) -> Step:
            async def step(call: Request) -> Result:
                seen.append((word, subject.name, dict(call.arguments)))
                return await following(call)

            return step

        return layer

    async with open_crib(Config(), tools=[double], layers=[noting("first"), noting("second")]) as crib:
        result = await crib.call("double", {"number": 2})
        await crib.call("double", {"number": "two"})

    assert result.text == "4"
    assert seen == [("first", "double", {"number": 2}), ("second", "double", {"number": 2})]


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (PermissionDenied("Not on Sundays."), "TOOL_PERMISSION_DENIED", "Not on Sundays."),
        (KeyError("day"), "TOOL_EXECUTION_FAILED", "double was ended by a layer of the program: KeyError: 'day'"),
        (None, "TOOL_EXECUTION_FAILED", "it gave NoneType, not a toolcrib.Result"),
    ],
)
async def test_what_a_layer_of_the_program_raises_is_a_result_with_a_code(outcome, code, said):
    """And counts as any failed call; the tool did not run."""

    def closed(subject: Subject, following: Step) -> Step:
        async def step(call: Request) -> Result:
            if outcome is None:
                return None
            raise outcome

        return step

    async with open_crib(Config(), tools=[double], layers=[closed]) as crib:
        result = await crib.call("double", {"number": 2})

    assert (result.error.code, said in result.error.message) == (code, True)


async def test_what_is_no_layer_is_refused_when_the_crib_is_opened():
    """With what a layer is."""
    with pytest.raises(ConfigError, match="'audit' is not a layer"):
        async with open_crib(Config(), layers=["audit"]):
            pass
