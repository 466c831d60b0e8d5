"""One event loop per command, and what signals do to it."""

import asyncio
import contextlib
import gc
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

BACKGROUND_OPTION = "--background"
"""With the descriptor on which somebody waits for it to serve; 0 if nobody does."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop(asyncio.Event):
    """Set when it is time to stop."""

    sign: int = 0
    """The signal that said so."""
    is_restart: bool = False
    """Whether the same command begins anew, in this very process, when this one has ended."""
    port: int = 0
    """Where it is to listen then, if it took any free port."""

    def ask(self, is_restart: bool) -> None:
        """Have it end in good order, as after SIGTERM; once what is being answered was sent."""
        self.sign, self.is_restart = signal.SIGTERM, is_restart
        asyncio.get_running_loop().call_soon(self.set)


Serve = Callable[[Stop], Coroutine[Any, Any, int]]


def run_once(work: Coroutine[Any, Any, int | None]) -> int:
    """Run a command to its end; a signal cancels it, and shows in the exit code."""

    async def main(received: list[int]) -> int:
        task = asyncio.current_task()

        def interrupt(sign: int) -> None:
            received.append(sign)
            if task is not None:
                task.cancel()

        with _signals_go_to(interrupt):
            return await work or 0

    return _run(main)


def settle_memory() -> None:
    """Tell the garbage collector that what is loaded by now stays, and that calls make little garbage in cycles."""
    # The allocator of most Linux systems learns from the largest piece it got back how much to keep: with this one,
    # it keeps what a few answers of 1 MB take, instead of asking the kernel for hundreds of fresh pages for each.
    bytes(8 * 1024 * 1024)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def run_until_stopped(serve: Serve) -> int:
    """Run a server; the first signal asks it to stop in good order, the second one does not ask."""
    stop = Stop()

    async def main(received: list[int]) -> int:
        task = asyncio.current_task()

        def interrupt(sign: int) -> None:
            received.append(sign)
            if stop.is_set() and task is not None:
                task.cancel()
            stop.sign = sign
            stop.set()

        with _signals_go_to(interrupt):
            return await serve(stop)

    code = _run(main)
    if stop.is_restart and code == 0:
        begin_anew(stop.port)
    return code


def begin_anew(port: int) -> NoReturn:
    """Run the same command line in the place of this process: the same id, terminal and environment, with whatever
    version is installed now. One that took any free port takes the same again."""
    is_as_module = Path(sys.argv[0]).name == "__main__.py" and not sys.flags.safe_path  # then modules are found here
    words = [*([] if is_as_module else ["-P"]), "-m", "toolcrib", *sys.argv[1:]]
    words += ["--port", str(port)] if port else []
    if BACKGROUND_OPTION in words:  # whoever started it waits for it no more
        words[words.index(BACKGROUND_OPTION) + 1] = "0"
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - ourselves


def _run(main: Callable[[list[int]], Coroutine[Any, Any, int]]) -> int:
    received: list[int] = []
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(main(received))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 128 + (received[0] if received else signal.SIGINT)


@contextlib.contextmanager
def _signals_go_to(interrupt: Callable[[int], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    heard = [sign for sign in STOP_SIGNALS if signal.getsignal(sign) is not signal.SIG_IGN]
    for sign in heard:
        loop.add_signal_handler(sign, interrupt, int(sign))
    try:
        yield
    finally:
        for sign in heard:
            loop.remove_signal_handler(sign)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


CHUNK = 65_536


@contextmanager
def stdio_as_pipes() -> Iterator[None]:
    """Have stdin and stdout be pipes; where they are something else, threads carry the bytes."""
    writer = None
    if not _is_pipe(0):
        read, write = os.pipe()
        _carry(os.dup(0), write)
        _put(read, 0)
    if not _is_pipe(1):
        read, write = os.pipe()
        writer = _carry(read, os.dup(1))
        _put(write, 1)
    try:
        yield
    finally:
        if writer is not None:
            os.dup2(2, 1)  # the last holder of the pipe lets go, so that what is in it is written out
            writer.join(timeout=5)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _put(descriptor: int, place: int) -> None:
    os.dup2(descriptor, place)
    os.close(descriptor)


def _carry(source: int, target: int) -> threading.Thread:
    def carry() -> None:
        with suppress(OSError):
            while chunk := os.read(source, CHUNK):
                _write_all(target, chunk)
        os.close(target)

    thread = threading.Thread(target=carry, name="carry", daemon=True)
    thread.start()
    return thread


def _write_all(target: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(target, rest) :]
