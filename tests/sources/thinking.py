"""A client for tests of what a server asks in the middle of a call."""

import asyncio

from toolcrib.testing import RecordingChannel


class Thinking(RecordingChannel):
    """A client that never comes to an answer."""

    def __init__(self) -> None:
        super().__init__(capabilities={"roots": {}})
        self.thinking = self.gave_up = 0

    async def ask(self, method: str, params: bytes) -> bytes:
        self.thinking += 1
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            self.gave_up += 1
