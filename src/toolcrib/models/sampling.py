"""What a server asks a model by MCP's ``sampling/createMessage``, and what the model answers."""

from collections.abc import Mapping
from typing import Any

from toolcrib.core.errors import InvalidArguments
from toolcrib.models.api import Model, ModelFailed
from toolcrib.models.talk import ModelReply, ModelRequest, Part, Picture, TextPart, Turn

MESSAGES_MAX = 200
_STOPS = {"end": "endTurn", "length": "maxTokens", "tools": "toolUse"}


async def sample_model(model: Model, params: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """The model's answer in MCP's words."""
    async for piece in model.ask(to_request(params, max_tokens)):
        if isinstance(piece, ModelReply):
            content = {"type": "text", "text": piece.turn.text}
            stop = _STOPS.get(piece.stop, piece.stop or "endTurn")
            return {"role": "assistant", "content": content, "model": model.name, "stopReason": stop}
    raise ModelFailed("The model gave no answer.")


def to_request(params: Mapping[str, Any], max_tokens: int) -> ModelRequest:
    """What the model is asked; not more words than configured."""
    messages = params.get("messages")
    if not isinstance(messages, list) or not messages or len(messages) > MESSAGES_MAX:
        raise InvalidArguments(f"sampling/createMessage needs 1 to {MESSAGES_MAX} messages.")
    wanted = params.get("maxTokens")
    system = params.get("systemPrompt")
    return ModelRequest(
        tuple(map(_turn, messages)),
        system if isinstance(system, str) else "",
        max_tokens=max(1, min(wanted, max_tokens)) if isinstance(wanted, int) else max_tokens,
        stream=False,
    )


def _turn(message: Any) -> Turn:
    role, content = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else (None, None)
    if role not in ("user", "assistant"):
        raise InvalidArguments("A message to sample is of the user or of the assistant.")
    blocks = content if isinstance(content, list) else [content]
    return Turn(role, tuple(map(_part, blocks)))


def _part(block: Any) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image", "data": str(data), "mimeType": str(mime)}:
            return Picture(mime, data)
    raise InvalidArguments("Only texts and images can be sampled here.")
