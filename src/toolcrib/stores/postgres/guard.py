"""For a thread that waits for a database: libpq itself waits for one that hangs without end."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

LOOKS = 4
"""How often within its limit a use is looked at."""


class Guard:
    """Breaks a connection that is used beyond the moment its work is due; whoever waits there hears of it at once."""

    def __init__(self, connection: "Connection[Any]", limit_s: float) -> None:
        # A handle of its own: the connection's number may already be another's when it is cut.
        self._line = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        self._limit_s = limit_s
        self._due: float | None = None
        self._is_over = threading.Event()
        threading.Thread(target=self._watch, name="toolcrib-guard", daemon=True).start()

    @contextmanager
    def watching(self, due: float) -> Iterator[None]:
        """One use of the connection; ``due`` is the moment, by the monotonic clock, at which it has to be over."""
        self._due = due
        try:
            yield
        finally:
            self._due = None

    def close(self) -> None:
        """Watch no more."""
        self._is_over.set()

    def _watch(self) -> None:
        with self._line:
            while not self._is_over.wait(self._limit_s / LOOKS):
                due = self._due
                if due is not None and time.monotonic() > due:
                    with suppress(OSError):
                        self._line.shutdown(socket.SHUT_RDWR)
                    return
