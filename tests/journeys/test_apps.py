"""A real server with an app, as clients with and without apps see it through toolcrib, in both eras on either side."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fleet import servers

import toolcrib
from toolcrib.config.model import Config, ServerConfig
from toolcrib.core.kinds import EraChoice
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.testing import RecordingChannel
from toolcrib.wire.jsonrpc import Inbound
from toolcrib.wire.messages import Asker

pytestmark = pytest.mark.timeout(600)
SERVER = Path(__file__).with_name("app_server.py")
UI = "io.modelcontextprotocol/ui"
SHOWS = {"extensions": {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}}
ABOUT = {
    "csp": {"connectDomains": ["https://time.example"]},
    "permissions": {"clipboardWrite": {}},
    "prefersBorder": True,
}
PAGE = "ui://clock/clock/app.html"
FRONTS = pytest.mark.parametrize("front", ["2025-11-25", "2026-07-28"])
BACKS = pytest.mark.parametrize("back", [EraChoice.HANDSHAKE, EraChoice.STATELESS])


@asynccontextmanager
async def opened(back: EraChoice) -> AsyncIterator[toolcrib.Crib]:
    clock = ServerConfig("clock", command=servers.sdk_python(2), args=(str(SERVER),), era=back)
    async with toolcrib.open_crib(Config(servers={"clock": clock})) as crib:
        await crib.tools(grace_s=60)
        yield crib


async def ask(crib: toolcrib.Crib, asker: Asker, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    mcp = McpService(ProfileView(crib), ServerIdentity("toolcrib", "9"))
    channel = RecordingChannel(capabilities=asker.capabilities, takes_input_required=asker.is_modern)
    body, _ = await mcp.respond(Inbound("2.0", 1, method, params or {}), asker, channel)
    answer = json.loads(body)
    return answer["result"] if "result" in answer else answer["error"]


@FRONTS
@BACKS
async def test_an_app_arrives_whole(fleet: None, front: str, back: EraChoice):
    """Its tools with the URI that it can be read by, in both spellings; its page with all that its frame may do."""
    asker = Asker(front, SHOWS)
    async with opened(back) as crib:
        tools = {tool["name"]: tool for tool in (await ask(crib, asker, "tools/list"))["tools"]}
        listed = (await ask(crib, asker, "resources/list"))["resources"]
        page = (await ask(crib, asker, "resources/read", {"uri": PAGE}))["contents"][0]
        shown = await ask(crib, asker, "tools/call", {"name": "clock__show_time", "arguments": {}})
        alarm = {"name": "clock__set_alarm", "arguments": {"at": "7"}}
        alarmed = await ask(crib, asker, "tools/call", alarm)

    meta = tools["clock__show_time"]["_meta"]
    assert (meta["ui"]["resourceUri"], meta["ui/resourceUri"]) == (PAGE, PAGE)
    assert tools["clock__set_alarm"]["_meta"]["ui"]["visibility"] == ["app"]
    assert [(one["uri"], one["mimeType"], one["_meta"]["ui"]) for one in listed] == [
        (PAGE, "text/html;profile=mcp-app", ABOUT)
    ]
    assert (page["uri"], page["mimeType"], page["text"]) == (PAGE, "text/html;profile=mcp-app", "<html>12:00</html>")
    assert page["_meta"]["ui"] == ABOUT
    assert shown["content"][0]["text"] == "apps"
    assert alarmed["content"][0]["text"] == "set to 7"


@FRONTS
async def test_a_client_without_apps_is_shown_no_tool_that_is_for_apps_alone(fleet: None, front: str):
    """And a server of the stateless era hears with each call that this client shows none."""
    asker = Asker(front)
    async with opened(EraChoice.STATELESS) as crib:
        tools = [tool["name"] for tool in (await ask(crib, asker, "tools/list"))["tools"]]
        shown = await ask(crib, asker, "tools/call", {"name": "clock__show_time", "arguments": {}})

    assert "clock__show_time" in tools
    assert "clock__set_alarm" not in tools
    assert shown["content"][0]["text"] == "text"


async def test_the_extension_is_announced_where_a_tool_has_an_app(fleet: None):
    """So that a client that shows apps looks for them."""
    async with opened(EraChoice.AUTO) as crib:
        greeting = await ask(crib, replace(Asker("2026-07-28")), "server/discover")

    assert UI in greeting["capabilities"]["extensions"]
