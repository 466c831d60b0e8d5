"""What programs that moved to toolcrib call by old names: tools of one server, chat history, helpers."""

import asyncio
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from toolcrib.config.model import ServerConfig
from toolcrib.config.secrets import secret_values
from toolcrib.core.errors import CallTimeout, InvalidArguments, ToolcribError
from toolcrib.core.events import drop
from toolcrib.core.names import to_server_name
from toolcrib.core.offers import Tool
from toolcrib.core.tasks import TaskScope
from toolcrib.platform.gateway import Ask, Patience, gateway_urls, refused, send
from toolcrib.platform.headers import ConversationTurn, channel_headers
from toolcrib.platform.servers import McpServerConfig, server_url
from toolcrib.platform.settings import PlatformSettings
from toolcrib.sources.mcp.comeback import SupervisorSettings
from toolcrib.sources.mcp.http_link import HttpLink
from toolcrib.sources.mcp.link import Link, LinkEvents
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.redactor import Redactor
from toolcrib.sources.mcp.source import McpSource
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.version import VERSION

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class _Dialler:
    """Opens the link of a server whose headers are complete: nothing in them is a reference."""

    server: ServerConfig
    tasks: TaskScope

    async def __call__(self, events: LinkEvents) -> Link:
        return await HttpLink.open(self.server, events, self.tasks)


async def get_mcp_client_tools(name: str, config: McpServerConfig, *, timeout_s: float = TIMEOUT_S) -> list[Tool]:
    """The tools a server offers, cleaned; its headers are shown to it and in no error."""
    server = ServerConfig(to_server_name(name), url=config.url, headers=config.headers)
    tasks = TaskScope(lambda _name, _error: None)
    offer = ClientIdentity({"name": f"{name} Client", "version": VERSION}, {})
    settings = SupervisorSettings((0.0,), timeout_s, redactor=Redactor(secret_values(server, {})))
    source = McpSource(name, Supervisor(name, _Dialler(server, tasks), offer, settings, drop), offer, is_http=True)
    try:
        async with asyncio.timeout(timeout_s):
            return [*(await source.list_offers()).tools]
    except TimeoutError:
        raise CallTimeout(f"Server {name!r} did not list its tools within {timeout_s:g} s.") from None
    finally:
        await source.close()
        await tasks.close()


PATH = "/agents/real-time-threat-protection/chat-message"
FAILED = "Failed to send chat history"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation; any role a model knows may have said it."""

    role: str
    content: str
    id: str | None = None
    timestamp: datetime | str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """As the platform reads it."""
        moment = self.timestamp
        if isinstance(moment, datetime):
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
        return {"id": self.id, "role": self.role, "content": self.content, "timestamp": moment}


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of it: nothing here is raised, a conversation goes on without the platform."""

    error: ToolcribError | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the platform has it."""
        return self.error is None


async def send_chat_history(
    turn: ConversationTurn,
    history: Sequence[ChatMessage],
    *,
    orchestrator_name: str = "",
    settings: PlatformSettings | None = None,
    patience: Patience | None = None,
) -> Sent:
    """Send a conversation as it is before this turn's message; only a turn that does not say which one is an error."""
    needed = {"conversation_id": turn.conversation_id, "message_id": turn.message_id, "text": turn.text}
    if missing := [name for name, value in needed.items() if not value]:
        raise InvalidArguments(f"The turn lacks {', '.join(missing)}.", hint="Fill them in from the activity.")
    body = {
        "conversationId": turn.conversation_id,
        "messageId": turn.message_id,
        "userMessage": turn.text,
        "chatHistory": [message.to_dict() for message in history],
    }
    headers = {**channel_headers(turn, orchestrator_name), "Content-Type": "application/json"}
    try:
        url = chat_url((settings or PlatformSettings()).endpoint)
        ask = Ask(url, headers, "POST", msgspec.json.encode(body))
        response = await send(ask, patience or Patience(), FAILED)
    except ToolcribError as error:
        return Sent(error)
    return Sent() if 200 <= response.status < 300 else Sent(refused(response, FAILED))


def chat_url(endpoint: str) -> str:
    """Where conversations are sent."""
    return endpoint + PATH


def _warn(name: str, replacement: str) -> None:
    warnings.warn(f"{name}() is deprecated; use {replacement} instead.", DeprecationWarning, stacklevel=3)


def get_tooling_gateway_for_digital_worker(app_id: str, settings: PlatformSettings | None = None) -> str:
    """Where the gateway lists the servers of an application."""
    _warn("get_tooling_gateway_for_digital_worker", "list_tool_servers()")
    return gateway_urls((settings or PlatformSettings()).endpoint, app_id, "v1")[0]


def get_mcp_base_url(settings: PlatformSettings | None = None) -> str:
    """What the addresses of servers begin with."""
    _warn("get_mcp_base_url", "list_tool_servers()")
    return f"{(settings or PlatformSettings()).endpoint}/agents/servers"


def build_mcp_server_url(server_name: str, settings: PlatformSettings | None = None) -> str:
    """Where a server is that has no address of its own."""
    _warn("build_mcp_server_url", "list_tool_servers()")
    return server_url((settings or PlatformSettings()).endpoint, server_name)


def get_chat_history_endpoint(settings: PlatformSettings | None = None) -> str:
    """Where conversations are sent."""
    _warn("get_chat_history_endpoint", "send_chat_history()")
    return chat_url((settings or PlatformSettings()).endpoint)


def get_mcp_platform_authentication_scope(settings: PlatformSettings | None = None) -> list[str]:
    """What a token for the platform must be made for."""
    _warn("get_mcp_platform_authentication_scope", "PlatformSettings().authentication_scope")
    return [(settings or PlatformSettings()).authentication_scope]
