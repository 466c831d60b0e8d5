"""The way back from a running call to an MCP client."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from toolcrib.wire.jsonrpc import decode, encode, encode_notification
from toolcrib.wire.server import Asker

PROGRESS = "notifications/progress"


class Ask(Protocol):
    """Sends a request to the client and waits for its result."""

    async def __call__(self, method: str, params: bytes) -> bytes:
        """The raw result."""


class ClientChannel:
    """Notifications go out by ``send``, questions by ``ask``; progress carries the client's own token."""

    __slots__ = ("_ask", "_asker", "_send", "_token")

    def __init__(self, asker: Asker, token: Any, send: Callable[[bytes], None], ask: Ask) -> None:
        self._asker, self._token, self._send, self._ask = asker, token, send, ask

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client said it can be asked."""
        return self._asker.capabilities

    @property
    def takes_input_required(self) -> bool:
        """Clients of the stateless era are not asked, they are handed the question as a result."""
        return self._asker.is_modern

    @property
    def wants_progress(self) -> bool:
        """Whether the client gave a progress token."""
        return self._token is not None

    def notify(self, method: str, params: bytes) -> None:
        """Pass a notification on."""
        if method == PROGRESS:
            if self._token is None:
                return
            params = encode({**decode(params), "progressToken": self._token})
        self._send(encode_notification(method, params))

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client."""
        return await self._ask(method, params)
