from typing import Any

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from tests.adapters.conversations import NAMES, converse

from toolcrib import Crib
from toolcrib.adapters.langchain import tools


async def talk(crib: Crib, url: str) -> Any:
    model = ChatAnthropic(model="small", base_url=url, api_key="sk-example", max_retries=0)
    agent = create_agent(model, await tools(crib, names=NAMES))
    said = await agent.ainvoke({"messages": [{"role": "user", "content": "Go"}]})
    answers = [message for message in said["messages"] if message.type == "tool"]
    return {
        "text": said["messages"][-1].text,
        "status": {answer.name: answer.status for answer in answers},
        "structured": next(answer.artifact for answer in answers if answer.name == "desk_awkward"),
    }


if __name__ == "__main__":
    converse(talk)
