"""A program written for the published tooling package runs with another import."""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fleet.install import ensure_env
from tests.platform.fake_gateway import MAIL, jwt, serving
from tests.platform.mcp_servers import mcp_server

from toolcrib.compat import a365
from toolcrib.platform.settings import PlatformSettings

TOKEN = jwt()


@pytest.fixture
async def gateway():
    async with serving() as gateway:
        yield gateway


def service(gateway):
    return a365.McpToolServerConfigurationService(settings=PlatformSettings(gateway.url, env={}))


async def test_servers_are_listed_under_the_published_names(gateway):
    (server,) = await service(gateway).list_tool_servers("app", TOKEN, a365.ToolOptions("Claude"))

    assert (server.mcp_server_name, server.mcp_server_unique_name) == ("mail", "mcp_Mail")
    assert (server.url, server.audience) == (f"{gateway.url}/agents/servers/mail", None)
    assert server.headers["Authorization"] == f"Bearer {TOKEN}"
    assert gateway.asked[0].headers["user-agent"].endswith("; Claude)")


async def test_empty_arguments_are_the_published_value_errors(gateway):
    with pytest.raises(ValueError, match=r"^agentic_app_id cannot be empty or None$"):
        await service(gateway).list_tool_servers("", TOKEN)
    with pytest.raises(ValueError, match=r"^auth_token cannot be empty or None$"):
        await service(gateway).list_tool_servers("app", "")


async def test_tokens_are_exchanged_for_each_audience(gateway):
    asked = []

    class Authorization:
        async def exchange_token(self, context, scopes, handler):
            asked.append((context, scopes, handler))
            return SimpleNamespace(token="exchanged")

    gateway.servers = [MAIL, {"mcpServerName": "crm", "audience": "api://crm"}]
    found = await service(gateway).list_tool_servers(
        "app", TOKEN, authorization=Authorization(), auth_handler_name="handler"
    )

    assert [server.headers["Authorization"] for server in found] == [f"Bearer {TOKEN}", "Bearer exchanged"]
    assert asked == [(None, ["api://crm/.default"], "handler")]


async def test_the_tools_of_a_server_are_listed(gateway):
    async with mcp_server() as server:
        config = a365.MCPServerConfig("mail", url=server.url, headers={"X-Own": "1"})
        tools = await service(gateway).get_mcp_client_tools("mail", config)

    assert [tool.name for tool in tools] == ["greet"]


async def test_a_conversation_is_sent_and_a_failure_is_a_result(gateway):
    context = {"activity": {"id": "m", "text": "hi", "conversation": {"id": "c"}, "channelId": "msteams"}}
    history = [a365.ChatHistoryMessage("user", "x")]

    assert (await service(gateway).send_chat_history(context, history)).succeeded
    gateway.answers = [(400, {}, b"")]
    failed = await service(gateway).send_chat_history(context, history)
    assert not failed.succeeded
    assert "HTTP 400" in str(failed.errors[0])
    with pytest.raises(ValueError, match="turn_context"):
        await service(gateway).send_chat_history(None, history)


def test_the_helpers_are_there_and_all_names_exist():
    with pytest.warns(DeprecationWarning, match="list_tool_servers"):
        assert a365.build_mcp_server_url("mail", PlatformSettings("https://g.example", env={})).endswith("/mail")
    assert all(hasattr(a365, name) for name in a365.__all__)
    assert a365.Constants.Headers.CHANNEL_ID == "x-ms-channel-id"


def test_a_config_needs_a_name_and_shows_no_header():
    with pytest.raises(ValueError, match="mcp_server_name"):
        a365.MCPServerConfig("")
    assert "secret" not in repr(a365.MCPServerConfig("a", headers={"Authorization": "secret"}))


PROGRAM = Path(__file__).with_name("published_program.py")
MANIFEST = {
    "mcpServers": [
        {"mcpServerName": "mail", "mcpServerUniqueName": "mcp_Mail"},
        {"mcpServerName": "own", "url": "http://127.0.0.1:9/own", "publisher": "us"},
    ]
}
IN_PLACE = "import runpy, sys; from toolcrib.compat import a365; a365.install(); runpy.run_path(sys.argv[1], run_name='__main__')"  # noqa: E501


