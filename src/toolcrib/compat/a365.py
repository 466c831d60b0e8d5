"""The names of the tooling package of Microsoft Agent 365, done by toolcrib: change the import, keep the program.

What was published raises ``ValueError`` for empty arguments; here they are ``ValueError`` and errors of toolcrib both.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.config.manifest import ManifestEntry
from toolcrib.core.errors import CallerError, ToolcribError
from toolcrib.core.offers import Tool
from toolcrib.platform import client_tools, servers
from toolcrib.platform.client_tools import (
    build_mcp_server_url,
    get_chat_history_endpoint,
    get_mcp_base_url,
    get_mcp_client_tools,
    get_mcp_platform_authentication_scope,
    get_tooling_gateway_for_digital_worker,
)
from toolcrib.platform.headers import AUTHORIZATION, CHANNEL_ID, SUBCHANNEL_ID, USER_AGENT, TokenSource, turn_of
from toolcrib.platform.settings import PlatformSettings

ChatHistoryMessage = client_tools.ChatMessage

__all__ = [
    "ChatHistoryMessage",
    "Constants",
    "MCPServerConfig",
    "McpToolServerConfigurationService",
    "OperationResult",
    "ToolOptions",
    "build_mcp_server_url",
    "get_chat_history_endpoint",
    "get_mcp_base_url",
    "get_mcp_platform_authentication_scope",
    "get_tooling_gateway_for_digital_worker",
]


class Constants:
    """Names of headers."""

    class Headers:
        """Names of headers."""

        AUTHORIZATION = AUTHORIZATION
        BEARER_PREFIX = "Bearer"
        USER_AGENT = USER_AGENT
        CHANNEL_ID = CHANNEL_ID
        SUBCHANNEL_ID = SUBCHANNEL_ID


class EmptyArgument(CallerError, ValueError):
    """An argument that must not be empty is."""


@dataclass
class MCPServerConfig:
    """One tool server; what was not said is ``None``."""

    mcp_server_name: str
    mcp_server_unique_name: str = ""
    url: str | None = None
    headers: dict[str, str] | None = field(default=None, repr=False)
    audience: str | None = None
    scope: str | None = None
    publisher: str | None = None

    def __post_init__(self) -> None:
        if not self.mcp_server_name:
            raise EmptyArgument("mcp_server_name cannot be empty")


@dataclass
class ToolOptions:
    """What may be said beside who asks."""

    orchestrator_name: str | None = None


@dataclass(frozen=True)
class OperationResult:
    """Whether something worked, and what went wrong if not."""

    errors: Sequence[ToolcribError] = ()

    @property
    def succeeded(self) -> bool:
        """Whether it worked."""
        return not self.errors


class McpToolServerConfigurationService:
    """Lists the tool servers of an application, and sends the platform what was said."""

    def __init__(self, logger: Any = None, settings: PlatformSettings | None = None) -> None:
        """``logger`` is taken and not used: toolcrib tells what happens by events."""
        del logger
        self._settings = settings or PlatformSettings()
        self._platform = servers.Platform(self._settings)

    async def list_tool_servers(
        self,
        agentic_app_id: str,
        auth_token: str,
        options: ToolOptions | None = None,
        authorization: Any = None,
        auth_handler_name: str | None = None,
        turn_context: Any = None,
    ) -> list[MCPServerConfig]:
        """The servers; those with an audience of their own get a token that ``authorization`` exchanges for it."""
        for name, value in (("agentic_app_id", agentic_app_id), ("auth_token", auth_token)):
            if not value:
                raise EmptyArgument(f"{name} cannot be empty or None")
        exchange = _exchange(authorization, auth_handler_name, turn_context) if authorization is not None else None
        turn = turn_of(turn_context) if turn_context is not None else None
        wanted = servers.PlatformToolOptions((options and options.orchestrator_name) or "", turn, exchange)
        found = await self._platform.list_tool_servers(agentic_app_id, auth_token, wanted)
        return [_published(server) for server in found]

    async def get_mcp_client_tools(self, mcp_server_name: str, config: MCPServerConfig) -> list[Tool]:
        """The tools of one server."""
        ready = servers.McpServerConfig(mcp_server_name, config.url or "", config.headers or {})
        return await get_mcp_client_tools(mcp_server_name, ready)

    async def send_chat_history(
        self,
        turn_context: Any,
        chat_history_messages: Sequence[client_tools.ChatMessage],
        options: ToolOptions | None = None,
    ) -> OperationResult:
        """Send a conversation; a platform that does not take it is a result, not an exception."""
        if turn_context is None:
            raise EmptyArgument("turn_context cannot be None")
        sent = await client_tools.send_chat_history(
            turn_of(turn_context),
            chat_history_messages,
            orchestrator_name=(options and options.orchestrator_name) or "",
            settings=self._settings,
        )
        return OperationResult((sent.error,) if sent.error is not None else ())


def _published(server: servers.McpServerConfig) -> MCPServerConfig:
    return MCPServerConfig(
        server.mcp_server_name,
        server.mcp_server_unique_name or server.mcp_server_name,
        server.url,
        dict(server.headers),
        server.audience or None,
        server.scope or None,
        server.publisher or None,
    )


def _exchange(authorization: Any, handler: str | None, context: Any) -> TokenSource:
    """A token for each server that needs its own, exchanged for that server alone."""

    async def exchange(entry: ManifestEntry, scope: str) -> str | None:
        del entry
        if not scope:
            return None
        found = authorization.exchange_token(context, [scope], handler)
        found = await found if inspect.isawaitable(found) else found
        token = getattr(found, "token", found)
        return token if isinstance(token, str) else None

    return exchange
