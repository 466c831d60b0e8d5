"""Views: what the configuration says of single tools."""

from toolcrib.catalog.views import configured_view, native_view
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.security import SecurityConfig
from toolcrib.core.limits import Limits, Rate
from toolcrib.core.tool import SecurityLevel, Tool

PLAIN = SecurityConfig()


def test_a_tool_without_wishes_gets_the_servers_time_limit():
    """And the level its name suggests; it is otherwise the same."""
    view = configured_view(ServerConfig("files", command="x", call_timeout_s=7), PLAIN)

    assert view("files__read", Tool("read", description="d")) == (
        Tool("read", description="d", timeout_s=7, security_level=SecurityLevel.READ_ONLY),
        "allow",
    )


def test_a_tool_carries_the_limits_that_hold_for_it():
    """Its own rate, and what its server may be asked as a whole."""
    tools = {"a": ToolConfig(rate=Rate(3, 60.0))}
    view = configured_view(ServerConfig("files", command="x", rate=Rate(10, 1.0), parallel=5, tools=tools), PLAIN)

    assert [view(f"files__{name}", Tool(name))[0].limits for name in "ab"] == [
        Limits(Rate(3, 60.0), Rate(10, 1.0), 5),
        Limits(None, Rate(10, 1.0), 5),
    ]


def test_disabled_tools_are_hidden_however_that_is_written():
    """``enabled = false`` and the policy ``disable`` mean the same; other policies show the tool."""
    tools = {
        "a": ToolConfig(enabled=False),
        "b": ToolConfig(policy="disable"),
        "c": ToolConfig(policy="ask", timeout_s=2, capabilities=("net",)),
    }
    view = configured_view(ServerConfig("files", command="x", tools=tools), PLAIN)

    assert [view(f"files__{name}", Tool(name))[1] for name in "abc"] == ["disable", "disable", "ask"]
    assert view("files__c", Tool("c"))[0] == Tool("c", timeout_s=2, capabilities=frozenset({"net"}))


def test_patterns_reach_native_tools_too():
    """The user's word counts for the tools of this process as for those of servers."""
    security = SecurityConfig(levels={"ad*": SecurityLevel.ADMIN}, policies={"add": "deny"})

    assert native_view(security)("add", Tool("add")) == (Tool("add", security_level=SecurityLevel.ADMIN), "deny")
