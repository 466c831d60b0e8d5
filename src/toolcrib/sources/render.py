"""Whatever a native function returns, as a result a model can read."""

from typing import Any

import msgspec

from toolcrib.core.call import ToolResult
from toolcrib.core.errors import ToolFailed
from toolcrib.wire import strict

_CONTENT_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})


def to_result(value: Any, *, structured: bool = False) -> ToolResult:
    """Text for the model, and the same as structured content where it is an object."""
    if isinstance(value, ToolResult):
        return value
    if _is_content(value):
        return ToolResult({"content": _mend(value)})
    if value is None or isinstance(value, str):
        return ToolResult({"content": [] if value is None else [_text(value)]})
    plain = _plain(value)
    try:
        text = _to_text(plain)
    except UnicodeEncodeError:
        plain = _mend(plain)
        text = _to_text(plain)
    result: dict[str, Any] = {"content": [_text(text)]}
    if structured or isinstance(plain, dict):
        _refuse_unreadable(text)
        result["structuredContent"] = plain
    return ToolResult(result)


def _refuse_unreadable(text: str) -> None:
    """A client that cannot read a value would wait for its answer for ever; short ones are read by everybody."""
    if len(text) > 2 * strict.DEPTH_MAX and (flaw := strict.flaw_of(text.encode())):
        raise ToolFailed(f"The tool returned a value that cannot be read by every client: {flaw}.")


def _is_content(value: Any) -> bool:
    """A non-empty list of MCP content blocks is taken as it is."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(block, dict) and block.get("type") in _CONTENT_TYPES for block in value)
    )


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return msgspec.to_builtins(value, str_keys=True, enc_hook=str)


def _to_text(plain: Any) -> str:
    return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": _mend(text)}


def _mend(plain: Any) -> Any:
    """The same with half surrogate pairs replaced: file names hold them, JSON cannot."""
    if isinstance(plain, str):
        return plain if plain.isascii() else plain.encode(errors="replace").decode()
    if isinstance(plain, list):
        return [_mend(item) for item in plain]
    return {_mend(key): _mend(item) for key, item in plain.items()} if isinstance(plain, dict) else plain
