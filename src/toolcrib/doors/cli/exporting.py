"""Where exports go: to stdout, or into a file that is there as a whole or not at all."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from toolcrib.stores.files import writing


@contextmanager
def export_to(path: str | None) -> Iterator[Callable[[bytes], object]]:
    """What takes the export part by part; a file that only this user may read has it when all came through."""
    if path is not None:
        with writing(Path(path), 0o600, keep=0o600) as write:
            yield write
        return
    sys.stdout.flush()
    yield sys.stdout.buffer.write
    sys.stdout.buffer.flush()
