"""pydantic-ai: a toolset, asked for its tools before each step of a run, so that changes of the catalogue show.

Failures are failed tool returns; images are part of the return; structured results are its metadata, under
``structured_content``.
"""

from base64 import b64decode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
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
from toolcrib.models.talk import Picture, TextPart, ToolAnswer, ToolRequest, Turn

try:
    from pydantic_ai import BinaryContent, RunContext, Tool, ToolReturn
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
    from pydantic_ai.messages import TextPart as SaidPart
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ImportError as error:
    raise MissingFramework("pydantic-ai", "pydantic-ai") from error

_DIALECT = framework("pydantic-ai")
_ANY = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
"""Arguments are checked by the Crib, against the tool's whole schema."""


async def tools(crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER) -> list[Tool[Any]]:
    """The Crib's tools as they are now, for an agent's ``tools``."""
    return [_tool(offered) for offered in await offer_tools(crib, _DIALECT, names, caller)]


async def prompt(
    crib: OfferBox, name: str, arguments: Mapping[str, str] | None = None, *, caller: Caller = LOCAL_USER
) -> list[ModelMessage]:
    """The messages of a prompt, for the ``message_history`` of a run."""
    return [_message(turn) for turn in await get_prompt(crib, name, arguments, caller=caller)]


def _message(turn: Turn) -> ModelMessage:
    if turn.role == "assistant":
        return ModelResponse(parts=[SaidPart(turn.text)])
    said = [_said(part) for part in said_parts(turn)]
    return ModelRequest(parts=[UserPromptPart(turn.text if all(isinstance(one, str) for one in said) else said)])


def _said(part: TextPart | Picture) -> str | BinaryContent:
    return part.text if isinstance(part, TextPart) else BinaryContent(b64decode(part.data), media_type=part.mime)


def toolset(crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER) -> "PydanticAiToolset":
    """The Crib for an agent's ``toolsets``."""
    return PydanticAiToolset(crib, names, caller)


@dataclass
class PydanticAiTool(ToolsetTool[Any]):
    """A tool of a toolset, with the way to run it."""

    offered: Offered | None = None


class PydanticAiToolset(AbstractToolset[Any]):
    """The tools of a Crib."""

    def __init__(self, crib: Toolbox, names: Collection[str] | None, caller: Caller) -> None:
        self._offering = FrameworkOffer(crib, _DIALECT, names, caller)

    @property
    def id(self) -> str:
        """What this toolset is called."""
        return "toolcrib"

    async def get_tools(self, _ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """What the catalogue has for the caller now."""
        return {offered.name: self._tool(offered) for offered in await self._offering.current()}

    def _tool(self, offered: Offered) -> PydanticAiTool:
        return PydanticAiTool(
            toolset=self, tool_def=_definition(offered), max_retries=1, args_validator=_ANY, offered=offered
        )

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run one of them."""
        del name, ctx
        return await _run(tool.offered, tool_args) if isinstance(tool, PydanticAiTool) and tool.offered else None


def _definition(offered: Offered) -> ToolDefinition:
    """Not strict: the framework would close objects that the tool leaves open."""
    return ToolDefinition(
        name=offered.name,
        description=offered.description,
        parameters_json_schema=offered.schema,
        strict=False,
    )


def _tool(offered: Offered) -> Tool[Any]:
    async def run(**arguments: Any) -> Any:
        return await _run(offered, arguments)

    made = Tool.from_schema(run, offered.name, offered.description, offered.schema)
    made.strict = False
    return made


async def _run(offered: Offered, arguments: dict[str, Any]) -> ToolReturn:
    result = await offered.run(arguments)
    answer = answer_of(ToolRequest("", offered.name), result)
    if answer.is_error:
        raise ToolFailed(answer.text)
    structured = result.structured
    metadata = None if structured is None else {"structured_content": structured}
    return ToolReturn(return_value=_content(answer), metadata=metadata)


def _content(answer: ToolAnswer) -> Any:
    if not answer.pictures:
        return answer.text
    return [_said(part) for part in answer.parts]
