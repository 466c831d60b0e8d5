from typing import Any

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient
from tests.adapters.conversations import NAMES, converse

from toolcrib import Crib
from toolcrib.adapters.agent_framework import tools


async def talk(crib: Crib, url: str) -> Any:
    client = OpenAIChatClient(model="small", base_url=f"{url}/v1", api_key="sk-example")
    return {"text": (await Agent(client, tools=await tools(crib, names=NAMES)).run("Go")).text}


if __name__ == "__main__":
    converse(talk)
