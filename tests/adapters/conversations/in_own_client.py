"""Agents of toolcrib over the client objects of the providers' own SDKs."""

from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from tests.adapters.conversations import NAMES, converse

from toolcrib import Crib
from toolcrib.agents import agent
from toolcrib.core.errors import ToolcribError

KEY = {"api_key": "sk-example", "max_retries": 0}


async def talk(crib: Crib, url: str) -> Any:
    openai = AsyncOpenAI(base_url=f"{url}/v1", **KEY)
    clients = {"anthropic": AsyncAnthropic(base_url=url, **KEY), "openai": openai, "openai-responses": openai}
    said = {}
    for provider, client in clients.items():
        for stream in (True, False):
            talking = agent(crib, f"{provider}:small", client=client, stream=stream, tools=frozenset(NAMES))
            done = await talking.ask("Go")
            said[f"{provider} {'streamed' if stream else 'whole'}"] = [done.text, done.reason, done.usage.total]
        said[f"{provider} refused"] = await refusal(agent(crib, f"{provider}:small", client=client))
    return said


async def refusal(talking: Any) -> str:
    try:
        return str(await talking.ask("Go"))
    except ToolcribError as error:
        return f"{error.code} {error}"


if __name__ == "__main__":
    converse(talk)
