import json
import os
import tempfile
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query
from mcp import Client
from tests.adapters.conversations import NAMES, converse
from tests.doubles.claude_code import install_claude_code

from toolcrib import Crib
from toolcrib.adapters.claude_agent_sdk import server, tools

os.environ["CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK"] = "1"


async def talk(crib: Crib, url: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        options = ClaudeAgentOptions(
            mcp_servers={"crib": server(crib, name="crib", names=NAMES)},
            allowed_tools=["mcp__crib"],
            cli_path=install_claude_code(Path(folder)),
            setting_sources=[],
        )
        async for message in query(prompt="Go", options=options):
            if isinstance(message, ResultMessage):
                told = json.loads(message.result)
    return {**told, "own": await own_server(crib)}


async def own_server(crib: Crib) -> Any:
    """The tools in a server of the user's own, asked by the MCP SDK's client."""
    made = create_sdk_mcp_server("own", tools=await tools(crib, names=["fail"]))
    async with Client(made["instance"]) as client:
        result = await client.call_tool("fail", {"why": "no luck"})
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    converse(talk)
