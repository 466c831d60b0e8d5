from typing import Any

from anthropic import AsyncAnthropic
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from tests.adapters.conversations import NAMES, converse

from toolcrib import Crib
from toolcrib.adapters.pydantic_ai import tools, toolset


async def talk(crib: Crib, url: str) -> Any:
    client = AsyncAnthropic(base_url=url, api_key="sk-example", max_retries=0)
    model = AnthropicModel("small", provider=AnthropicProvider(anthropic_client=client))
    said = await Agent(model, toolsets=[toolset(crib, names=NAMES)]).run("Go")
    returns = [part for message in said.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    again = await Agent(model, tools=await tools(crib, names=["desk.awkward"])).run("Go")
    return {
        "text": said.output,
        "outcomes": {part.tool_name: part.outcome for part in returns},
        "structured": next(part.metadata for part in returns if part.tool_name == "desk_awkward"),
        "again": again.output,
    }


if __name__ == "__main__":
    converse(talk)