async def what_it_saw(directory, gateway, *command):
    """What the program printed, each step by its name."""
    tokens = {"TEST_TOKEN": TOKEN, "BEARER_TOKEN": "shared"}
    named = {"MCP_PLATFORM_ENDPOINT": gateway.url, **tokens}
    unset = ("ENVIRONMENT", "ASPNETCORE_ENVIRONMENT", "DOTNET_ENVIRONMENT", "NODE_ENV", "PYTHON_ENVIRONMENT")
    env = {name: value for name, value in os.environ.items() if name not in unset} | named
    process = await asyncio.create_subprocess_exec(
        *command, str(PROGRAM), cwd=directory, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await asyncio.wait_for(process.communicate(), 150)
    assert process.returncode == 0, errors.decode()
    steps = [json.loads(line) for line in out.splitlines()]
    return {step.pop("step"): step for step in steps}


async def test_a_program_of_the_published_package_runs_unchanged_with_toolcrib_in_its_place(tmp_path, gateway):
    """Side by side with the package itself: both see the same servers, tokens, refusals, and answers."""
    (tmp_path / "ToolingManifest.json").write_text(json.dumps(MANIFEST))
    gateway.servers = {"mcpServers": [MAIL, {"mcpServerName": "crm", "url": "http://127.0.0.1:9/crm", "scope": "All"}]}
    published = await what_it_saw(tmp_path, gateway, str(await asyncio.to_thread(ensure_env, "a365")))
    asked_by_published, gateway.asked = gateway.asked, []

    ours = await what_it_saw(tmp_path, gateway, sys.executable, "-c", IN_PLACE)

    assert len(published) == 19
    assert ours == published
    chats = [[asked for asked in each if asked.method == "POST"] for each in (asked_by_published, gateway.asked)]
    assert [(chat.path, json.loads(chat.body)) for chat in chats[0]] == [
        (chat.path, json.loads(chat.body)) for chat in chats[1]
    ]


async def test_the_logger_that_a_program_brings_hears_what_happens(gateway, caplog):
    """At the levels of the events."""
    logger = logging.getLogger("of-a-program")
    made = a365.McpToolServerConfigurationService(logger, PlatformSettings(gateway.url, env={}))
    with caplog.at_level(logging.DEBUG, "of-a-program"):
        await made.list_tool_servers("app", TOKEN)

    assert ("of-a-program", logging.INFO, "Listing MCP tool servers for agent app") in caplog.record_tuples
    assert any(level == logging.DEBUG and "platform.mode" in text for _, level, text in caplog.record_tuples)


async def test_in_development_no_token_is_needed(tmp_path, monkeypatch):
    """The manifest is on this machine."""
    (tmp_path / "ToolingManifest.json").write_text(json.dumps(MANIFEST))
    monkeypatch.chdir(tmp_path)
    settings = PlatformSettings("https://g.example", use_tooling_manifest=True, env={})

    found = await a365.McpToolServerConfigurationService(settings=settings).list_tool_servers("")

    assert [server.mcp_server_name for server in found] == ["mail", "own"]


def test_the_values_in_effect_are_there_under_the_published_names(monkeypatch):
    """By default, by environment, by value and by callable."""
    names = (
        *("mcp_platform_endpoint", "mcp_platform_authentication_scope", "cluster_category", "use_tooling_manifest"),
        *("is_development_environment", "is_node_env_development"),
    )

    def values(config):
        return [getattr(config, name) for name in names]

    scope = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1/.default"
    env = {"MCP_PLATFORM_ENDPOINT": "https://e.example/", "CLUSTER_CATEGORY": "dev", "NODE_ENV": "development"}
    given = a365.ToolingConfiguration(
        mcp_platform_endpoint=lambda: "https://custom.endpoint",
        mcp_platform_authentication_scope="custom-scope/.default",
        use_tooling_manifest=lambda: False,
        env=env,
    )

    default = ["https://agent365.svc.cloud.microsoft", scope, "prod", False, False, False]
    assert values(a365.ToolingConfiguration(env={})) == default
    assert values(a365.ToolingConfiguration(env=env)) == ["https://e.example", scope, "dev", True, True, True]
    assert values(given) == ["https://custom.endpoint", "custom-scope/.default", "dev", False, True, True]
    monkeypatch.setenv("MCP_PLATFORM_ENDPOINT", "https://later.example")
    provided = a365.default_tooling_configuration_provider.get_configuration()
    assert provided.mcp_platform_endpoint == "https://later.example"


def test_utility_composes_headers_and_validates_tokens():
    """As the design has it."""
    made = a365.Utility.get_tool_request_headers(
        TOKEN, {"activity": {"channelId": "msteams:email", "id": "m"}}, a365.ToolOptions("MyOrchestrator")
    )

    assert made["Authorization"] == f"Bearer {TOKEN}"
    assert (made[a365.Utility.HEADER_CHANNEL_ID], made[a365.Utility.HEADER_SUBCHANNEL_ID]) == ("msteams", "email")
    assert made[a365.Utility.HEADER_USER_AGENT].endswith("; MyOrchestrator)")
    a365.Utility.validate_auth_token(TOKEN)
    with pytest.raises(a365.CallerError, match=r"^Authentication token has expired$"):
        a365.Utility.validate_auth_token(jwt(exp=1))
    with pytest.warns(DeprecationWarning, match="send_chat_history"):
        a365.Utility.get_chat_history_endpoint()
