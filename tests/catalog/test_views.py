"""Views: what the configuration says of single tools."""

from toolcrib.catalog.views import configured_view
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.core.tool import Tool


def test_a_tool_without_wishes_gets_the_servers_time_limit():
    """And is otherwise the same."""
    view = configured_view(ServerConfig("files", command="x", call_timeout_s=7))

    assert view(Tool("read", description="d")) == Tool("read", description="d", timeout_s=7)


def test_disabled_tools_are_hidden_however_that_is_written():
    """``enabled = false`` and the policy ``disable`` mean the same; other policies show the tool."""
    tools = {
        "a": ToolConfig(enabled=False),
        "b": ToolConfig(policy="disable"),
        "c": ToolConfig(policy="ask", timeout_s=2),
    }
    view = configured_view(ServerConfig("files", command="x", tools=tools))

    assert [view(Tool(name)) for name in "abc"] == [None, None, Tool("c", timeout_s=2)]
