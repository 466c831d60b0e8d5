"""Words are indexed, and parts of the index merged, in a process of its own while this one reads, embeds and stores;
where that fails, here.

The process is kept a while for the next addition, since by then it knows many words. It ends when nobody wants it any
more, when whoever started it is closed, and by itself when its input does.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType

from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.knowledge import Arrival
from toolcrib.isolate.helper import import_path
from toolcrib.knowledge import beside
from toolcrib.knowledge.compact import merge_here
from toolcrib.knowledge.indexing import Fields, Part, indexed_fields

PATIENCE_S = 120.0
REST_S = 60.0
"""How long a process is kept that has nothing to do."""
FAILED = "kb.builder.failed"
_PROGRAM = f"import sys; sys.path[:] = sys.argv[1:]; from {beside.__name__} import serve; serve()"
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

Process = subprocess.Popen[bytes]


class Spare:
    """The process of an addition that is done, for the next one; one at most, and not for long."""

    def __init__(self, rest_s: float = REST_S) -> None:
        self._rest_s = rest_s
        self._process: Process | None = None
        self._resting: asyncio.Task[None] | None = None

    def take(self) -> Process | None:
        """The process, if there is one and it is well."""
        process, self._process = self._process, None
        resting, self._resting = self._resting, None
        if resting is not None:
            resting.cancel()
        if process is not None and process.poll() is not None:
            _end(process)
            return None
        return process

    async def leave(self, process: Process) -> None:
        """Have it kept for a while, in place of the one that is."""
        await self.close()
        self._process, self._resting = process, asyncio.create_task(self._rest())

    async def _rest(self) -> None:
        try:
            await asyncio.sleep(self._rest_s)
        finally:
            if self._resting is asyncio.current_task():  # nobody took it
                self._resting = None
                await self.close()

    async def close(self) -> None:
        """End the process."""
        process = self.take()
        if process is not None:
            await asyncio.to_thread(_end, process)


class Builder:
    """The process beside one addition; none is taken before it is wanted, nor another once it has failed."""

    def __init__(self, emit: Emit = drop, spare: Spare | None = None) -> None:
        self._emit, self._spare = emit, spare or Spare()
        self._is_wanted = False
        self._process: Process | None = None
        self._asked: asyncio.Future[bytes] | None = None
        self._turn = asyncio.Lock()

    def want(self) -> None:
        """There is enough to do for two: start, unless it was started before."""
        if self._is_wanted:
            return
        self._is_wanted = True
        try:
            self._process = self._spare.take() or _start()
        except OSError as error:
            self._tell(error)

    async def words(self, arrivals: Sequence[Arrival]) -> bytes:
        """The index of the arrivals' words, without vectors; empty if it is to be built elsewhere."""
        return await self._ask(lambda: indexed_fields(arrivals), []) if arrivals else b""

    async def merge(self, parts: Sequence[Part]) -> bytes:
        """One segment of several."""
        return await self._ask(list, parts) or await merge_here(parts)

    async def _ask(self, fields: Callable[[], Sequence[Fields]], parts: Sequence[Part]) -> bytes:
        """What the process makes of it; nothing, if it cannot be asked."""
        async with self._turn:
            if self._process is None:
                return b""
            try:
                self._asked = asyncio.ensure_future(asyncio.to_thread(_exchange, self._process, fields(), parts))
                async with asyncio.timeout(PATIENCE_S):
                    return await asyncio.shield(self._asked)
            except (OSError, EOFError, TimeoutError) as error:
                self._tell(error)
                await self._give_up()
                return b""

    def _tell(self, error: Exception) -> None:
        self._emit(Event(FAILED, "warning", {"error": type(error).__name__, "instead": "built in this process"}))

    async def __aenter__(self) -> "Builder":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """A process of which nothing is expected any more may rest; any other is ended."""
        if self._process is not None and error is None:
            await self._spare.leave(self._process)
        else:
            await self._give_up()

    async def _give_up(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if self._asked is not None:
            await asyncio.gather(self._asked, return_exceptions=True)
        await asyncio.to_thread(_end, process)


def _start() -> Process:
    """A Python that knows where this one finds its modules, and nothing else of it; Ctrl-C is not for it."""
    argv = [sys.executable, "-I", "-c", _PROGRAM, *import_path()]
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"OPENBLAS_NUM_THREADS": "1"}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(  # noqa: S603
        argv, env=env, cwd="/", stdin=pipe, stdout=pipe, stderr=null, start_new_session=True
    )


def _exchange(process: Process, fields: Sequence[Fields], parts: Sequence[Part]) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    beside.send(process.stdin, fields, parts)
    return beside.read(process.stdout)


def _end(process: Process) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # what was not sent is not missed
            pipe.close()
    process.wait()
