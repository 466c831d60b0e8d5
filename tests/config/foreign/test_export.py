import json
import tomllib

import pytest

from toolcrib.config.foreign.clients import CLIENTS, UNKNOWN, read_servers
from toolcrib.config.foreign.export import export, is_masked, lost_settings
from toolcrib.config.model import ServerConfig
from toolcrib.stores.foreign import read_document

LOCAL = ServerConfig(
    "local", command="x", args=("-v",), env={"KEY": "${KEY}", "MODE": "quick"}, cwd="/y", call_timeout_s=90.0
)
FAR = ServerConfig(
    "far",
    url="https://far.example/mcp",
    headers={"Authorization": "Bearer ${TOKEN}", "X-Account": "${ACCOUNT}", "X-Region": "eu"},
    enabled=False,
)
SECRET = ServerConfig("secret", command="x", args=("--api-key", "hush"), env={"API_KEY": "sk-0123456789"})


@pytest.mark.parametrize(
    ("wanted", "client", "where"), [("mcpServers", "file", "x.json"), ("codex", "codex", "x.toml")]
)
def test_what_is_exported_can_be_imported(wanted, client, where):
    """Nothing that both sides have a word for is lost."""
    text = export([LOCAL, FAR], wanted)

    found = read_servers(read_document(text, where), CLIENTS.get(client, UNKNOWN))
    assert [one.server for one in found] == [LOCAL, FAR]


def test_vscode_gets_its_own_references():
    """``${env:X}``."""
    entry = json.loads(export([LOCAL], "vscode"))["servers"]["local"]

    assert entry == {
        "type": "stdio",
        "command": "x",
        "args": ["-v"],
        "env": {"KEY": "${env:KEY}", "MODE": "quick"},
        "cwd": "/y",
    }


@pytest.mark.parametrize("wanted", ["mcpServers", "vscode", "codex"])
def test_secrets_are_masked_unless_they_are_wanted(wanted):
    """In every format and in every place."""
    text = export([SECRET], wanted)

    assert "hush" not in text
    assert "sk-0123456789" not in text
    assert "sk-0123456789" in export([SECRET], wanted, with_secrets=True)
    assert is_masked(SECRET)
    assert not is_masked(FAR)


def test_codex_takes_variables_by_name():
    """A bearer token, other headers, and what is passed on."""
    servers = tomllib.loads(export([LOCAL, FAR], "codex"))["mcp_servers"]

    assert servers["far"]["bearer_token_env_var"] == "TOKEN"
    assert servers["far"]["env_http_headers"] == {"X-Account": "ACCOUNT"}
    assert servers["local"]["env_vars"] == ["KEY"]


def test_what_others_have_no_word_for_is_named():
    """So that it can be said."""
    assert lost_settings(ServerConfig("a", command="x", policy="ask", parallel=2)) == ["policy", "parallel"]
