"""OpenAI Agents SDK: a ``FunctionTool`` for each tool.

It cannot mark a result as an error and ends the run when a tool raises, so failures are told in words. Images reach
models of the Responses API; the chat API takes only text.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from toolcrib.adapters.offered import (
    MissingFramework,
    OfferBox,
    Offered,
    failure,
    framework,
    get_prompt,
    offer_tools,
    said_parts,
)
from toolcrib.agents.loop import Toolbox
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.models.talk import Picture, TextPart, ToolAnswer, Turn

try:
    from agents import FunctionTool, Tool, ToolOutputImage, ToolOutputText
except ImportError as error:
    raise MissingFramework("The OpenAI Agents SDK", "openai-agents") from error

_DIALECT = framework("openai-agents")


async def tools(crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER) -> list[Tool]:
    """The Crib's tools as the SDK's."""
    return [_tool(offered) for offered in await offer_tools(crib, _DIALECT, names, caller)]


async def prompt(
    crib: OfferBox, name: str, arguments: Mapping[str, str] | None = None, *, caller: Caller = LOCAL_USER
) -> list[Any]:
    """The messages of a prompt, as the input of a run."""
    return [_message(turn) for turn in await get_prompt(crib, name, arguments, caller=caller)]


def _message(turn: Turn) -> dict[str, Any]:
    if turn.role == "assistant" or all(isinstance(part, TextPart) for part in turn.parts):
        return {"role": turn.role, "content": turn.text}
    return {"role": turn.role, "content": [_said(part) for part in said_parts(turn)]}


def _said(part: TextPart | Picture) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{part.mime};base64,{part.data}"}


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
