"""Results of tools, as a model is shown them."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolcrib.core.call import ToolResult
from toolcrib.models.talk import Picture, Text, ToolAnswer, ToolUse


def answer_of(use: ToolUse, result: ToolResult) -> ToolAnswer:
    """The answer to one tool call: its words, its images, and structured data where there are no words."""
    parts = tuple(part for block in result.content if (part := _part(block)) is not None)
    if not parts and result.structured is not None:
        parts = (Text(msgspec.json.encode(result.structured).decode()),)
    return ToolAnswer(use.id, use.name, parts, is_error=not result.success or result.mcp.get("isError") is True)


def failed(use: ToolUse, message: str) -> ToolAnswer:
    """The answer to a call that was never made."""
    return ToolAnswer(use.id, use.name, (Text(message),), is_error=True)


def _part(block: Mapping[str, Any]) -> Text | Picture | None:
    kind = block.get("type")
    if kind == "text":
        return Text(str(block.get("text", "")))
    if kind == "image":
        return Picture(str(block.get("mimeType") or "image/png"), str(block.get("data") or ""))
    if kind == "resource" and isinstance(resource := block.get("resource"), Mapping):
        return Text(str(resource["text"])) if "text" in resource else Text(_named(resource))
    if kind == "resource_link":
        return Text(_named(block))
    return Text(f"[{kind}, {block.get('mimeType', 'of unknown type')}: not shown]") if kind else None


def _named(resource: Mapping[str, Any]) -> str:
    return "[resource " + ", ".join(_facts(resource)) + "]"


def _facts(resource: Mapping[str, Any]) -> Iterator[str]:
    for key in ("uri", "name", "mimeType"):
        if resource.get(key):
            yield str(resource[key])
