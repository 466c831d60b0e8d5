"""The first HTTP transport of the protocol, which servers and clients still speak: real ones of it, on either side."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet import servers
from tests.fleet.clients import Place, SdkClient, SseNodeClient
from tests.fleet.gateway import serving
from tests.fleet.servers import Remote

import toolcrib
from toolcrib.testing import RecordingChannel

pytestmark = pytest.mark.timeout(600)
SERVER = Path(__file__).with_name("sse_server.py")


@pytest.fixture(scope="module")
def old(fleet: None) -> Iterator[Remote]:
    """A server of SDK 1.x over HTTP+SSE."""
    with servers.over_sse(SERVER) as remote:
        yield remote


@pytest.mark.parametrize("is_told", [True, False], ids=["declared", "found out"])
async def test_a_server_of_the_first_transport_is_listed_called_and_read(old: Remote, is_told: bool):
    """Whether its entry says ``sse`` or just has a URL that refuses what came after."""
    entry = old.entry() if is_told else {"url": old.url}
    async with toolcrib.open_crib({"mcpServers": {"old": entry}}) as crib:
        names = [tool.name for tool in await crib.tools(grace_s=60) if tool.name.startswith("old__")]
        channel = RecordingChannel(wants_progress=True)
        result = await crib.call("old__count", {"to": 3}, channel=channel)

        assert names == ["old__count", "old__greet"]
        assert result.success, result.error
        assert [method for method, _ in channel.told] == ["notifications/progress"] * 3 + ["notifications/message"]


async def test_a_server_of_the_first_transport_can_ask_the_client(old: Remote):
    """Its question comes on the stream, and the answer goes back as a message of its own."""
    channel = RecordingChannel(
        {"elicitation/create": {"action": "accept", "content": {"name": "Ada"}}}, capabilities={"elicitation": {}}
    )
    config = {"mcpServers": {"old": old.entry()}}
    async with toolcrib.open_crib(config) as crib:
        result = await crib.call("old__greet", {}, channel=channel)

    assert result.text == "Hello, Ada"


async def test_the_reference_server_over_the_first_transport(fleet: None):
    """Node's side of it, with an address that is relative."""
    with servers.everything_over_sse() as remote:
        async with toolcrib.open_crib({"mcpServers": {"everything": remote.entry()}}) as crib:
            tools = await crib.tools(grace_s=60)
            result = await crib.call("everything__echo", {"message": "hi"})

    assert len(tools) >= 13
    assert result.text == "Echo: hi"


@pytest.fixture(scope="module")
def gate(old: Remote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """toolcrib before that server, by the address that clients of the first transport know."""
    home = tmp_path_factory.mktemp("gate").resolve()
    config = servers.write_config(home / "servers.json", {"old": old, "everything": servers.everything()})
    with serving(config) as (url, _):
        yield Place(home, url=url.replace("/mcp", "/sse"))


def test_a_client_of_the_first_transport_in_python(gate: Place):
    """mcp 1.x: the tools, a call with progress, a call that it gives up, and one after that."""
    count = {"op": "call", "tool": "old__count", "arguments": {"to": 3}}
    found = SdkClient(1, "legacy").converse(gate, [{"op": "list"}, count])

    assert [tool["name"] for tool in found["outcomes"][0]["tools"] if tool["name"].startswith("old__")] == [
        "old__count",
        "old__greet",
    ]
    assert found["outcomes"][1]["result"]["structuredContent"] == {"result": 3}


def test_a_client_of_the_first_transport_in_node(gate: Place):
    """The SDK for TypeScript, 1.x, with progress that is told while the call runs."""
    steps = {"duration": 0.4, "steps": 4}
    found = SseNodeClient().call(gate, "everything__trigger-long-running-operation", steps)

    assert {"old__count", "old__greet"} <= set(found["tools"])
    assert "completed" in found["result"]["content"][0]["text"]
    assert found["notices"][:3] == [1, 2, 3]  # the SDK drops one that comes together with the result
