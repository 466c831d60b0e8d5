"""The names of the tooling package of Microsoft Agent 365, done by toolcrib: change the import, keep the program.

Or keep the import, too: ``install()`` puts this module in the place of the published ones.

What was published raises ``ValueError`` for empty arguments; here they are ``ValueError`` and errors of toolcrib both.
"""

import inspect
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from toolcrib.config.manifest import ManifestEntry
from toolcrib.core.errors import CallerError
from toolcrib.core.events import Event
from toolcrib.core.offers import Tool
from toolcrib.platform import client_tools, headers, servers
from toolcrib.platform.client_tools import (
    build_mcp_server_url,
    get_chat_history_endpoint,
    get_mcp_base_url,
    get_mcp_client_tools,
    get_mcp_platform_authentication_scope,
    get_tooling_gateway_for_digital_worker,
)
from toolcrib.platform.gateway import Whereabouts
from toolcrib.platform.headers import TokenSource, check_token, compose_headers, turn_of
from toolcrib.platform.settings import Override, PlatformSettings

__all__ = [
    "ChatHistoryMessage",
    "ChatMessageRequest",
    "Constants",
    "MCPServerConfig",
    "McpToolServerConfigurationService",
    "OperationError",
    "OperationResult",
    "ToolOptions",
    "ToolingConfiguration",
    "Utility",
    "build_mcp_server_url",
    "default_tooling_configuration_provider",
    "get_chat_history_endpoint",
    "get_mcp_base_url",
    "get_mcp_platform_authentication_scope",
    "get_tooling_gateway_for_digital_worker",
    "install",
    "is_development_environment",
    "resolve_token_scope_for_server",
]

PUBLISHED = "microsoft_agents_a365"
_MODULES = (
    *("tooling", "tooling.models", "tooling.services", "tooling.utils", "tooling.utils.utility"),
    *("tooling.utils.constants", "runtime", "runtime.operation_result", "runtime.operation_error"),
)


def install() -> None:
    """Let ``import microsoft_agents_a365.tooling``, and what else is published there, find this module instead."""
    here = sys.modules[__name__]
    top = sys.modules.setdefault(PUBLISHED, ModuleType(PUBLISHED))
    for name in _MODULES:
        sys.modules[f"{PUBLISHED}.{name}"] = here
    for name in ("tooling", "runtime"):
        setattr(top, name, here)


class Constants:
    """Names of headers."""

    class Headers:
        """Names of headers."""

        AUTHORIZATION = headers.AUTHORIZATION
        BEARER_PREFIX = "Bearer"
        USER_AGENT = headers.USER_AGENT
        CHANNEL_ID = headers.CHANNEL_ID
        SUBCHANNEL_ID = headers.SUBCHANNEL_ID
        AGENT_ID = headers.AGENT_ID
        CORRELATION_ID = headers.CORRELATION_ID


class EmptyArgument(CallerError, ValueError):
    """An argument that must not be empty is."""


def is_development_environment() -> bool:
    """Whether servers come from the manifest; where no variable says anything, they come from the gateway."""
    return PlatformSettings().mode.is_development


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


def resolve_token_scope_for_server(server: MCPServerConfig) -> str:
    """What a token for this server must be made for: its own audience, else the platform's."""
    audience = (server.audience or "").strip().lower()
    if audience.removeprefix("api://") in ("", "default", headers.PLATFORM_APP):
        return PlatformSettings().authentication_scope
    return f"{audience}/{server.scope or '.default'}"


@dataclass
class ToolOptions:
    """What may be said beside who asks."""

    orchestrator_name: str | None = None


@dataclass(frozen=True, slots=True)
class ChatHistoryMessage(client_tools.ChatMessage):
    """One message of a conversation; it must say something."""

    def __post_init__(self) -> None:
        if not self.content or not self.content.strip():
            raise EmptyArgument("content cannot be empty or whitespace")


@dataclass(frozen=True)
class ChatMessageRequest:
    """A conversation as it is sent to the platform."""

    conversation_id: str
    message_id: str
    user_message: str
    chat_history: Sequence[client_tools.ChatMessage]

    def __post_init__(self) -> None:
        if any(not text or not text.strip() for text in (self.conversation_id, self.message_id, self.user_message)):
            raise EmptyArgument("Field cannot be empty or whitespace")

    def model_dump(self, *, by_alias: bool = False, mode: str = "python") -> dict[str, Any]:
        """As plain data, with the platform's names if ``by_alias``."""
        del mode
        names = ("conversationId", "messageId", "userMessage", "chatHistory") if by_alias else tuple(vars(self))
        history = [message.to_dict() for message in self.chat_history]
        return dict(zip(names, (self.conversation_id, self.message_id, self.user_message, history), strict=True))


@dataclass(frozen=True)
class OperationError:
    """What went wrong."""

    exception: Exception

    @property
    def message(self) -> str:
        """The same in words."""
        return str(self.exception)

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class OperationResult:
    """Whether something worked, and what went wrong if not."""

    succeeded: bool
    errors: Sequence[OperationError] = ()

    @staticmethod
    def success() -> "OperationResult":
        """It worked."""
        return OperationResult(True)

    @staticmethod
    def failed(*errors: OperationError) -> "OperationResult":
        """It did not."""
        return OperationResult(False, list(errors))

    def __str__(self) -> str:
        told = ", ".join(map(str, self.errors))
        return "Succeeded" if self.succeeded else f"Failed: {told}" if told else "Failed"


