"""The tools of one server: connect over Streamable HTTP, list, close."""

import asyncio
from dataclasses import dataclass

from toolcrib.config.model import ServerConfig
from toolcrib.config.secrets import secret_values
from toolcrib.core.errors import CallTimeout
from toolcrib.core.events import drop
from toolcrib.core.names import to_server_name
from toolcrib.core.tasks import TaskScope
from toolcrib.core.tool import Tool
from toolcrib.platform.servers import McpServerConfig
from toolcrib.sources.comeback import SupervisorSettings
from toolcrib.sources.http_link import HttpLink
from toolcrib.sources.link import Link, LinkEvents
from toolcrib.sources.mcp import McpSource
from toolcrib.sources.negotiate import Offer
from toolcrib.sources.redactor import Redactor
from toolcrib.sources.supervise import Supervisor
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
    offer = Offer({"name": f"{name} Client", "version": VERSION}, {})
    settings = SupervisorSettings((0.0,), timeout_s, redactor=Redactor(secret_values(server, {})))
    source = McpSource(name, Supervisor(name, _Dialler(server, tasks), offer, settings, drop), offer, is_http=True)
    try:
        async with asyncio.timeout(timeout_s):
            return [*(await source.list_tools()).tools]
    except TimeoutError:
        raise CallTimeout(f"Server {name!r} did not list its tools within {timeout_s:g} s.") from None
    finally:
        await source.close()
        await tasks.close()
