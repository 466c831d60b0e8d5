"""Claude Agent SDK: an MCP server inside the program, asked for its tools whenever Claude Code asks it.

Results pass as they are, in MCP's own shape: errors, images, structured content.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import msgspec

from toolcrib import version
from toolcrib.adapters.offered import FrameworkOffer, MissingFramework, Offered, framework, offer_tools
from toolcrib.agents.loop import Toolbox
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import UnknownTool
from toolcrib.core.offers import to_mcp
from toolcrib.core.requests import Result
from toolcrib.schema.dialects.offer import LONGEST_NAMES, SHORTEST_NAMES, Dialect, Options

try:
    from claude_agent_sdk import McpSdkServerConfig, SdkMcpTool
    from mcp import types
    from mcp.server import Server
except ImportError as error:
    raise MissingFramework("The Claude Agent SDK", "claude-agent-sdk") from error

_DIALECT = framework("claude-agent-sdk")


async def tools(
    crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER
) -> list[SdkMcpTool[Any]]:
    """The Crib's tools as they are now, for a server of your own (``create_sdk_mcp_server``)."""
    return [_tool(offered) for offered in await offer_tools(crib, _named("toolcrib"), names, caller)]


def server(
    crib: Toolbox, *, name: str = "toolcrib", names: Collection[str] | None = None, caller: Caller = LOCAL_USER
) -> McpSdkServerConfig:
    """The Crib as one of an agent's ``mcp_servers``; Claude knows its tools as ``mcp__NAME__TOOL``."""
    inside = _Inside(FrameworkOffer(crib, _named(name), names, caller))
    return McpSdkServerConfig(type="sdk", name=name, instance=_mcp_server(name, inside))


def _named(server_name: str) -> Dialect:
    """Tool names that stay short enough with the words Claude Code puts before them."""
    limit = max(SHORTEST_NAMES, LONGEST_NAMES - len(f"mcp__{server_name}__"))
    return _DIALECT.with_options(Options(name_limit=limit))


def _tool(offered: Offered) -> SdkMcpTool[Any]:
    async def run(arguments: dict[str, Any]) -> dict[str, Any]:
        shown = _shown(await offered.run(arguments))
        return {"content": shown["content"], "is_error": shown["isError"]}

    return SdkMcpTool(offered.name, offered.description, offered.schema, run)


class _Inside:
    """What the server answers."""

    def __init__(self, offering: FrameworkOffer) -> None:
        self._offering = offering

    async def show(self) -> list[types.Tool]:
        return [types.Tool.model_validate(_definition(offered)) for offered in await self._offering.current()]

    async def call(self, name: str, arguments: dict[str, Any] | None) -> types.CallToolResult:
        known = {offered.name: offered for offered in await self._offering.current()}
        found = known.get(name)
        result = await found.run(arguments or {}) if found else Result.failed(UnknownTool(name, known=list(known)))
        return types.CallToolResult.model_validate(_shown(result))


def _definition(offered: Offered) -> dict[str, Any]:
    tool = replace(offered.tool, description=offered.description, input_schema=offered.schema, output_schema=None)
    return to_mcp(tool, offered.name)


def _shown(result: Result) -> dict[str, Any]:
    structured = result.structured
    content = list(result.content)
    if structured is not None and not content:
        content = [{"type": "text", "text": msgspec.json.encode(structured).decode()}]
    shown = {"content": content, "isError": not result.success or result.mcp.get("isError") is True}
    return shown if structured is None else {**shown, "structuredContent": structured}


def _mcp_server(name: str, inside: _Inside) -> Server:
    """The server, with either of the MCP SDK's two ways to say what it does."""
    if hasattr(Server, "list_tools"):
        old = Server(name, version=version.VERSION)
        old.list_tools()(inside.show)
        old.call_tool(validate_input=False)(inside.call)
        return old

    async def on_list(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await inside.show())

    async def on_call(_context: Any, params: Any) -> types.CallToolResult:
        return await inside.call(params.name, params.arguments)

    return Server(name, version=version.VERSION, on_list_tools=on_list, on_call_tool=on_call)
