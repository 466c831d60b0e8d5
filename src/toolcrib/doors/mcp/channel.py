"""The way back from a running call to an MCP client."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.wire.jsonrpc import encode, encode_notification
from toolcrib.wire.strict import clean_object

PROGRESS = "notifications/progress"
BACKLOG_MAX = 1024 * 1024
"""A client with more than this left to read is told nothing it did not ask for."""

_object = msgspec.json.Decoder(dict[str, Any])


class ClientChannel(msgspec.Struct, eq=False):
    """A BackChannel for one request; the doors say how a message is sent and a question asked."""

    capabilities: Mapping[str, Any]
    takes_input_required: bool
    wants_progress: bool
    _token: Any
    """Under which the client wants to hear of progress, if it does."""

    def notify(self, method: str, params: bytes) -> None:
        """Pass a notification on, unless the client is far behind; progress carries the client's own token."""
        if self.backlog > BACKLOG_MAX:
            return
        if method == PROGRESS and not self.wants_progress:
            return
        try:
            params = clean_object(params)
            if method == PROGRESS:
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
