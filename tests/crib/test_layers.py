"""The layers: which there are, and in which order calls meet them."""

import time
from dataclasses import replace

from opentelemetry.trace import NoOpTracer

from toolcrib.calls.approvals import MemoryAnswers
from toolcrib.calls.live import Live
from toolcrib.config.model import Config
from toolcrib.core.events import drop
from toolcrib.crib.layers import Onlookers, layer_stack, make_rig


def test_the_layers_are_listed_in_the_order_a_call_meets_them():
    """Recorded whatever happens, in time whatever happens, limited before any work,
    named before checked, checked before sent; a server in trouble is left alone before it is asked again;
    limits hold once more right before it runs.
    """
    layers = layer_stack(Config(), make_rig(Config(), lambda event: None, MemoryAnswers()))

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
        "breaker",
        "replay",
        "start",
    ]


def test_calls_that_are_watched_are_seen_before_anything_is_refused_and_again_at_their_source():
    """First of all, and where their tool's own time begins."""
    rig = replace(make_rig(Config(), drop, MemoryAnswers()), live=Live(time.time, time.perf_counter))

    names = [layer.__qualname__.partition(".")[0] for layer in layer_stack(Config(), rig)]

    assert names[:2] == ["observe", "permit"]
    assert names[-2:] == ["start", "at_source"]


async def test_traces_that_are_wanted_come_with_a_layer_of_their_own():
    """Outermost, around everything."""
    onlookers = Onlookers(tracer=NoOpTracer())

    rig = make_rig(Config(), drop, MemoryAnswers())

    assert layer_stack(Config(), rig, onlookers)[0].__qualname__ == "trace.<locals>.layer"
