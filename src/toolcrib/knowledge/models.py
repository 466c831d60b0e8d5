"""Language models behind an HTTP API; the text comes as a stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from toolcrib.core.errors import SourceUnavailable
from toolcrib.knowledge.dialects import DIALECTS, Lines, Message
from toolcrib.transports.http_client import HttpPool, PoolLimits, Receive, Response
from toolcrib.transports.http_dial import encode_own_headers

ERROR_SHOWN = 300


class Model(Protocol):
    """Whoever continues a conversation."""

    name: str

    def complete(self, messages: Sequence[Message], limit: int) -> AsyncGenerator[str, None]:
        """The answer in pieces, of at most so many tokens."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which model, where, and with what key; the key is shown nowhere."""

    provider: str
    model: str
    url: str = ""
    key: str = field(default="", repr=False)
    timeout_s: float = 60.0


class HttpModel:
    """A model that is reached over HTTP."""

    def __init__(self, settings: ModelSettings) -> None:
        self.name = f"{settings.provider}:{settings.model}"
        self._settings = settings
        self._dialect = DIALECTS[settings.provider]
        self._url = (settings.url or self._dialect.base_url).rstrip("/") + self._dialect.path

    async def complete(self, messages: Sequence[Message], limit: int) -> AsyncGenerator[str, None]:
        """The answer in pieces; raises ``SourceUnavailable`` if there is none."""
        body = msgspec.json.encode(self._dialect.body(self._settings.model, messages, limit))
        lines = Lines(is_lines=self._dialect.is_lines)
        async with asyncio.timeout(self._settings.timeout_s), aclosing(self._pieces(body)) as pieces:
            async for piece in pieces:
                for document in lines.feed(piece):
                    if text := self._text(document):
                        yield text

    def _text(self, document: bytes) -> str:
        event = msgspec.json.decode(document)
        if event.get("error"):
            raise self._refusal(str(event["error"]))
        return self._dialect.text(event)

    async def _pieces(self, body: bytes) -> AsyncGenerator[bytes, None]:
        arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        async with _pool(self._url) as pool:
            headers = {"content-type": "application/json", **self._dialect.headers(self._settings.key)}
            head = pool.encode_head("POST", pool.origin.target, encode_own_headers(self.name, headers))

            def choose(response: Response) -> Receive | None:
                return arrived.put_nowait if response.status == 200 else None

            asking = asyncio.ensure_future(pool.exchange(head, body, choose))
            asking.add_done_callback(lambda _: arrived.put_nowait(None))
            try:
                while (piece := await arrived.get()) is not None:
                    yield piece
                response = await asking
            finally:
                asking.cancel()
        if response.status != 200:
            raise self._refusal(f"HTTP {response.status}: {response.body[:ERROR_SHOWN].decode(errors='replace')}")

    def _refusal(self, said: str) -> SourceUnavailable:
        shown = said.replace(self._settings.key, "…") if self._settings.key else said
        return SourceUnavailable(
            f"The model {self.name} gave no answer: {shown[:ERROR_SHOWN]}", hint="Check [kb] model, url and key."
        )


@asynccontextmanager
async def _pool(url: str) -> AsyncIterator[HttpPool]:
    pool = HttpPool(url, limits=PoolLimits(connections=1))
    try:
        yield pool
    finally:
        await pool.close()
