"""LangChain and LangGraph: a ``StructuredTool`` for each tool.

Failures become tool messages of status ``error``; images are content blocks; structured results are the message's
``artifact``, under ``structured_content``.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from toolcrib.adapters.offered import (
    MissingFramework,
    OfferBox,
    Offered,
    framework,
    get_prompt,
    offer_tools,
    said_parts,
    without,
)
from toolcrib.agents.loop import Toolbox, answer_of
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.models.talk import Picture, TextPart, ToolAnswer, ToolRequest, Turn
from toolcrib.schema.dialects.names import PARAMETER_NAMES

try:
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
except ImportError as error:
    raise MissingFramework("LangChain", "langchain") from error

# LangChain drops arguments of the first two names, and breaks on the third.
_DIALECT = framework("langchain", parameters=without(PARAMETER_NAMES, "config", "run_manager", "self"))


async def tools(crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER) -> list[BaseTool]:
    """The Crib's tools as LangChain's; they are asynchronous, so use ``ainvoke`` or ``astream``."""
    return [_tool(offered) for offered in await offer_tools(crib, _DIALECT, names, caller)]


async def prompt(
    crib: OfferBox, name: str, arguments: Mapping[str, str] | None = None, *, caller: Caller = LOCAL_USER
) -> list[BaseMessage]:
    """The messages of a prompt, for an agent's ``messages``."""
    return [_message(turn) for turn in await get_prompt(crib, name, arguments, caller=caller)]


def _message(turn: Turn) -> BaseMessage:
    content: Any = _blocks(said_parts(turn))
    return AIMessage(turn.text) if turn.role == "assistant" else HumanMessage(content)


def _tool(offered: Offered) -> BaseTool:
    async def run(**arguments: Any) -> tuple[Any, Any]:
        result = await offered.run(arguments)
        answer = answer_of(ToolRequest("", offered.name), result)
        if answer.is_error:
            raise ToolException(answer.text)
        structured = result.structured
        return _content(answer), None if structured is None else {"structured_content": structured}

    return StructuredTool(
        name=offered.name,
        description=offered.description,
        args_schema=offered.schema,
        coroutine=run,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _content(answer: ToolAnswer) -> str | list[dict[str, str]]:
    return _blocks(answer.parts) if answer.pictures else answer.text


def _blocks(parts: Sequence[TextPart | Picture]) -> list[dict[str, str]]:
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "base64": part.data, "mime_type": part.mime}
        for part in parts
    ]
