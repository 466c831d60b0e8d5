"""A program written for the published tooling package runs with another import."""

from types import SimpleNamespace

import pytest
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
