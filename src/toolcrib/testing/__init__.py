"""Stand-ins for tests: servers, links, clients and clocks that do what a test says, without processes or sockets.

::

    async def test_a_lost_connection_is_told():
        files = FakeSource("files", ["read"])
        files.lose_connection()
        async with memory_crib(files) as made:
            result = await made.crib.call("files__read")
        assert result.error.code == "TOOL_EXECUTION_FAILED"
"""

from toolcrib.testing.crib import MemoryCrib, memory_crib, run_examples
from toolcrib.testing.doubles import FakeLink, FakeServer, ManualClock, MemoryAudit, RecordingChannel
from toolcrib.testing.source import FakeSource

__all__ = [
    "FakeLink",
    "FakeServer",
    "FakeSource",
    "ManualClock",
    "MemoryAudit",
    "MemoryCrib",
    "RecordingChannel",
    "memory_crib",
    "run_examples",
]
