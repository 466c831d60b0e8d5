"""What `toolcrib serve` offers to the frameworks."""

from typing import Any

from toolcrib import tool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@tool(name="shop.stock", security_level="read_only")
def stock(item: str, shelf: int = 1, near: list[str] | None = None) -> dict[str, Any]:
    """How many of an item there are on a shelf."""
    return {"item": item, "shelf": shelf, "near": near, "left": 120}


@tool(security_level="read_only")
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@tool(security_level="read_only")
def picture() -> list[dict[str, str]]:
    """Show a picture."""
    return [{"type": "text", "text": "a pixel"}, {"type": "image", "mimeType": "image/png", "data": PIXEL}]
