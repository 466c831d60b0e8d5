"""The history of a conversation, sent to the platform so that it can be looked through for threats."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from toolcrib.core.errors import InvalidArguments, ToolcribError
from toolcrib.platform.headers import Turn, channel_headers
from toolcrib.platform.requests import Ask, Patience, refused, send
from toolcrib.platform.settings import PlatformSettings

PATH = "/agents/real-time-threat-protection/chat-message"
FAILED = "Failed to send chat history"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation; any role a model knows may have said it."""

    role: str
    content: str
    id: str | None = None
    timestamp: datetime | str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """As the platform reads it."""
        moment = self.timestamp
        if isinstance(moment, datetime):
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
        return {"id": self.id, "role": self.role, "content": self.content, "timestamp": moment}


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of it: nothing here is raised, a conversation goes on without the platform."""

    error: ToolcribError | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the platform has it."""
        return self.error is None


async def send_chat_history(
    turn: Turn,
    history: Sequence[ChatMessage],
    *,
    orchestrator_name: str = "",
    settings: PlatformSettings | None = None,
    patience: Patience | None = None,
) -> Sent:
    """Send a conversation as it is before this turn's message; only a turn that does not say which one is an error."""
    needed = {"conversation_id": turn.conversation_id, "message_id": turn.message_id, "text": turn.text}
    if missing := [name for name, value in needed.items() if not value]:
        raise InvalidArguments(f"The turn lacks {', '.join(missing)}.", hint="Fill them in from the activity.")
    body = {
        "conversationId": turn.conversation_id,
        "messageId": turn.message_id,
        "userMessage": turn.text,
        "chatHistory": [message.to_dict() for message in history],
    }
    headers = {**channel_headers(turn, orchestrator_name), "Content-Type": "application/json"}
    try:
        url = chat_url((settings or PlatformSettings()).endpoint)
        ask = Ask(url, headers, "POST", msgspec.json.encode(body))
        response = await send(ask, patience or Patience(), FAILED)
    except ToolcribError as error:
        return Sent(error)
    return Sent() if 200 <= response.status < 300 else Sent(refused(response, FAILED))


def chat_url(endpoint: str) -> str:
    """Where conversations are sent."""
    return endpoint + PATH
