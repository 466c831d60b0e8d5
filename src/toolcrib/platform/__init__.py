"""The tooling platform: tool servers from a manifest or a gateway, with the headers and tokens they need.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.platform.client_tools import (
        ChatMessage,
        Sent,
        build_mcp_server_url,
        get_chat_history_endpoint,
        get_mcp_base_url,
        get_mcp_client_tools,
        get_mcp_platform_authentication_scope,
        get_tooling_gateway_for_digital_worker,
        send_chat_history,
    )
    from toolcrib.platform.gateway import Patience, PlatformFailure
    from toolcrib.platform.headers import ConversationTurn, InvalidToken, check_token, compose_headers, turn_of
    from toolcrib.platform.servers import McpServerConfig, Platform, PlatformToolOptions, list_tool_servers
    from toolcrib.platform.settings import PlatformSettings

_HOMES = {
    "client_tools": (
        "ChatMessage",
        "Sent",
        "build_mcp_server_url",
        "get_chat_history_endpoint",
        "get_mcp_base_url",
        "get_mcp_client_tools",
        "get_mcp_platform_authentication_scope",
        "get_tooling_gateway_for_digital_worker",
        "send_chat_history",
    ),
    "gateway": (
        "Patience",
        "PlatformFailure",
    ),
    "headers": (
        "InvalidToken",
        "ConversationTurn",
        "check_token",
        "compose_headers",
        "turn_of",
    ),
    "servers": (
        "McpServerConfig",
        "Platform",
        "PlatformToolOptions",
        "list_tool_servers",
    ),
    "settings": ("PlatformSettings",),
}

__all__ = [
    "ChatMessage",
    "ConversationTurn",
    "InvalidToken",
    "McpServerConfig",
    "Patience",
    "Platform",
    "PlatformFailure",
    "PlatformSettings",
    "PlatformToolOptions",
    "Sent",
    "build_mcp_server_url",
    "check_token",
    "compose_headers",
    "get_chat_history_endpoint",
    "get_mcp_base_url",
    "get_mcp_client_tools",
    "get_mcp_platform_authentication_scope",
    "get_tooling_gateway_for_digital_worker",
    "list_tool_servers",
    "send_chat_history",
    "turn_of",
]


def __getattr__(name: str) -> Any:
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"toolcrib.platform.{home}"), name)
    raise AttributeError(f"module 'toolcrib.platform' has no attribute {name!r}")
