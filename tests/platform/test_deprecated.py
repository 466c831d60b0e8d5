"""Helpers of earlier days still work, warn, and name what to use instead."""

import pytest

from toolcrib import platform
from toolcrib.platform import PlatformSettings

SETTINGS = PlatformSettings("https://g.example/", "s/.default", env={})


@pytest.mark.parametrize(
    ("name", "arguments", "result", "replacement"),
    [
        (
            "get_tooling_gateway_for_digital_worker",
            ("app",),
            "https://g.example/agents/app/mcpServers",
            r"list_tool_servers\(\)",
        ),
        ("get_mcp_base_url", (), "https://g.example/agents/servers", r"list_tool_servers\(\)"),
        ("build_mcp_server_url", ("mail",), "https://g.example/agents/servers/mail", r"list_tool_servers\(\)"),
        (
            "get_chat_history_endpoint",
            (),
            "https://g.example/agents/real-time-threat-protection/chat-message",
            r"send_chat_history\(\)",
        ),
        ("get_mcp_platform_authentication_scope", (), ["s/.default"], "authentication_scope"),
    ],
)
def test_a_deprecated_helper_works_and_names_its_replacement(name, arguments, result, replacement):
    with pytest.warns(DeprecationWarning, match=f"{name}.* use .*{replacement}") as warned:
        found = getattr(platform, name)(*arguments, SETTINGS)

    assert found == result
    assert warned[0].filename == __file__


def test_every_public_name_can_be_had():
    assert all(getattr(platform, name) is not None for name in platform.__all__)
    with pytest.raises(AttributeError):
        _ = platform.nonsense
