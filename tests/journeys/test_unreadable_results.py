"""Results that not every reader can read, from a server to the official clients: each call is answered."""

import sys
from pathlib import Path

import pytest
from tests.fleet import servers
from tests.fleet.clients import Place, SdkClient
from tests.fleet.gateway import stdio_command
from tests.journeys import unreadable_server

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

CLIENTS = {"sdk2": SdkClient(2, "modern"), "sdk1": SdkClient(1, "legacy")}
SERVER = servers.Launch(sys.executable, (str(Path(unreadable_server.__file__)),))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.usefixtures("fleet")
def test_every_call_is_answered_whatever_the_server_says(tmp_path, client):
    """An error with words for what cannot be read; what only says it twice comes through."""
    config = servers.write_config(tmp_path / "servers.json", {"odd": SERVER})
    calls = [{"op": "call", "tool": f"odd__{name}", "arguments": {}} for name in unreadable_server.RESULTS]

    answer = CLIENTS[client].converse(Place(tmp_path, argv=stdio_command(config)), [{"op": "list"}, *calls])

    _, twice, *refused = answer["outcomes"]
    assert ["cannot be read" in str(outcome) for outcome in refused] == [True] * 6
    assert "fine" in str(twice)
    assert "'isError': True" not in str(twice)
