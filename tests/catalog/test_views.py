"""Views: what the configuration says of single tools."""

from toolcrib.catalog.views import configured_view, native_view
from toolcrib.config.model import SecurityConfig, ServerConfig, ToolConfig
from toolcrib.core.tool import SecurityLevel, Tool

PLAIN = SecurityConfig()


def test_a_tool_without_wishes_gets_the_servers_time_limit():
    """And the level its name suggests; it is otherwise the same."""
    view = configured_view(ServerConfig("files", command="x", call_timeout_s=7), PLAIN)

    assert view("files__read", Tool("read", description="d")) == (
        Tool("read", description="d", timeout_s=7, security_level=SecurityLevel.READ_ONLY),
        "allow",
    )


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
