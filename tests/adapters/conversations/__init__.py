"""One conversation inside each framework; they run with the frameworks' own Python, see ``test_conversations``."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib import Crib, open_crib, tool
from toolcrib.config.model import Config
from toolcrib.config.sections import KbConfig

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
AWKWARD = ("config", "run_manager", "self", "callbacks", "runtime", "ctx", "class")
NAMES = ("meet", "fail", "picture", "desk.awkward")


def company() -> list[Callable[..., Any]]:
    """Tools to talk about; ``meet`` only ends well for two that run at the same time."""
    barrier = asyncio.Barrier(2)

    @tool(security_level="read_only")
    async def meet(name: str) -> str:
        """Come to the meeting."""
        await asyncio.wait_for(barrier.wait(), 150)
        return f"{name} was there"

    @tool(security_level="read_only")
    def fail(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    @tool(security_level="read_only")
    def picture() -> list[dict[str, str]]:
        """Show a picture."""
        return [{"type": "text", "text": "a pixel"}, {"type": "image", "mimeType": "image/png", "data": PIXEL}]

    @tool(security_level="read_only")
    def hidden() -> str:
        """Not for this conversation."""
        return ""

    return [meet, fail, picture, hidden, awkward]


@tool(
    name="desk.awkward",
    security_level="read_only",
    input_schema={
        "type": "object",
        "properties": {name: {"type": "string"} for name in AWKWARD} | {"level": {"type": ["number", "null"]}},
        "required": [AWKWARD[0]],
        "additionalProperties": False,
    },
)
def awkward(arguments: dict[str, Any]) -> dict[str, Any]:
    """Say what came, under the names it came by."""
    return {"came": arguments}


def converse(talk: Callable[[Crib, str], Awaitable[Any]]) -> None:
    """Run one conversation with a fresh Crib and print what is left of it."""

    async def run() -> Any:
        async with open_crib(Config(kb=KbConfig(enabled=False)), tools=company()) as crib:
            return await talk(crib, sys.argv[1])

    print(json.dumps(asyncio.run(run())))
