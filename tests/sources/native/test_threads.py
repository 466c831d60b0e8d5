"""Threads for sync tools."""

import asyncio
import subprocess
import sys
import threading

import pytest

from toolcrib.core.requests import Request
from toolcrib.sources.native.running import THREADS_MAX, ToolThreads

CALL = Request("hang", "hang", {})


async def test_results_and_errors_come_back():
    """Whatever the function does."""
    threads = ToolThreads(lambda call: None)

    assert await threads.run(lambda: 42, CALL) == 42
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 / 0, CALL)


async def test_a_thread_nobody_waits_for_makes_room_and_is_told():
    """However many hang, the next function runs."""
    abandoned: list[Request] = []
    threads, release = ToolThreads(abandoned.append), threading.Event()

    waiting = [asyncio.create_task(threads.run(release.wait, CALL)) for _ in range(THREADS_MAX)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert await threads.run(lambda: "still working", CALL) == "still working"
    assert abandoned == [CALL] * THREADS_MAX
    release.set()


def test_a_hanging_tool_does_not_keep_the_program():
    """It ends when it is done with everything else."""
    program = (
        "import asyncio, threading, toolcrib\n"
        "def hang() -> None: threading.Event().wait()\n"
        "async def main():\n"
        "    async with toolcrib.open_crib({'mcpServers': {}}, tools=[hang]) as crib:\n"
        "        print((await crib.call('hang', timeout_s=0.1)).error.code)\n"
        "asyncio.run(main())\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=False)

    assert (done.returncode, done.stdout) == (0, "TOOL_TIMEOUT\n")
