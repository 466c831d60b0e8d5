"""A line to PostgreSQL that counts what is asked over it, and breaks at the n-th question.

It has threads of its own: some stores ask in a thread, some hold up the event loop while they ask.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STARTUP = 196608


class CountingWire:
    """Stands between a client and the server at ``port``."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]
        self.count = 0
        """Questions since the last ``plan``; a new connection is one, too."""
        self.was_cut = False
        self._at, self._is_answered, self._stays_away = 0, False, False
        self._is_open = True
        self._guard = threading.Lock()
        self._ends: set[socket.socket] = set()

    def url(self, database_url: str) -> str:
        return database_url.replace(f":{self._server}/", f":{self.port}/")

    def plan(self, at: int, *, is_answered: bool = False, stays_away: bool = False) -> None:
        """Cut the line at the n-th question: before the server hears it, or when it has answered. Zero cuts nothing."""
        with self._guard:
            self.count, self.was_cut, self._is_open = 0, False, True
            self._at, self._is_answered, self._stays_away = at, is_answered, stays_away

    def mend(self) -> None:
        """Let everybody through again."""
        self._is_open = True

    def serve(self) -> None:
        """Take connections until the wire is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self._is_open:
                    client.close()
                    continue
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in list(self._ends):
            _hang_up(end)

    def _carry(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._server))
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends.add(end)
        last_answer = threading.Event()
        answers = threading.Thread(target=self._answer, args=(client, server, last_answer), daemon=True)
        answers.start()
        with suppress(OSError):
            self._ask(client, server, last_answer)
        if last_answer.is_set():
            answers.join()
        for end in (client, server):
            self._ends.discard(end)
            _hang_up(end)
        answers.join()
        client.close()
        server.close()

    def _ask(self, client: socket.socket, server: socket.socket, last_answer: threading.Event) -> None:
        """Pass message after message on, up to the one that is cut."""
        for message, is_question in _messages(client):
            if is_question and self._is_due():
                if self._is_answered:
                    last_answer.set()
                    server.sendall(message)
                return
            server.sendall(message)

    def _answer(self, client: socket.socket, server: socket.socket, last_answer: threading.Event) -> None:
        with suppress(OSError):
            while (data := server.recv(65536)) and not last_answer.is_set():
                client.sendall(data)
        _hang_up(client)

    def _is_due(self) -> bool:
        with self._guard:
            self.count += 1
            if self.count != self._at:
                return False
            self.was_cut, self._is_open = True, not self._stays_away
            return True


def _messages(client: socket.socket) -> Iterator[tuple[bytes, bool]]:
    """Each message of a client, and whether it is a question."""
    buffer, is_started = b"", False
    while data := client.recv(65536):
        buffer += data
        while len(buffer) >= (head := 5 if is_started else 4):
            (size,) = struct.unpack_from("!i", buffer, head - 4)
            end = size + head - 4
            if len(buffer) < end:
                break
            message, buffer = buffer[:end], buffer[end:]
            if is_started:
                yield message, message[:1] in (b"Q", b"S")
            else:
                is_started = struct.unpack_from("!i", message, 4)[0] == STARTUP
                yield message, is_started


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def a_counting_wire(port: int) -> Iterator[CountingWire]:
    """To the server at this port."""
    wire = CountingWire(port)
    thread = threading.Thread(target=wire.serve, daemon=True)
    thread.start()
    try:
        yield wire
    finally:
        wire.close()
        thread.join()
