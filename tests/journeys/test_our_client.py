"""toolcrib in front of toolcrib: our own client meets the real servers through our own doors."""

import re

import pytest
from tests.fleet.clients import Place
from tests.journeys.test_real_servers import DOORS, SERVERS, TOOL_COUNTS, request_to
from tests.journeys.workshop import Workshop

import toolcrib
from toolcrib.core.requests import SilentChannel
from toolcrib.sources.mcp.stdio_link import StdioLink

pytestmark = pytest.mark.timeout(600)


class ProgressChannel(SilentChannel):
    """Counts the progress it is told of."""

    wants_progress = True

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notify(self, method: str, params: bytes) -> None:
        self.notices.append(method)


def through(place: Place) -> dict[str, object]:
    """The gateway as the one server of another Crib."""
    entry = {"url": place.url} if place.url else {"command": place.argv[0], "args": list(place.argv[1:])}
    return {"mcpServers": {"gate": {**entry, "cwd": str(place.home)} if not place.url else entry}}


async def count_tools(crib: toolcrib.Crib) -> dict[str, int]:
    """How many tools of each real server are listed."""
    names = [tool.name for tool in await crib.tools(grace_s=60)]
    return {server: sum(name.startswith(f"gate__{server}__") for name in names) for server in SERVERS}


@pytest.mark.parametrize("door", DOORS)
async def test_every_real_server_is_listed_and_called_through_both_of_our_ends(
    door: str, places: dict[str, Place], workshop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """Names gain a prefix at each gateway; results are those of the real server; progress comes all the way."""
    monkeypatch.setattr(StdioLink, "discover_patience_s", 150.0)  # on a busy machine, a gateway takes seconds to start
    async with toolcrib.open_crib(through(places[door])) as crib:
        while (counts := await count_tools(crib)) != TOOL_COUNTS:  # the gateway lists what is there so far
            assert all(counts[server] in (0, TOOL_COUNTS[server]) for server in SERVERS)
            await crib.refresh("gate")

        for server in SERVERS:
            request = request_to(server, workshop, f"ours-over-{door}")
            result = await crib.call(f"gate__{server}__{request.tool}", request.arguments)
            assert result.success, result.error
            assert re.fullmatch(request.says, result.text, re.DOTALL)

        channel = ProgressChannel()
        long = "gate__everything__trigger-long-running-operation"
        await crib.call(long, {"duration": 0.4, "steps": 4}, channel=channel)
        assert channel.notices == ["notifications/progress"] * 4

        late = await crib.call(long, {"duration": 30, "steps": 2}, timeout_s=0.3)
        assert late.error.code == "TOOL_TIMEOUT"
        assert crib.shelves["gate"].record.era == "2026-07-28"
