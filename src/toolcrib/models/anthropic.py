"""Anthropic's Messages API."""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.models.api import Api, Event
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

NAME = "anthropic"
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_STOPS = {"end_turn": "end", "stop_sequence": "end", "tool_use": "tools", "max_tokens": "length"}


def body(model: str, request: ModelRequest) -> dict[str, Any]:
    """The request; all answers of tools to one turn are in one message, as the API wants it."""
    sent: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": [{"role": turn.role, "content": _content(turn)} for turn in request.turns],
        "stream": request.stream,
    }
    if request.system:
        sent["system"] = request.system
    if request.tools:
        sent["tools"] = list(request.tools)
    return {**sent, **request.extra}


def _content(turn: Turn) -> Any:
    if turn.raw is not None and turn.spoken == NAME:
        return turn.raw
    return [_block(part) for part in turn.parts if not (isinstance(part, TextPart) and not part.text)]


def _block(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case Picture(mime, data):
            if mime not in PICTURES:
                return {"type": "text", "text": f"[an image of type {mime}, which cannot be shown]"}
            return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
        case ToolRequest(use_id, name, arguments):
            return {"type": "tool_use", "id": use_id, "name": name, "input": dict(arguments)}
        case ToolAnswer(use_id, _, parts, is_error):
            content = [_block(each) for each in parts if not (isinstance(each, TextPart) and not each.text)]
            return {"type": "tool_result", "tool_use_id": use_id, "content": content, "is_error": is_error}


class AnthropicReader:
    """Puts the blocks of an answer together."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._written: dict[int, str] = {}
        """The JSON of tool calls, as far as it has come."""
        self._stop = ""
        self._usage: dict[str, int] = {}

    def feed(self, event: Event) -> str:
        """Take one event; the new words in it."""
        match event.get("type"):
            case "message_start":
                self._count(event.get("message", {}).get("usage"))
            case "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                return self._extend(event["index"], event["delta"])
            case "message_delta":
                self._stop = event.get("delta", {}).get("stop_reason") or self._stop
                self._count(event.get("usage"))
        return ""

    def _extend(self, index: int, delta: Mapping[str, Any]) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
                return str(delta["text"])
            case "input_json_delta":
                self._written[index] = self._written.get(index, "") + delta["partial_json"]
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        return ""

    def whole(self, document: Event) -> None:
        """Take an answer that was not streamed."""
        self._blocks = {index: dict(block) for index, block in enumerate(document.get("content") or ())}
        self._stop = document.get("stop_reason") or ""
        self._count(document.get("usage"))

    def reply(self) -> ModelReply:
        """The model's turn."""
        parts: list[Part] = []
        for index, block in sorted(self._blocks.items()):
            if block.get("type") == "text":
                parts.append(TextPart(str(block.get("text", ""))))
            elif block.get("type") == "tool_use":
                parts.append(self._use(index, block))
        raw = [block for _, block in sorted(self._blocks.items()) if block.get("type") != "text" or block.get("text")]
        turn = Turn("assistant", tuple(parts), raw, NAME)
        return ModelReply(turn, _STOPS.get(self._stop, self._stop), self._spent())

    def _use(self, index: int, block: dict[str, Any]) -> ToolRequest:
        """The call; what is sent back of a broken one is a call without arguments, because the API takes no other."""
        if index in self._written:
            use = parse_use(str(block.get("id")), str(block.get("name")), self._written[index])
        else:
            use = parse_use(str(block.get("id")), str(block.get("name")), _written(block.get("input")))
        block["input"] = dict(use.arguments)
        return use

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        for key, value in (usage or {}).items():
            if isinstance(value, int):
                self._usage[key] = value

    def _spent(self) -> TokenUsage:
        cached = self._usage.get("cache_read_input_tokens", 0)
        made = self._usage.get("cache_creation_input_tokens", 0)
        return TokenUsage(
            self._usage.get("input_tokens", 0) + cached + made, self._usage.get("output_tokens", 0), cached
        )


def _written(value: object) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


ANTHROPIC = Api(
    NAME,
    "anthropic",
    "https://api.anthropic.com/v1",
    "/messages",
    lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
    body,
    AnthropicReader,
)
