"""OpenAI's responses."""

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

NAME = "openai-responses"


def body(model: str, request: ModelRequest) -> dict[str, Any]:
    """The request: a flat list of items."""
    sent: dict[str, Any] = {
        "model": model,
        "input": [item for turn in request.turns for item in _items(turn)],
        "max_output_tokens": request.max_tokens,
        "stream": request.stream,
    }
    if request.system:
        sent["instructions"] = request.system
    if request.tools:
        sent["tools"] = list(request.tools)
    return {**sent, **request.extra}


def _items(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.raw is not None and turn.spoken == NAME:
        yield from turn.raw
        return
    said = [part for part in turn.parts if isinstance(part, TextPart | Picture)]
    if turn.role == "assistant":
        if turn.text:
            yield {"role": "assistant", "content": [{"type": "output_text", "text": turn.text}]}
        for use in turn.uses:
            yield _call(use)
        return
    for part in turn.parts:
        if isinstance(part, ToolAnswer):
            yield {"type": "function_call_output", "call_id": part.id, "output": _output(part)}
    if said:
        yield {"role": "user", "content": [_block(part) for part in said]}


def _call(use: ToolRequest) -> dict[str, Any]:
    arguments = msgspec.json.encode(use.arguments).decode()
    return {"type": "function_call", "call_id": use.id, "name": use.name, "arguments": arguments}


def _output(answer: ToolAnswer) -> Any:
    """Words as they are; a list of blocks only where there is an image."""
    text = f"Error: {answer.text}" if answer.is_error else answer.text
    if not answer.pictures:
        return text or "(nothing)"
    return [*([{"type": "input_text", "text": text}] if text else []), *map(_block, answer.pictures)]


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Picture):
        return {"type": "input_image", "image_url": f"data:{part.mime};base64,{part.data}", "detail": "auto"}
    return {"type": "input_text", "text": part.text if isinstance(part, TextPart) else ""}


class ResponsesReader:
    """Gathers the finished items of an answer."""

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._written: dict[int, str] = {}
        self._status = ""
        self._usage = TokenUsage()

    def feed(self, event: Event) -> str:
        """Take one event; the new words in it."""
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                return str(event.get("delta") or "")
            case "response.output_item.added" | "response.output_item.done":
                self._items[event["output_index"]] = dict(event["item"])
            case "response.function_call_arguments.delta":
                index = event["output_index"]
                self._written[index] = self._written.get(index, "") + str(event.get("delta") or "")
            case "response.completed" | "response.incomplete" | "response.failed":
                self._finish(event.get("response") or {})
        return ""

    def whole(self, document: Event) -> None:
        """Take an answer that was not streamed."""
        self._items = {index: dict(item) for index, item in enumerate(document.get("output") or ())}
        self._finish(document)

    def _finish(self, response: Mapping[str, Any]) -> None:
        reason = (response.get("incomplete_details") or {}).get("reason")
        self._status = "length" if reason == "max_output_tokens" else reason or "completed"
        usage = response.get("usage") or {}
        cached = (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0
        self._usage = TokenUsage(usage.get("input_tokens") or 0, usage.get("output_tokens") or 0, cached)

    def reply(self) -> ModelReply:
        """The model's turn."""
        parts: list[Part] = []
        for index, item in sorted(self._items.items()):
            if item.get("type") == "message":
                parts.append(TextPart(_said(item)))
            elif item.get("type") == "function_call":
                parts.append(self._use(index, item))
        turn = Turn("assistant", tuple(parts), [item for _, item in sorted(self._items.items())], NAME)
        stop = ("tools" if turn.uses else "end") if self._status == "completed" else self._status
        return ModelReply(turn, stop, self._usage)

    def _use(self, index: int, item: dict[str, Any]) -> ToolRequest:
        written = item.get("arguments") or self._written.get(index, "")
        use = parse_use(str(item.get("call_id")), str(item.get("name")), written)
        item["arguments"] = "{}" if use.problem else written
        return use


def _said(item: Mapping[str, Any]) -> str:
    return "".join(str(block.get("text") or block.get("refusal") or "") for block in item.get("content") or ())


RESPONSES = Api(NAME, "openai-responses", "https://api.openai.com/v1", "/responses", bearer, body, ResponsesReader)
