"""Google's Agent Development Kit: a toolset, asked for its tools before each run, so that changes show.

Failures are responses with ``error``, anything else is ``output``: structured where the tool is. Images go along as
parts of the response.
"""

from base64 import b64decode
from collections.abc import Collection, Mapping
from typing import Any

from toolcrib.adapters.offered import (
    FrameworkOffer,
    MissingFramework,
    OfferBox,
    Offered,
    framework,
    get_prompt,
    offer_tools,
    said_parts,
)
from toolcrib.agents.loop import Toolbox, answer_of
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.models.talk import Picture, TextPart, ToolRequest, Turn
from toolcrib.schema.dialects.gemini import SUBSET

try:
    from google.adk.tools import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.genai import types
except ImportError as error:
    raise MissingFramework("Google ADK", "google-adk") from error

_DIALECT = framework("google-adk", subset=SUBSET)


async def tools(crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER) -> list[BaseTool]:
    """The Crib's tools as they are now."""
    return [AdkTool(offered) for offered in await offer_tools(crib, _DIALECT, names, caller)]


async def prompt(
    crib: OfferBox, name: str, arguments: Mapping[str, str] | None = None, *, caller: Caller = LOCAL_USER
) -> list[types.Content]:
    """The messages of a prompt; the last is for a runner's ``new_message``."""
    return [_message(turn) for turn in await get_prompt(crib, name, arguments, caller=caller)]


def _message(turn: Turn) -> types.Content:
    return types.Content(role="model" if turn.role == "assistant" else "user", parts=list(map(_said, said_parts(turn))))


def _said(part: TextPart | Picture) -> types.Part:
    if isinstance(part, TextPart):
        return types.Part(text=part.text)
    return types.Part.from_bytes(data=b64decode(part.data), mime_type=part.mime)


def toolset(crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER) -> "AdkToolset":
    """The Crib as an entry of an agent's ``tools``."""
    return AdkToolset(crib, names, caller)


class AdkToolset(BaseToolset):
    """The tools of a Crib."""

    def __init__(self, crib: Toolbox, names: Collection[str] | None, caller: Caller) -> None:
        super().__init__()
        self._offering = FrameworkOffer(crib, _DIALECT, names, caller)

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """What the catalogue has for the caller now."""
        del readonly_context
        return [AdkTool(offered) for offered in await self._offering.current()]

    async def close(self) -> None:
        """Leave the Crib open: it belongs to whoever opened it."""


class AdkTool(BaseTool):
    """One tool of a Crib."""

    def __init__(self, offered: Offered) -> None:
        super().__init__(name=offered.name, description=offered.description)
        self._offered = offered

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = self._offered.schema
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=schema if schema["properties"] else None,  # an empty one is refused
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, Any]:
        """Run it; failure is a response."""
        del tool_context
        result = await self._offered.run(args)
        answer = answer_of(ToolRequest("", self.name), result)
        if answer.is_error:
            return {"error": answer.text}
        said: dict[str, Any] = {"output": answer.text if result.structured is None else result.structured}
        if answer.pictures:
            said["images"] = [
                types.Part.from_bytes(data=b64decode(picture.data), mime_type=picture.mime)
                for picture in answer.pictures
            ]
        return said
