import json
import tomllib
from pathlib import Path

import pytest

from toolcrib.config.foreign.clients import CLIENTS, read_servers
from toolcrib.config.foreign.connectors import CONNECTORS, Launch, entry_for, insert_entry, instructions
from toolcrib.config.foreign.entry import is_toolcrib
from toolcrib.config.foreign.locations import Computer, locations
from toolcrib.core.errors import ConfigError
from toolcrib.stores.foreign import read_document

MACHINE = Computer(Path("/h"), Path("/c"), {})
STDIO = Launch(("/bin/toolcrib", "stdio"))
HTTP = Launch(url="http://127.0.0.1:7337/mcp", with_token=True)
URL = "http://127.0.0.1:7337/mcp"


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude-code", {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${TOOLCRIB_TOKEN}"}}),
        ("cursor", {"url": URL, "headers": {"Authorization": "Bearer ${env:TOOLCRIB_TOKEN}"}}),
        ("vscode", {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${env:TOOLCRIB_TOKEN}"}}),
        ("codex", {"url": URL, "bearer_token_env_var": "TOOLCRIB_TOKEN"}),
        ("gemini", {"type": "http", "url": URL, "headers": {"Authorization": "Bearer $TOOLCRIB_TOKEN"}}),
        ("windsurf", {"serverUrl": URL, "headers": {"Authorization": "Bearer ${env:TOOLCRIB_TOKEN}"}}),
        (
            "opencode",
            {
                "type": "remote",
                "enabled": True,
                "url": URL,
                "headers": {"Authorization": "Bearer {env:TOOLCRIB_TOKEN}"},
            },
        ),
    ],
)
def test_the_token_is_a_reference_in_the_clients_own_syntax(client, expected):
    """Never the token itself."""
    assert entry_for(CONNECTORS[client], HTTP) == expected


@pytest.mark.parametrize("client", ["claude-desktop", "zed"])
def test_a_client_that_cannot_says_what_it_can(client):
    """No address at all, or no way to name a variable."""
    with pytest.raises(ConfigError, match="Leave --http away"):
        entry_for(CONNECTORS[client], HTTP)


@pytest.mark.parametrize("client", CONNECTORS)
def test_what_is_written_is_read_back_as_toolcrib(client):
    """Our own readers know their clients' words, and never import it."""
    connector = CONNECTORS[client]
    where = "x.toml" if connector.is_toml else "x.json"

    text = insert_entry("", connector, entry_for(connector, STDIO), where)

    (found,) = read_servers(read_document(text, where), CLIENTS[client])
    assert found.server is not None
    assert (found.server.command, found.server.args) == ("/bin/toolcrib", ("stdio",))
    assert is_toolcrib(found.name, found.server)


def test_there_are_instructions_for_every_client():
    """A snippet that can be read and the file it goes into, or the reason why not."""
    found = {one.client: one for one in instructions(HTTP, MACHINE)}

    assert found.keys() == CONNECTORS.keys()
    assert found["vscode"].path == "/h/.config/Code/User/mcp.json"
    assert json.loads(found["cursor"].snippet)["mcpServers"]["toolcrib"]["url"] == URL
    assert tomllib.loads(found["codex"].snippet)["mcp_servers"]["toolcrib"]["url"] == URL
    assert "takes only programs" in found["claude-desktop"].note


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_files_that_are_written_are_files_that_are_read(platform):
    """One idea of where a client keeps its servers."""
    machine = Computer(Path("/h"), Path("/c"), {}, platform)
    known = {str(location.path) for location in locations(machine)}

    assert {one.path for one in instructions(STDIO, machine)} <= known
