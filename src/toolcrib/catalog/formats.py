"""The catalog in the words of model providers."""

from collections.abc import Iterable
from dataclasses import replace

from toolcrib.catalog.catalog import Route
from toolcrib.core.errors import CallerError, did_you_mean
from toolcrib.schema.dialects.known import DIALECTS, dialect_of
from toolcrib.schema.dialects.names import NameTable
from toolcrib.schema.dialects.offer import Offer, Options
from toolcrib.schema.signature import signature

__all__ = ["FORMATS", "MCP", "Offer", "Options", "offer_routes", "signature_of"]

MCP = "mcp"
FORMATS = (MCP, *DIALECTS)


def offer_routes(routes: Iterable[Route], format: str, options: Options | None = None) -> Offer:  # noqa: A002
    """Tools in a provider's own form; what it would refuse is left out, with the reason."""
    if format not in FORMATS:
        hint = did_you_mean(format, FORMATS) or f"Known formats: {', '.join(FORMATS)}."
        raise CallerError(f"No tool format named {format!r}.", hint=hint)
    if format == MCP:
        return _as_they_are(list(routes))
    return dialect_of(format, options).offer(replace(route.tool, name=route.name) for route in routes)


def _as_they_are(routes: list[Route]) -> Offer:
    """MCP takes every definition as its server gave it."""
    definitions = [route.to_mcp() for route in routes]
    same = {route.name: route.name for route in routes}
    return Offer(definitions, definitions, NameTable(same, same))


def signature_of(route: Route) -> str:
    """The tool in one line that a model can call from."""
    return signature(route.name, route.tool.input_schema, route.tool.description or route.tool.title)
