"""A server on stdin and stdout: one JSON message per line, in both directions.

Reading and writing go straight to the pipes when the event loop says they are ready: less work per message than a
loop's own pipe transports, the same on every loop, and nothing to await while opening or giving up.
"""

import asyncio
import contextlib
import fcntl
import io
from collections import deque
from collections.abc import Callable
from typing import Protocol

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.framing import LINE_LIMIT, LineFramer
from toolcrib.transports.process.spawn import Process, Spawner
from toolcrib.transports.process.spec import ExitReport, ProcessSpec

READ_BYTES = 256 * 1024
"""What a pipe is made to hold, where that can be done: a megabyte is then four turns of the loop, not sixteen."""
HIGH_WATER_BYTES = 256 * 1024
UNSENT_MAX_BYTES = 64 * 1024 * 1024
"""A server that leaves this much unread is as good as gone."""
STDERR_BYTES = 64 * 1024
EXIT_REPORT_WAIT_S = 0.5
NOISE_LINES = 8
NOISE_BYTES = 512
OVERLONG = b"<line dropped: too long> "
"""How a note about a line beyond the limit begins; its first bytes follow."""
NEWLINE = ord("\n")
_JSON_STARTS = (b"{", b"[")


class MessageSink(Protocol):
    """Whoever listens to a server; called on the event loop, and must not raise."""

    def message_received(self, line: bytes, /) -> None:
        """One message, without its line end."""

    def noise_received(self, line: bytes, /) -> None:
        """A line that is no JSON message, or a note that one was dropped for its length, with its first bytes."""

    def connection_lost(self, report: ExitReport | None, /) -> None:
        """Nothing more will come; how the server ended, if that is known. Called exactly once."""


class StderrRing:
    """The last of what a server wrote to stderr."""

    def __init__(self, capacity: int = STDERR_BYTES) -> None:
        self._capacity = capacity
        self._kept = bytearray()
        self._is_cut = False

    def append(self, chunk: bytes) -> None:
        """Keep ``chunk``, forget the oldest."""
        self._kept += chunk
        excess = len(self._kept) - self._capacity
        if excess > 0:
            self._is_cut = self._kept[excess - 1] != NEWLINE
            del self._kept[:excess]

    def lines(self, count: int) -> list[str]:
        """The last ``count`` lines that are not blank, oldest first; without one whose beginning is forgotten.

        It may begin in the middle of a secret, which nobody could recognise by its rest.
        """
        kept = self._kept.partition(b"\n")[2] if self._is_cut else self._kept
        lines = kept.decode(errors="replace").splitlines()
        return [line for line in lines if line.strip()][-count:] if count > 0 else []


class PipeReader:
    """Hands over what arrives in a pipe, until it ends."""

    def __init__(self, pipe: io.FileIO, on_chunk: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._pipe = pipe
        self._on_chunk = on_chunk
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        with contextlib.suppress(AttributeError, OSError):  # Linux alone knows it, and a user may have too many of them
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, READ_BYTES)
        self._loop.add_reader(pipe.fileno(), self.read)

    def read(self) -> None:
        """Take what is there now; costs nothing if there is nothing."""
        if self._pipe.closed:
            return
        chunk = self._pipe.read(READ_BYTES)
        if chunk:
            self._on_chunk(chunk)
        elif chunk is not None:
            self.close()
            self._on_end()

    def close(self) -> None:
        """Listen no more."""
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()


class PipeWriter:
    """Writes to a pipe at once, keeps what does not fit, and tells those who ask to slow down."""

    def __init__(self, pipe: io.FileIO) -> None:
        self._pipe = pipe
        self._kept = bytearray()
        self._moved = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        """Write, or keep for later; raises ``OSError`` when nobody reads any more, ``ValueError`` when closed."""
        if self._kept:
            self._kept += data
            return
        written = self._pipe.write(data) or 0
        if written < len(data):
            self._kept += memoryview(data)[written:]
            self._loop.add_writer(self._pipe.fileno(), self._flush)

    async def drain(self) -> None:
        """Wait while too much is kept."""
        while len(self._kept) > HIGH_WATER_BYTES:
            self._moved.clear()
            await self._moved.wait()

    def close(self) -> None:
        """Let the other end see the end; what is still kept is lost."""
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()
        self._kept.clear()
        self._moved.set()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._pipe.closed

    @property
    def unsent_bytes(self) -> int:
        """How much the other end has not taken yet."""
        return len(self._kept)

    def _flush(self) -> None:
        try:
            del self._kept[: self._pipe.write(self._kept) or 0]
        except OSError:
            self.close()
            return
        self._moved.set()
        if not self._kept:
            self._loop.remove_writer(self._pipe.fileno())


