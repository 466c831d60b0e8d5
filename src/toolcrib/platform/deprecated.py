"""Helpers of earlier days: they work, warn, and name what to use instead."""

import warnings

from toolcrib.platform.chat import chat_url
from toolcrib.platform.gateway import gateway_urls
from toolcrib.platform.servers import server_url
from toolcrib.platform.settings import PlatformSettings


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
