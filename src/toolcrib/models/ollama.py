"""Ollama's chat API, spoken directly, so that schemas arrive whole."""

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.models.api import Api, Event, bearer
from toolcrib.models.talk import (
    ModelReply,
    ModelRequest,
    Picture,
    TextPart,
    TokenUsage,
    ToolAnswer,
    ToolRequest,
    Turn,
    parse_use,
)

NAME = "ollama"
_STOPS = {"stop": "end", "length": "length"}


def body(model: str, request: ModelRequest) -> dict[str, Any]:
    """The request; what the API calls options goes there."""
    system = [{"role": "system", "content": request.system}] if request.system else []
    extra = dict(request.extra)
    sent: dict[str, Any] = {
        "model": model,
        "messages": [*system, *(message for turn in request.turns for message in _messages(turn))],
        "options": {"num_predict": request.max_tokens, **extra.pop("options", {})},
        "stream": request.stream,
    }
    if "temperature" in extra:
        sent["options"]["temperature"] = extra.pop("temperature")
    if request.tools:
        sent["tools"] = list(request.tools)
    return {**sent, **extra}


def _messages(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.role == "assistant":
        yield turn.raw if turn.raw is not None and turn.spoken == NAME else _assistant(turn.text, turn.uses)
        return
    for part in turn.parts:
        if isinstance(part, ToolAnswer):
            text = part.text or "(nothing)"
            message = {"role": "tool", "tool_name": part.name, "tool_call_id": part.id}
            yield _with_pictures({**message, "content": f"Error: {text}" if part.is_error else text}, part.pictures)
    said = [part for part in turn.parts if isinstance(part, TextPart | Picture)]
    if said:
        pictures = [part for part in said if isinstance(part, Picture)]
        yield _with_pictures({"role": "user", "content": turn.text}, pictures)


def _with_pictures(message: dict[str, Any], pictures: list[Picture]) -> dict[str, Any]:
    return {**message, "images": [picture.data for picture in pictures]} if pictures else message


def _assistant(text: str, uses: list[ToolRequest]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if uses:
        message["tool_calls"] = [
            {"id": use.id, "function": {"name": use.name, "arguments": dict(use.arguments)}} for use in uses
        ]
    return message


class OllamaReader:
    """Puts the lines of an answer together; calls come whole, and often without an id."""

    def __init__(self) -> None:
        self._text = self._thinking = ""
        self._uses: list[ToolRequest] = []
        self._stop = ""
        self._usage = TokenUsage()

    def feed(self, event: Event) -> str:
        """Take one line; the new words in it."""
        message = event.get("message") or {}
        for call in message.get("tool_calls") or ():
            self._uses.append(self._use(call))
        if event.get("done"):
            self._stop = str(event.get("done_reason") or "")
            self._usage = TokenUsage(event.get("prompt_eval_count") or 0, event.get("eval_count") or 0)
        new = str(message.get("content") or "")
        self._text += new
        self._thinking += str(message.get("thinking") or "")
        return new

    def _use(self, call: Mapping[str, Any]) -> ToolRequest:
        function = call.get("function") or {}
        use_id, name = str(call.get("id") or f"call_{len(self._uses)}"), str(function.get("name") or "")
        given = function.get("arguments")
        if isinstance(given, Mapping):
            return ToolRequest(use_id, name, given)
        return parse_use(use_id, name, given if isinstance(given, str) else "")

    def whole(self, document: Event) -> None:
        """Take an answer that was not streamed."""
        self.feed({**document, "done": True})

    def reply(self) -> ModelReply:
        """The model's turn."""
        raw = _assistant(self._text, self._uses) | ({"thinking": self._thinking} if self._thinking else {})
        turn = Turn("assistant", (*((TextPart(self._text),) if self._text else ()), *self._uses), raw, NAME)
        return ModelReply(
            turn, "tools" if self._uses and self._stop == "stop" else _STOPS.get(self._stop, self._stop), self._usage
        )


OLLAMA = Api(NAME, "ollama", "http://127.0.0.1:11434", "/api/chat", bearer, body, OllamaReader, is_lines=True)
