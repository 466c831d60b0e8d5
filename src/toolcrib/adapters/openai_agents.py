"""OpenAI Agents SDK: a ``FunctionTool`` for each tool.

It cannot mark a result as an error and ends the run when a tool raises, so failures are told in words. Images reach
models of the Responses API; the chat API takes only text.
"""

from collections.abc import Collection
from typing import Any

import msgspec

from toolcrib.adapters.offered import MissingFramework, Offered, failure, framework, offer_tools
from toolcrib.agents.loop import Toolbox
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.models.talk import Picture, TextPart, ToolAnswer

try:
    from agents import FunctionTool, Tool, ToolOutputImage, ToolOutputText
except ImportError as error:
    raise MissingFramework("The OpenAI Agents SDK", "openai-agents") from error

_DIALECT = framework("openai-agents")


async def tools(crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER) -> list[Tool]:
    """The Crib's tools as the SDK's."""
    return [_tool(offered) for offered in await offer_tools(crib, _DIALECT, names, caller)]


def _tool(offered: Offered) -> Tool:
    async def invoke(_context: Any, written: str) -> Any:
        try:
            arguments = msgspec.json.decode(written or "{}", type=dict[str, Any])
        except msgspec.DecodeError as unreadable:
            return f"Error: the arguments are not a JSON object: {unreadable}."
        return _output(await offered.answer(arguments))

    return FunctionTool(
        name=offered.name,
        description=offered.description,
        params_json_schema=offered.schema,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


def _output(answer: ToolAnswer) -> Any:
    if answer.is_error:
        return failure(answer)
    return [_part(part) for part in answer.parts] if answer.pictures else answer.text


def _part(part: TextPart | Picture) -> Any:
    if isinstance(part, TextPart):
        return ToolOutputText(text=part.text)
    return ToolOutputImage(image_url=f"data:{part.mime};base64,{part.data}")
