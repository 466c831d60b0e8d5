"""A worker that stays: asked one thing after the other, each done in a copy of it that is gone with the answer."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.core.errors import ToolFailed
from toolcrib.transports.spawn import Process
from toolcrib.transports.stdio import PipeReader, PipeWriter, StderrRing

HEAD = 4  # bytes that tell a length


class Standing:
    """One worker; whoever gets no answer from it, or stops waiting for one, closes it and takes another."""

    def __init__(self, process: Process, request: bytes) -> None:
        self._process = process
        self._heard = bytearray()
        self._stderr = StderrRing()
        self._waiting: asyncio.Future[bytes] | None = None
        self._stdin = PipeWriter(process.stdin)
        self._readers = [
            PipeReader(process.stdout, self._take, self._end),
            PipeReader(process.stderr, self._stderr.append, lambda: None),
        ]
        self.calls = 0
        self.has_ended = False
        """Whether it will answer nothing more."""
        self._send(request)

    async def ask(self, given: Mapping[str, Any]) -> bytes:
        """What the function returned; raises ``ToolFailed`` if the call ended without an answer."""
        self.calls += 1
        self._waiting = asyncio.get_running_loop().create_future()
        if self.has_ended:
            self._end()
        self._send(msgspec.json.encode(given))
        answer = await self._waiting
        if not answer:
            self._readers[1].read()
            said = self._stderr.lines(20)
            raise ToolFailed("A worker ended without an answer.", details={"stderr": said})
        return answer

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._stdin.close()
        for reader in self._readers:
            reader.close()
        self._process.close_pipes()
        self._process.abandon()

    def _send(self, value: bytes) -> None:
        try:
            self._stdin.write(len(value).to_bytes(HEAD, "big") + value)
        except (OSError, ValueError):  # it has ended already
            self._end()

    def _take(self, chunk: bytes) -> None:
        self._heard += chunk
        size = int.from_bytes(self._heard[:HEAD], "big")
        if len(self._heard) >= HEAD + size:
            answer = bytes(self._heard[HEAD : HEAD + size])
            self._heard.clear()
            self._settle(answer)

    def _end(self) -> None:
        self.has_ended = True
        self._settle(b"")

    def _settle(self, answer: bytes) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)
