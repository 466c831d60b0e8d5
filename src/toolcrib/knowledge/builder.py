"""Words are indexed in a process of its own while this one reads, embeds and stores; where that fails, here.

The process ends with its addition: it is killed at the end, and it ends by itself when its input does.
"""

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO

from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.knowledge import Arrival
from toolcrib.isolate.worker import import_path
from toolcrib.knowledge.indexing import Fields, index_words, indexed_fields

PATIENCE_S = 120.0
HEAD = 8  # bytes that tell a length
FAILED = "kb.builder.failed"
_PROGRAM = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import serve; serve()"
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Builder:
    """The process beside one addition; nothing is started before it is wanted, nor again once it has failed."""

    def __init__(self, emit: Emit = drop) -> None:
        self._emit = emit
        self._is_wanted = False
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: asyncio.Future[bytes] | None = None
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Of the process, zero if there is none."""
        return self._process.pid if self._process else 0

    def want(self) -> None:
        """There is enough to do for two: start, unless it was started before."""
        if self._is_wanted:
            return
        self._is_wanted = True
        try:
            self._process = _start()
        except OSError as error:
            self._tell(error)

    async def words(self, arrivals: Sequence[Arrival]) -> bytes:
        """The index of the arrivals' words, without vectors; empty if it is to be built elsewhere."""
        async with self._turn:
            if self._process is None or not arrivals:
                return b""
            try:
                return await self._ask(self._process, indexed_fields(arrivals))
            except (OSError, EOFError, TimeoutError) as error:
                self._tell(error)
                await self.close()
                return b""

    async def _ask(self, process: "subprocess.Popen[bytes]", fields: Sequence[Fields]) -> bytes:
        self._asked = asyncio.ensure_future(asyncio.to_thread(_exchange, process, fields))
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.shield(self._asked)

    def _tell(self, error: Exception) -> None:
        self._emit(Event(FAILED, "warning", {"error": type(error).__name__, "instead": "built in this process"}))

    async def __aenter__(self) -> "Builder":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if self._asked is not None:
            await asyncio.gather(self._asked, return_exceptions=True)
        await asyncio.to_thread(_reap, process)


def _start() -> "subprocess.Popen[bytes]":
    """A Python that knows where this one finds its modules, and nothing else of it; Ctrl-C is not for it."""
    argv = [sys.executable, "-I", "-c", _PROGRAM, *import_path()]
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"OPENBLAS_NUM_THREADS": "1"}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(  # noqa: S603
        argv, env=env, cwd="/", stdin=pipe, stdout=pipe, stderr=null, start_new_session=True
    )


def _exchange(process: "subprocess.Popen[bytes]", fields: Sequence[Fields]) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    _write(process.stdin, pickle.dumps(fields, pickle.HIGHEST_PROTOCOL))
    return _read(process.stdout)


def _reap(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # what was not sent is not missed
            pipe.close()
    process.wait()


def _write(pipe: IO[bytes], value: bytes) -> None:
    pipe.write(len(value).to_bytes(HEAD, "big"))
    pipe.write(value)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes:
    """One value; raises ``EOFError`` if there is none, or not the whole of it."""
    head = pipe.read(HEAD)
    size = int.from_bytes(head, "big")
    value = pipe.read(size) if len(head) == HEAD else b""
    if not size or len(value) < size:
        raise EOFError
    return value


def serve() -> None:
    """In the process: index what comes in, until nothing more does."""
    with suppress(EOFError, BrokenPipeError):
        while True:
            fields: list[Fields] = pickle.loads(_read(sys.stdin.buffer))  # noqa: S301, who started it sends it
            _write(sys.stdout.buffer, index_words(fields))
