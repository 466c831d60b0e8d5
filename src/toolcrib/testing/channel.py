"""A client that notes what it is told and asked, and answers from a list."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.call import BackChannel
from toolcrib.core.errors import NotImplementedHere


class RecordingChannel:
    """A ``BackChannel``; it can be asked exactly those methods that it was given answers for."""

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        capabilities: Mapping[str, Any] | None = None,
        takes_input_required: bool = False,
        wants_progress: bool = False,
    ) -> None:
        self.answers = dict(answers or {})
        self.capabilities: Mapping[str, Any] = capabilities or {}
        self.takes_input_required = takes_input_required
        self.wants_progress = wants_progress
        self.told: list[tuple[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []

    def notify(self, method: str, params: bytes) -> None:
        """Note the notification, decoded."""
        self.told.append((method, msgspec.json.decode(params)))

    async def ask(self, method: str, params: bytes) -> bytes:
        """Note the question, decoded; give the answer, or raise it if it is an exception."""
        self.asked.append((method, msgspec.json.decode(params)))
        if method not in self.answers:
            raise NotImplementedHere(f"The client has no answer to {method!r}.")
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)


if TYPE_CHECKING:
    _is_a_channel: Callable[..., BackChannel] = RecordingChannel
