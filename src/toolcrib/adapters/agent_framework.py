"""Microsoft Agent Framework: a ``FunctionTool`` for each tool.

It hides from the model why a tool raised, so failures are told in words. Images are content; OpenAI's Responses client
carries them, its chat client does not.
"""

from collections.abc import Collection
from typing import Any

from toolcrib.adapters.offered import MissingFramework, Offered, failure, framework, offer_tools, without
from toolcrib.agents.loop import Toolbox
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.models.talk import TextPart, ToolAnswer
from toolcrib.schema.dialects.names import PARAMETER_NAMES

try:
    from agent_framework import Content, FunctionTool
except ImportError as error:
    raise MissingFramework("Microsoft Agent Framework", "agent-framework") from error

_DIALECT = framework("agent-framework", parameters=without(PARAMETER_NAMES, "self"))


async def tools(
    crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER
) -> list[FunctionTool]:
    """The Crib's tools as the framework's; approvals are left to the Crib."""
    return [_tool(offered) for offered in await offer_tools(crib, _DIALECT, names, caller)]


def _tool(offered: Offered) -> FunctionTool:
    async def run(**arguments: Any) -> list[Content]:
        return _contents(await offered.answer(arguments))

    return FunctionTool(
        name=offered.name,
        description=offered.description,
        func=run,
        input_model=offered.schema,
        approval_mode="never_require",
    )


def _contents(answer: ToolAnswer) -> list[Content]:
    if answer.is_error:
        return [Content.from_text(failure(answer))]
    return [
        Content.from_text(part.text)
        if isinstance(part, TextPart)
        else Content.from_uri(f"data:{part.mime};base64,{part.data}", media_type=part.mime)
        for part in answer.parts
    ]