class ToolingConfiguration:
    """The settings of the platform that are in effect: what is given, by value or callable, else the environment."""

    def __init__(
        self,
        *,
        mcp_platform_endpoint: Override[str] = None,
        mcp_platform_authentication_scope: Override[str] = None,
        cluster_category: Override[str] = None,
        use_tooling_manifest: Override[bool] = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        given = (mcp_platform_endpoint, mcp_platform_authentication_scope, cluster_category, use_tooling_manifest)
        self._given, self._env = given, env

    @property
    def settings(self) -> PlatformSettings:
        """The same for ``toolcrib.platform``; the environment is read each time."""
        return PlatformSettings(*self._given, env=dict(os.environ) if self._env is None else self._env)

    @property
    def mcp_platform_endpoint(self) -> str:
        """Where the platform is."""
        return self.settings.endpoint

    @property
    def mcp_platform_authentication_scope(self) -> str:
        """What a token for the platform must be made for."""
        return self.settings.authentication_scope

    @property
    def use_tooling_manifest(self) -> bool:
        """Whether servers come from ``ToolingManifest.json``."""
        return self.settings.mode.is_development

    @property
    def cluster_category(self) -> str:
        """The cluster this process belongs to."""
        return self.settings.cluster

    @property
    def is_development_environment(self) -> bool:
        """Whether that is a developer's."""
        return self.settings.is_development_cluster

    @property
    def is_node_env_development(self) -> bool:
        """Whether ``NODE_ENV`` says development."""
        return self.settings.env.get("NODE_ENV", "").strip().lower() == "development"


class _Provider:
    def __init__(self) -> None:
        self._configuration = ToolingConfiguration()

    def get_configuration(self) -> ToolingConfiguration:
        """The settings of this process."""
        return self._configuration


default_tooling_configuration_provider = _Provider()


class Utility:
    """Headers and tokens of requests to the platform, under the names of the design."""

    HEADER_CHANNEL_ID = headers.CHANNEL_ID
    HEADER_SUBCHANNEL_ID = headers.SUBCHANNEL_ID
    HEADER_USER_AGENT = headers.USER_AGENT

    @staticmethod
    def get_tool_request_headers(
        auth_token: str | None = None, turn_context: Any = None, options: ToolOptions | None = None
    ) -> dict[str, str]:
        """The headers of a request to a tool server."""
        return compose_headers(auth_token or "", turn_of(turn_context), (options and options.orchestrator_name) or "")

    @staticmethod
    def validate_auth_token(auth_token: str | None) -> None:
        """Raise if a token is missing, unreadable or expired."""
        check_token(auth_token)

    get_tooling_gateway_for_digital_worker = staticmethod(get_tooling_gateway_for_digital_worker)
    get_mcp_base_url = staticmethod(get_mcp_base_url)
    build_mcp_server_url = staticmethod(build_mcp_server_url)
    get_chat_history_endpoint = staticmethod(get_chat_history_endpoint)


class McpToolServerConfigurationService:
    """Lists the tool servers of an application, and sends the platform what was said."""

    def __init__(self, logger: logging.Logger | None = None, settings: PlatformSettings | None = None) -> None:
        """``logger`` hears what happens; without one, that of the class's name does, as published."""
        self._logger = logger or logging.getLogger(type(self).__name__)
        self._settings = settings or PlatformSettings(env=os.environ)  # read each time, as published
        around = Whereabouts(env=os.environ)
        self._platform = servers.Platform(self._settings, around=around, emit=self._log)

    def _log(self, event: Event) -> None:
        told = " ".join(f"{key}={value}" for key, value in event.fields.items())
        self._logger.log(logging.getLevelName(event.level.upper()), "%s %s", event.name, told)

    async def list_tool_servers(
        self,
        agentic_app_id: str,
        auth_token: str | None = None,
        options: ToolOptions | None = None,
        authorization: Any = None,
        auth_handler_name: str | None = None,
        turn_context: Any = None,
    ) -> list[MCPServerConfig]:
        """The servers; those with an audience of their own get a token that ``authorization`` exchanges for it.

        In development, neither an application nor a token is needed.
        """
        if not self._settings.mode.is_development:
            _need(agentic_app_id=agentic_app_id, auth_token=auth_token)
        self._logger.info("Listing MCP tool servers for agent %s", agentic_app_id)
        exchange = _exchange(authorization, auth_handler_name, turn_context) if authorization is not None else None
        turn = turn_of(turn_context) if turn_context is not None else None
        wanted = servers.PlatformToolOptions((options and options.orchestrator_name) or "", turn, exchange)
        found = await self._platform.list_tool_servers(agentic_app_id, auth_token or "", wanted)
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
        for name, value in (("turn_context", turn_context), ("chat_history_messages", chat_history_messages)):
            if value is None:
                raise EmptyArgument(f"{name} cannot be None")
        turn = turn_of(turn_context)
        for name, text, place in (
            ("conversation_id", turn.conversation_id, "conversation.id"),
            ("message_id", turn.message_id, "id"),
            ("user_message", turn.text, "text"),
        ):
            if not text.strip():
                raise EmptyArgument(f"{name} cannot be empty or None (from turn_context.activity.{place})")
        sent = await client_tools.send_chat_history(
            turn,
            chat_history_messages,
            orchestrator_name=(options and options.orchestrator_name) or "",
            settings=self._settings,
        )
        if sent.error is None:
            self._logger.info("Successfully sent chat history to MCP platform")
            return OperationResult.success()
        self._logger.error("Failed to send chat history: %s", sent.error)
        return OperationResult.failed(OperationError(sent.error))


def _need(**given: str | None) -> None:
    for name, value in given.items():
        if not value:
            raise EmptyArgument(f"{name} cannot be empty or None")


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
