import asyncio
import json
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def talk(url: str) -> str:
    tools = await McpToolSpec(BasicMCPClient(url)).to_tool_list_async()
    for tool in tools:
        tool.metadata.name = tool.metadata.name.replace(".", "_")
    return str(await FunctionAgent(tools=tools, llm=OpenAI(model="gpt-5-mini", max_retries=0)).run("Go"))


if __name__ == "__main__":
    print(json.dumps({"text": asyncio.run(talk(sys.argv[1]))}))
