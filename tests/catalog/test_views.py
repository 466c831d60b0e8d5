"""Views: what the configuration says of single tools."""

from toolcrib.catalog.views import configured_view
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.core.limits import Limits, Rate
from toolcrib.core.tool import Tool


def test_a_tool_without_wishes_gets_the_servers_time_limit():
    """And is otherwise the same."""
    view = configured_view(ServerConfig("files", command="x", call_timeout_s=7))

    assert view(Tool("read", description="d")) == Tool("read", description="d", timeout_s=7)


def test_a_tool_carries_the_limits_that_hold_for_it():
    """Its own rate, and what its server may be asked as a whole."""
    tools = {"a": ToolConfig(rate=Rate(3, 60.0))}
    view = configured_view(ServerConfig("files", command="x", rate=Rate(10, 1.0), parallel=5, tools=tools))

    assert [view(Tool(name)).limits for name in "ab"] == [
        Limits(Rate(3, 60.0), Rate(10, 1.0), 5),
        Limits(None, Rate(10, 1.0), 5),
    ]


def test_disabled_tools_are_hidden_however_that_is_written():
    """``enabled = false`` and the policy ``disable`` mean the same; other policies show the tool."""
    tools = {
        "a": ToolConfig(enabled=False),
        "b": ToolConfig(policy="disable"),
        "c": ToolConfig(policy="ask", timeout_s=2),
    }
    view = configured_view(ServerConfig("files", command="x", tools=tools))

    assert [view(Tool(name)) for name in "abc"] == [None, None, Tool("c", timeout_s=2)]
