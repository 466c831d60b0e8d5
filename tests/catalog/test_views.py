"""Views: what the configuration says of single tools."""

import pytest

from toolcrib.catalog.merge import configured_view, native_view
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.limits import Rate, ToolLimits
from toolcrib.core.offers import SecurityLevel, Tool

PLAIN = SecurityConfig()


def test_a_tool_without_wishes_gets_the_servers_time_limit():
    """And the level its name suggests; it is otherwise the same."""
    view = configured_view(ServerConfig("files", command="x", call_timeout_s=7), PLAIN)

    assert view("files__read", Tool("read", description="d")) == (
        Tool("read", description="d", timeout_s=7, security_level=SecurityLevel.READ_ONLY),
        "allow",
    )


def test_the_names_that_models_use_for_a_known_tool_are_built_in_and_the_users_come_before_them():
    """What a model writes → what the server wants."""
    tools = {"control_zwave_device": ToolConfig(parameters={"command": "verb", "room": "roomName"})}
    plain, configured = (
        configured_view(ServerConfig("home", command="x", tools=given), PLAIN) for given in ({}, tools)
    )

    assert [view("home__z", Tool("control_zwave_device"))[0].renames for view in (plain, configured)] == [
        {"device_name": "deviceName", "command": "action"},
        {"device_name": "deviceName", "command": "verb", "room": "roomName"},
    ]


def test_a_tool_carries_the_limits_that_hold_for_it():
    """Its own rate, and what its server may be asked as a whole."""
    tools = {"a": ToolConfig(rate=Rate(3, 60.0))}
    view = configured_view(ServerConfig("files", command="x", rate=Rate(10, 1.0), parallel=5, tools=tools), PLAIN)

    assert [view(f"files__{name}", Tool(name))[0].limits for name in "ab"] == [
        ToolLimits(Rate(3, 60.0), Rate(10, 1.0), 5),
        ToolLimits(None, Rate(10, 1.0), 5),
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


@pytest.mark.parametrize(
    ("server", "security", "may_run_twice"),
    [
        (ServerConfig("db", command="x", tools={"lookup": ToolConfig(level=SecurityLevel.READ_ONLY)}), PLAIN, True),
        (ServerConfig("db", command="x", level=SecurityLevel.READ_ONLY), PLAIN, True),
        (ServerConfig("db", command="x"), SecurityConfig(levels={"db__*": SecurityLevel.READ_ONLY}), True),
        (ServerConfig("db", command="x"), PLAIN, False),
        (ServerConfig("db", command="x", level=SecurityLevel.WRITE), PLAIN, False),
        (
            ServerConfig(
                "db", command="x", level=SecurityLevel.READ_ONLY, tools={"lookup": ToolConfig(replayable=False)}
            ),
            PLAIN,
            False,
        ),
    ],
    ids=["tool", "server", "pattern", "only its name", "write", "not to be repeated"],
)
def test_what_only_reads_by_the_users_word_may_be_made_again(server, security, may_run_twice):
    """A name that merely sounds like reading is not enough, and an express wish counts first."""
    shown, _ = configured_view(server, security)("db__lookup", Tool("lookup"))

    assert shown.is_replayable is may_run_twice


def test_a_tool_that_says_it_destroys_is_not_made_again_because_of_a_broad_rule():
    """The stricter word wins: its level is raised, and it is not repeated either."""
    server = ServerConfig("db", command="x", level=SecurityLevel.READ_ONLY)
    shown, _ = configured_view(server, PLAIN)("db__lookup", Tool("lookup", annotations={"destructiveHint": True}))

    assert (shown.security_level, shown.is_replayable) == (SecurityLevel.WRITE, False)
