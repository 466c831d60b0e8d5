"""OpenAI's chat completions, which most other servers speak, too."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolcrib.models.api import Api, Event, bearer
from toolcrib.models.talk import (
    ModelReply,
    ModelRequest,
    Part,
    Picture,
    TextPart,
    TokenUsage,
    ToolAnswer,
    ToolRequest,
    Turn,
    parse_use,
)

NAME = "openai"
_STOPS = {"stop": "end", "tool_calls": "tools", "function_call": "tools", "content_filter": "refusal"}


def body(model: str, request: ModelRequest) -> dict[str, Any]:
    """The request."""
    system = [{"role": "system", "content": request.system}] if request.system else []
    sent: dict[str, Any] = {
        "model": model,
        "messages": [*system, *(message for turn in request.turns for message in _messages(turn))],
        "max_tokens": request.max_tokens,
        "stream": request.stream,
    }
    if request.stream:
        sent["stream_options"] = {"include_usage": True}
    if request.tools:
        sent["tools"] = list(request.tools)
    return {**sent, **request.extra}


def _messages(turn: Turn) -> Iterator[dict[str, Any]]:
    """A turn as messages: every tool's answer is its own; images, which those cannot hold, follow as the user's."""
    if turn.raw is not None and turn.spoken == NAME:
        yield turn.raw
        return
    if turn.role == "assistant":
        yield _assistant(turn.text, turn.uses)
        return
    answers = [part for part in turn.parts if isinstance(part, ToolAnswer)]
    for answer in answers:
        yield {"role": "tool", "tool_call_id": answer.id, "content": _answer(answer)}
    shown: list[Part] = [part for part in turn.parts if isinstance(part, TextPart | Picture)]
    for answer in answers:
        if answer.pictures:
            shown += [TextPart(f"What {answer.name} ({answer.id}) showed:"), *answer.pictures]
    if shown:
        yield {"role": "user", "content": _content(shown)}


def _answer(answer: ToolAnswer) -> str:
    text = answer.text or ("(images follow)" if answer.pictures else "(nothing)")
    return f"Error: {text}" if answer.is_error else text


def _content(parts: list[Part]) -> Any:
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return [_block(part) for part in parts]


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Picture):
        return {"type": "image_url", "image_url": {"url": f"data:{part.mime};base64,{part.data}"}}
    return {"type": "text", "text": part.text if isinstance(part, TextPart) else ""}


def _assistant(text: str, uses: list[ToolRequest], written: Mapping[str, str] | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if uses:
        message["tool_calls"] = [
            {
                "id": use.id,
                "type": "function",
                "function": {
                    "name": use.name,
                    "arguments": (written or {}).get(use.id) or msgspec.json.encode(use.arguments).decode(),
                },
            }
            for use in uses
        ]
    return message


class ChatReader:
    """Puts the pieces of an answer together."""

    def __init__(self) -> None:
        self._text = ""
        self._calls: dict[int, dict[str, str]] = {}
        self._stop = ""
        self._usage = TokenUsage()

    def feed(self, event: Event) -> str:
        """Take one event; the new words in it."""
        self._count(event.get("usage"))
        choices = event.get("choices") or ()
        if not choices:
            return ""
        self._stop = choices[0].get("finish_reason") or self._stop
        delta = choices[0].get("delta") or {}
        for position, call in enumerate(delta.get("tool_calls") or ()):
            self._extend(call.get("index", position), call)
        new = str(delta.get("content") or delta.get("refusal") or "")
        self._text += new
        return new

    def _extend(self, index: int, call: Mapping[str, Any]) -> None:
        known = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = call.get("function") or {}
        known["id"] = known["id"] or str(call.get("id") or "")
        known["name"] += str(function.get("name") or "")
        known["arguments"] += str(function.get("arguments") or "")

    def whole(self, document: Event) -> None:
        """Take an answer that was not streamed."""
        choice = (document.get("choices") or [{}])[0]
        self.feed({"usage": document.get("usage"), "choices": [{**choice, "delta": choice.get("message") or {}}]})

    def reply(self) -> ModelReply:
        """The model's turn."""
        uses, written = [], {}
        for index, call in sorted(self._calls.items()):
            use = parse_use(call["id"] or f"call_{index}", call["name"], call["arguments"])
            uses.append(use)
            written[use.id] = "{}" if use.problem else call["arguments"]
        raw = _assistant(self._text, uses, written)
        turn = Turn("assistant", (*((TextPart(self._text),) if self._text else ()), *uses), raw, NAME)
        stop = "tools" if uses and self._stop == "stop" else _STOPS.get(self._stop, self._stop)
        return ModelReply(turn, stop, self._usage)

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        if usage:
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            self._usage = TokenUsage(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, cached)


OPENAI = Api(NAME, "openai", "https://api.openai.com/v1", "/chat/completions", bearer, body, ChatReader)
