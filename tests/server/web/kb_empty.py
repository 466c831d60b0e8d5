"""A knowledge base that knows nothing yet."""

from typing import Any

from toolcrib.sources.native.functions import tool

NOTHING: dict[str, Any] = {"collections": []}


@tool(name="kb_list_collections", security_level="read_only", input_schema={"type": "object"})
def list_collections(arguments: dict[str, Any]) -> dict[str, Any]:
    """None."""
    return NOTHING
