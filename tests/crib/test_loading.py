"""Which files count: the user's rules always, the user's servers unless another file was named."""

import json
from pathlib import Path

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.crib.builder import as_loaded
from toolcrib.crib.loading import load
from toolcrib.stores.paths import Environment

RULES = """\
[serve]
port = 1234
[security.policies]
"x__*" = "deny"
[access]
level = "write"
[servers.mine]
command = "mine"
[servers.x]
command = "mine"
policy = "ask"
[servers.x.tools.drop]
enabled = false
timeout = 9
[profiles.p]
tools = ["*"]
"""


@pytest.fixture
def around(tmp_path: Path) -> Environment:
    """A project with a file of another program, and a user with rules."""
    user = tmp_path / "home" / ".config" / "toolcrib"
    user.mkdir(parents=True)
    (user / "toolcrib.toml").write_text(RULES)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": {"command": "theirs"}}}))
    return Environment(tmp_path / "other", {"HOME": str(tmp_path / "home")})


def test_a_named_file_gives_the_servers_and_the_users_file_the_rules(around):
    """Of the user's servers, preferences and profiles nothing is left; what is said of a server's name holds."""
    loaded = load(".mcp.json", around)
    config, server = loaded.config, loaded.config.servers["x"]

    assert list(config.servers) == ["x"]
    assert (server.command, server.policy, server.tools["drop"].enabled) == ("theirs", "ask", False)
    assert server.tools["drop"].timeout_s is None
    assert (config.port, dict(config.profiles)) == (7337, {})
    assert (dict(config.security.policies), config.access.level) == ({"x__*": "deny"}, "write")
    assert [path.name for path in loaded.server_files] == [".mcp.json"]
    assert [path.name for path in loaded.files] == ["toolcrib.toml", ".mcp.json"]


@pytest.mark.parametrize("named", [{}, {"TOOLCRIB_CONFIG": ".mcp.json"}])
def test_a_file_that_was_found_or_named_by_the_variable_stands_beside_the_users(around, named):
    """Servers and rules of both count."""
    config = load(None, Environment(around.cwd, {**around.env, **named})).config

    assert list(config.servers) == ["mine", "x"]
    assert (config.port, dict(config.security.policies)) == (1234, {"x__*": "deny"})


def test_servers_that_a_program_passes_are_under_the_users_rules_as_well(around):
    """They need no file for that."""
    config = as_loaded({"mcpServers": {"x": {"command": "theirs"}}}, around).config

    assert (list(config.servers), config.servers["x"].policy) == (["x"], "ask")
    assert dict(config.security.policies) == {"x__*": "deny"}


def test_rules_that_cannot_be_read_are_not_passed_over(around, tmp_path):
    """A named file is not served without them."""
    (tmp_path / "home" / ".config" / "toolcrib" / "toolcrib.toml").write_text("oops =")

    with pytest.raises(ConfigError, match=r"toolcrib\.toml:1"):
        load(".mcp.json", around)


def test_the_users_own_file_can_be_named(tmp_path, around):
    """Then all of it counts, once."""
    user = tmp_path / "home" / ".config" / "toolcrib" / "toolcrib.toml"

    loaded = load(user, around)

    assert (list(loaded.config.servers), loaded.config.port) == (["mine", "x"], 1234)
    assert (loaded.files, loaded.config.security.places) == ([user], ())
