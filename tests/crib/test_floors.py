"""What registering, calling and keeping tools may cost at most: floors, by processor time and memory, which other work
on the machine does not change. ``./dev bench`` has the figures themselves."""

import time
import tracemalloc

from toolcrib.sources.native.functions import define
from toolcrib.testing import FakeSource, memory_crib


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def test_registering_a_tool_takes_less_than_a_tenth_of_a_second():
    """On average of fifty, schema, example and catalogue included."""
    async with memory_crib() as made:
        began = time.process_time()
        for number in range(50):
            made.crib.register(define(add, name=f"add_{number}", examples=[{"a": 1}]))
        took_s = time.process_time() - began
        count = len(await made.crib.tools())

    assert count == 50
    assert took_s / 50 < 0.1


async def test_a_call_costs_less_than_ten_milliseconds_on_top():
    """A call of a server's tool with all layers, where the server takes no time itself."""
    async with memory_crib(FakeSource("files", ["read"])) as made:
        await made.crib.call("files__read")
        began = time.process_time()
        results = [await made.crib.call("files__read", {"path": str(number)}) for number in range(200)]
        took_s = time.process_time() - began

    assert all(result.success for result in results)
    assert took_s / 200 < 0.01


async def test_a_registry_of_a_thousand_tools_is_small():
    """Ten megabytes are enough for definitions, checks and catalogue."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tools = [define(add, name=f"add_{number}", description=f"Add, the {number}th way.") for number in range(1_000)]
    async with memory_crib(tools=tools) as made:
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        count = len(made.crib.catalog.routes)

    assert count == 1_000
    assert after - before < 10_000_000
