"""Questions toolcrib put to a client, waiting for their answers."""

import asyncio
import itertools
import secrets
from collections.abc import Callable

from msgspec import UNSET

from toolcrib.core.errors import CallCancelled, RemoteError
from toolcrib.wire.jsonrpc import Inbound, decode_error, encode, encode_notification

_PREFIX = "toolcrib-"


class Questions:
    """Request ids of ours, and who waits for them."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._tag = secrets.token_hex(4)  # another replica may ask the same client
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._closed = False

    async def ask(self, send: Callable[[bytes], None], method: str, params: bytes) -> bytes:
        """Send a request by ``send`` and wait for the client's result."""
        if self._closed:
            raise _unanswered()
        request_id = f"{_PREFIX}{self._tag}-{next(self._ids)}"
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        body = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (encode(request_id), encode(method), params)
        try:
            send(body)
            return await future
        except asyncio.CancelledError:
            if not self._closed:  # the form on the other side is of no use any more
                send(encode_notification("notifications/cancelled", encode({"requestId": request_id})))
            raise
        finally:
            self._waiting.pop(request_id, None)

    def settle(self, message: Inbound) -> bool:
        """Take a client's answer; false if it is to a question that was asked elsewhere, or by nobody any more."""
        if type(message.id) is not str or not message.id.startswith(_PREFIX):
            return True
        future = self._waiting.get(message.id)
        if future is None or future.done():
            return future is not None
        if message.result is not UNSET:
            future.set_result(bytes(message.result))
        elif message.error is not UNSET:
            body = decode_error(message.error)
            future.set_exception(RemoteError(body.code, body.message, data=body.data))
        return True

    def close(self) -> None:
        """The client will answer no more: whoever waits for it, or asks from now on, is told so."""
        self._closed = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_unanswered())


def _unanswered() -> CallCancelled:
    return CallCancelled("The client left before it answered.")
