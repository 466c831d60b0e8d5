"""The way back from a running call to an MCP client."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.wire.jsonrpc import encode, encode_notification
from toolcrib.wire.server import Asker

PROGRESS = "notifications/progress"
BACKLOG_MAX = 1024 * 1024
"""A client with more than this left to read is told nothing it did not ask for."""

_object = msgspec.json.Decoder(dict[str, Any])


class ClientChannel:
    """A BackChannel for one request; the doors say how a message is sent and a question asked."""

    __slots__ = ("_token", "capabilities", "takes_input_required", "wants_progress")

    def __init__(self, asker: Asker, token: Any) -> None:
        self.capabilities: Mapping[str, Any] = asker.capabilities
        self.takes_input_required = asker.is_modern
        self.wants_progress = token is not None
        self._token = token

    def notify(self, method: str, params: bytes) -> None:
        """Pass a notification on, unless the client is far behind; progress carries the client's own token."""
        if self.backlog > BACKLOG_MAX:
            return
        if method == PROGRESS:
            if self._token is None:
                return
            try:
                params = encode({**_object.decode(params), "progressToken": self._token})
            except msgspec.DecodeError:  # a server's nonsense is no reason to disturb its other calls
                return
        self.send(encode_notification(method, params))

    @property
    @abstractmethod
    def backlog(self) -> int:
        """How many bytes the client has not read yet."""

    @abstractmethod
    def send(self, message: bytes) -> None:
        """Send a message to the client before the result."""

    @abstractmethod
    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client something; the raw result."""
