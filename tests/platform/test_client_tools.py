"""The tools of one server: connect, list, close."""

import pytest
from tests.platform.fake_gateway import serving
from tests.platform.mcp_servers import mcp_server

from toolcrib.core.errors import ToolcribError
from toolcrib.platform.client_tools import get_mcp_client_tools
from toolcrib.platform.servers import McpServerConfig

HEADERS = {"Authorization": "Bearer a-long-secret", "User-Agent": "toolcrib/1 (Claude)", "x-ms-channel-id": "msteams"}


async def test_the_tools_of_a_server_are_listed_with_its_headers():
    async with mcp_server() as server:
        tools = await get_mcp_client_tools("mail", McpServerConfig("mail", server.url, HEADERS))

    assert [(tool.name, tool.description) for tool in tools] == [("greet", "Greet somebody.")]
    assert tools[0].input_schema["required"] == ["name"]
    sent = [{key: seen.get(key.lower()) for key in HEADERS} for seen in server.seen]
    assert sent == [HEADERS] * len(sent)


async def test_a_header_that_looks_like_a_reference_is_sent_as_it_is():
    async with mcp_server() as server:
        await get_mcp_client_tools("mail", McpServerConfig("mail", server.url, {"X-Odd": "${HOME}"}))

    assert {seen["x-odd"] for seen in server.seen} == {"${HOME}"}


async def test_a_server_that_refuses_is_an_error_without_the_token():
    async with serving(answers=[(401, {}, b"a-long-secret is wrong")] * 9) as gateway:
        with pytest.raises(ToolcribError) as failed:
            await get_mcp_client_tools("mail", McpServerConfig("mail", f"{gateway.url}/mcp", HEADERS))

    assert "a-long-secret" not in f"{failed.value!r} {failed.value} {failed.value.details}"


async def test_a_server_that_never_answers_is_given_up():
    async with serving(hangs=True) as gateway:
        with pytest.raises(ToolcribError):
            await get_mcp_client_tools("slow", McpServerConfig("slow", f"{gateway.url}/mcp"), timeout_s=0.3)
