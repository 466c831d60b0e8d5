"""A prompt in the own messages of the framework that is named; run with the frameworks' own Python."""

import asyncio
import importlib
import json
import sys
from typing import Any

from tests.adapters.conversations import PIXEL

from toolcrib.core.offers import OfferKind, other_from_mcp
from toolcrib.core.requests import Result
from toolcrib.testing import FakeSource, memory_crib


def wiki() -> FakeSource:
    """A server with one prompt of three messages, one of them with an image."""
    source = FakeSource("wiki")
    source.others = (other_from_mcp(OfferKind.PROMPT, {"name": "plan", "arguments": [{"name": "what"}]}),)
    picture = {"type": "image", "mimeType": "image/png", "data": PIXEL}
    said = [("user", {"type": "text", "text": "Plan a trip."}), ("assistant", {"type": "text", "text": "Where to?"})]
    last = ("user", [{"type": "text", "text": "Here."}, picture])
    source.answers["plan"] = Result(
        {"messages": [{"role": role, "content": content} for role, content in [*said, last]]}
    )
    return source


async def messages(framework: str) -> list[Any]:
    async with memory_crib(wiki()) as made:
        adapter = importlib.import_module(f"toolcrib.adapters.{framework}")
        return list(await adapter.prompt(made.crib, "wiki__plan", {"what": "a trip"}))


def shown(message: Any) -> list[Any]:
    """What kind of message it is, and what of each text and image is in it, whatever the framework."""
    kind = message["role"] if isinstance(message, dict) else type(message).__name__
    role = kind if isinstance(message, dict) else getattr(message, "role", None) or kind
    text = str(message)
    return [role, [word for word in ("Plan a trip.", "Where to?", "Here.") if word in text], "image" in text]


if __name__ == "__main__":
    print(json.dumps([shown(message) for message in asyncio.run(messages(sys.argv[1]))]))
