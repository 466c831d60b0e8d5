from typing import Any

from openai import AsyncOpenAI
from tests.adapters.conversations import NAMES, converse

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from toolcrib import Crib
from toolcrib.adapters.openai_agents import tools


async def talk(crib: Crib, url: str) -> Any:
    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-example", max_retries=0)
    agent = Agent(name="a", model=OpenAIResponsesModel("small", client), tools=await tools(crib, names=NAMES))
    return {"text": (await Runner.run(agent, "Go")).final_output}


if __name__ == "__main__":
    converse(talk)
