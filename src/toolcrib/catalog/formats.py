"""The catalog in the words of model providers, and what it costs them to read."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from toolcrib.catalog.catalog import Route
from toolcrib.core.errors import CallerError, did_you_mean
from toolcrib.schema.signature import signature

BYTES_PER_TOKEN = 4


def _anthropic(route: Route) -> dict[str, Any]:
    return {"name": route.name, "description": route.tool.description, "input_schema": route.tool.input_schema}


def _openai(route: Route) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": route.name,
            "description": route.tool.description,
            "parameters": route.tool.input_schema,
        },
    }


FORMATS: Mapping[str, Callable[[Route], dict[str, Any]]] = {
    "mcp": Route.to_mcp,
    "anthropic": _anthropic,
    "openai": _openai,
}


def render(route: Route, format: str) -> dict[str, Any]:  # noqa: A002
    """One tool in a provider's own form."""
    try:
        return FORMATS[format](route)
    except KeyError:
        hint = did_you_mean(format, list(FORMATS)) or f"Known formats: {', '.join(FORMATS)}."
        raise CallerError(f"No tool format named {format!r}.", hint=hint) from None


def signature_of(route: Route) -> str:
    """The tool in one line that a model can call from."""
    return signature(route.name, route.tool.input_schema, route.tool.description or route.tool.title)


def approximate_tokens(route: Route) -> int:
    """Roughly what the definition costs a model's context."""
    return len(msgspec.json.encode(_anthropic(route))) // BYTES_PER_TOKEN