class StdioTransport:
    """The conversation with one running server. Cleans up after itself when the server ends, closed or not."""

    def __init__(self, process: Process, sink: MessageSink, line_limit: int) -> None:
        self.stderr = StderrRing()
        self.noise: deque[bytes] = deque(maxlen=NOISE_LINES)
        self.noise_count = 0
        self.oversized = 0
        self._process = process
        self._sink = sink
        self._lost = False
        self._last_call: asyncio.TimerHandle | None = None
        self._framer = LineFramer(line_limit, self._drop_overlong)
        self._stdin = PipeWriter(process.stdin)
        self._stdout = PipeReader(process.stdout, self._take_lines, self._expect_end)
        self._stderr = PipeReader(process.stderr, self.stderr.append, lambda: None)
        process.exited.add_done_callback(lambda _: self._expect_end())
        process.gone.add_done_callback(lambda _: self._lose())

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def isolation(self) -> str:
        """How far the server is kept from the rest."""
        return self._process.spec.isolation

    @property
    def exit(self) -> ExitReport | None:
        """How the server ended, once that is known."""
        return self._process.exited.result() if self._process.exited.done() else None

    def send(self, data: bytes) -> None:
        """Write one message; never waits, see ``drain``. A server that reads nothing for too long is given up."""
        if self._stdin.unsent_bytes > UNSENT_MAX_BYTES:
            self._lose()
        try:
            self._stdin.write(data + b"\n")
        except (OSError, ValueError):
            raise self._closed_error() from None

    async def drain(self) -> None:
        """Wait until the server has taken most of what was sent."""
        await self._stdin.drain()
        if self._stdin.is_closed:
            raise self._closed_error()

    async def close(self) -> None:
        """Stop the server: stdin closes, then it is asked, then killed; returns when nothing of it is left.

        Safe to call twice, from several tasks, and to cancel: the keeper has its order by then.
        """
        self._stdin.close()
        self._process.stop()
        await asyncio.wait([self._process.gone], timeout=self._process.longest_stop_s)
        self._process.abandon()
        self._lose()

    def _take_lines(self, chunk: bytes) -> None:
        for line in self._framer.feed(chunk):
            if line.startswith(_JSON_STARTS) or line.lstrip().startswith(_JSON_STARTS):
                self._sink.message_received(line)
            else:
                self._take_noise(line)

    def _take_noise(self, line: bytes) -> None:
        self.noise_count += 1
        self.noise.append(line[:NOISE_BYTES])
        self._sink.noise_received(line)

    def _drop_overlong(self, head: bytes) -> None:
        self.oversized += 1
        self._take_noise(OVERLONG + head)

    def _expect_end(self) -> None:
        """After either end of stdout or exit of the server, give the other one a moment to arrive."""
        if self._process.stdout.closed and self._process.exited.done():
            self._lose()
        elif self._last_call is None and not self._lost:
            self._last_call = asyncio.get_running_loop().call_later(EXIT_REPORT_WAIT_S, self._lose)

    def _lose(self) -> None:
        """Close all pipes, have the rest swept, and tell the sink: once."""
        if self._lost:
            return
        self._lost = True
        if self._last_call is not None:
            self._last_call.cancel()
        self._stderr.read()
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()
        self._process.stop()
        self._sink.connection_lost(self.exit)

    def _closed_error(self) -> SourceUnavailable:
        ended = f" ({self.exit})" if self.exit else ""
        return SourceUnavailable(
            f"{self._process.spec.argv[0]!r} takes no more messages: it has ended{ended} or closed its stdin.",
            details={"phase": "send", "command": self._process.spec.argv[0]},
        )


async def open_stdio(
    spawner: Spawner, spec: ProcessSpec, sink: MessageSink, *, line_limit: int = LINE_LIMIT
) -> StdioTransport:
    """Start a server and listen to it; raises ``SourceUnavailable`` (phase ``start``) if it cannot be started."""
    process = await spawner.start(spec)
    with contextlib.ExitStack() as undo:
        undo.callback(process.close_pipes)
        undo.callback(process.abandon)
        transport = StdioTransport(process, sink, line_limit)
        undo.pop_all()
    return transport
