"""Helper processes for work that would hold up the event loop: pure functions of bytes, each with a time limit.

A thread is no help where a library keeps Python's lock while it works; a process is, and it can be ended. Helpers are
started when first needed, kept a while for the next piece of work, and end by themselves when their input does.
"""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence

from toolcrib.isolate import helper

LIMIT_S = 2.0
"""Of a processor: how busy the machine is otherwise must not decide what is refused."""
PATIENCE = 5
"""By the clock, a piece of work may take so many times its limit."""
HELPERS_MAX = 2
PIECE = 1 << 18
REST_S = 60.0
"""How long a helper is kept that has nothing to do."""
_PROGRAM = f"import sys; limit_s, *sys.path = sys.argv[1:]; from {helper.__name__} import serve; serve(float(limit_s))"
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class TookTooLong(Exception):
    """The work was ended because its time was over, or it wanted too much memory."""


class Helpers:
    """At most a few processes; whoever comes when all are busy waits for one."""

    def __init__(self, limit_s: float = LIMIT_S, *, at_most: int = HELPERS_MAX, rest_s: float = REST_S) -> None:
        self._limit_s, self._rest_s = limit_s, rest_s
        self._places = asyncio.Semaphore(at_most)
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._idle: list[Process] = []
        self._resting: asyncio.TimerHandle | None = None
        self._is_open = True
        self.started = 0
        """How many processes were started so far."""

    @property
    def idle(self) -> int:
        """How many are kept for the next piece of work."""
        return len(self._idle)

    async def run(self, target: str, parts: Sequence[bytes], owner: str = "") -> bytes:
        """What ``module:function`` makes of ``parts``; raises ``TookTooLong``.

        Work of one ``owner`` is done one after the other, so that none can keep all helpers busy.
        """
        turn = self._turns.setdefault(owner, asyncio.Lock())
        self._waiting[owner] = self._waiting.get(owner, 0) + 1
        try:
            async with turn, self._places:
                return await self._run([target.encode(), *parts])
        finally:
            self._waiting[owner] -= 1
            if not self._waiting[owner]:
                del self._waiting[owner], self._turns[owner]

    async def _run(self, message: Sequence[bytes]) -> bytes:
        process = await self._take()
        try:
            async with asyncio.timeout(self._limit_s * PATIENCE):
                status, answer = await _exchange(process, message)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            await _end(process)
            raise TookTooLong from None
        except BaseException:
            await _end(process)
            raise
        self._leave(process)
        if status != helper.DONE:
            raise RuntimeError(answer.decode(errors="replace"))
        return answer

    async def _take(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        self.started += 1
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        argv = (sys.executable, "-I", "-c", _PROGRAM, str(self._limit_s), *helper.import_path())
        return await asyncio.create_subprocess_exec(
            *argv, env=env, cwd="/", stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
        )

    def _leave(self, process: Process) -> None:
        """Keep it for the next piece of work, or until there was none for a while."""
        if not self._is_open:
            process.kill()
            return
        self._idle.append(process)
        if self._resting is not None:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(self._rest_s, self._dismiss)

    def _dismiss(self) -> None:
        """Have the idle ones end: their input does."""
        idle, self._idle = self._idle, []
        for process in idle:
            assert process.stdin is not None
            process.stdin.close()

    async def close(self) -> None:
        """End the idle ones; those at work end with their work."""
        self._is_open = False
        if self._resting is not None:
            self._resting.cancel()
        idle, self._idle = self._idle, []
        for process in idle:
            await _end(process)


async def _exchange(process: Process, message: Sequence[bytes]) -> tuple[bytes, bytes]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(helper.head_of(message))
    for part in message:
        for start in range(0, len(part), PIECE):  # the loop has a turn between two pieces of a large one
            process.stdin.write(part[start : start + PIECE])
            await process.stdin.drain()
    head = await process.stdout.readexactly(helper.HEAD)
    status = await process.stdout.readexactly(len(helper.DONE))
    return status, await process.stdout.readexactly(int.from_bytes(head, "big") - len(status))


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()
