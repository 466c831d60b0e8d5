"""Heads a connection has seen before. A client that keeps its connection sends the same head again and again; the
same bytes mean the same request, so only the first one is parsed."""

from asyncio import Transport
from typing import TYPE_CHECKING

from toolcrib.transports.http_exchange import Exchange
from toolcrib.transports.http_message import Request

if TYPE_CHECKING:
    from toolcrib.transports.http_connection import ServerConnection

HEADS_MAX = 8
HEAD_BYTES_MAX = 4096  # longer ones are not worth their memory, with a thousand connections
HEAD_END = b"\r\n\r\n"


class KnownHead:
    """What a head was found to say."""

    __slots__ = ("_chunked", "_extra", "_request", "length")

    def __init__(self, request: Request, exchange: Exchange) -> None:
        self._request = request.with_body(b"")  # neither the body nor the exchange may live on with the head
        self._chunked, self._extra = exchange.chunked, exchange.extra
        self.length = len(request.body)

    def request(self, body: bytes) -> Request:
        """The same request with another body."""
        return self._request.with_body(body)

    def exchange(self, connection: "ServerConnection", transport: Transport, keep_alive: bool) -> Exchange:
        """The way back, fit for the head's version of HTTP and its origin."""
        return Exchange(connection, transport, keep_alive, False, self._chunked, self._extra)


class KnownHeads:
    """The first few heads of one connection, by their exact bytes."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}

    def recognise(self, data: bytes) -> tuple[KnownHead, bytes] | None:
        """The known head and the body of ``data``, if that is exactly one whole request with such a head."""
        end = data.find(HEAD_END) + len(HEAD_END)
        known = self._heads.get(data[:end])
        if known is None or len(data) != end + known.length:
            return None
        return known, data[end:]

    def learn(self, data: bytes, request: Request, exchange: Exchange) -> None:
        """Remember the head of ``data``, if that is exactly the whole of a POST whose length is stated.

        The first few stay: a client whose heads all differ would otherwise pay for learning each of them.
        """
        if len(self._heads) >= HEADS_MAX or request.method != b"POST" or not exchange.keep_alive:
            return
        end = data.find(HEAD_END) + len(HEAD_END)
        stated = request.header(b"content-length")
        if stated is not None and int(stated) == len(data) - end and end <= HEAD_BYTES_MAX:
            self._heads[data[:end]] = KnownHead(request, exchange)
