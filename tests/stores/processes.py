"""Processes of their own for functions of a test; whatever happens, they end with the block that started them."""

import contextlib
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from tests.fleet.running import until

SPAWN = get_context("spawn")


@contextlib.contextmanager
def started(target: Callable[..., object], *arguments: tuple[Any, ...]) -> Iterator[list[SpawnProcess]]:
    """A process for each tuple of arguments."""
    made = [SPAWN.Process(target=target, args=each, daemon=True) for each in arguments]
    try:
        for process in made:
            process.start()
        yield made
    finally:
        for process in made:
            if process.pid is not None:
                process.kill()
                process.join()


def until_at_work(writers: list[SpawnProcess], is_so: Callable[[], bool]) -> None:
    """Wait for a sign of writers that go on for ever; one that ends is a failure."""
    until(lambda: is_so() or not all(writer.is_alive() for writer in writers), deadline_s=200, what="writers at work")
    assert all(writer.is_alive() for writer in writers)


def has_changed(path: Path) -> Callable[[], bool]:
    """Whether the file was replaced since now."""
    stamp = path.stat().st_mtime_ns
    return lambda: path.stat().st_mtime_ns != stamp
