import pytest

from toolcrib.config.merge import merge
from toolcrib.config.model import Config, Origin, ServerConfig, ToolConfig
from toolcrib.config.parse import flags_layer, parse_toml
from toolcrib.core.errors import ConfigError

GLOBAL = parse_toml(
    """\
[serve]
host = "127.0.0.2"
port = 1000

[servers.web]
url = "https://global.example/mcp"
ttl = 10
headers = { A = "1" }

[servers.web.tools.get]
policy = "deny"

[servers.files]
command = "files"
""",
    "user.toml",
)


def test_later_layers_win_setting_by_setting():
    """A flag is stronger than the project, the project stronger than the user's own file."""
    config = merge(GLOBAL, parse_toml("[serve]\nport = 2000", "project.toml"), flags_layer({"serve.port": 3000}))

    assert (config.host, config.port) == ("127.0.0.2", 3000)
    assert config.origins["serve.host"] == Origin("user.toml", 2)
    assert config.origins["serve.port"] == Origin("flag")


def test_a_server_of_the_project_replaces_the_global_one_as_a_whole():
    """Nothing of the global server is left: not its ttl, not its headers, not where they came from."""
    config = merge(GLOBAL, parse_toml('[servers.web]\nurl = "https://project.example/mcp"', "project.toml"))

    assert config.servers == {
        "files": ServerConfig("files", command="files"),
        "web": ServerConfig("web", url="https://project.example/mcp"),
    }
    assert (config.servers["web"].origin, config.servers["web"].line) == ("project.toml", 1)
    assert [name for name in config.origins if name.startswith("servers.web")] == ["servers.web.url"]


def test_an_entry_without_command_and_url_adjusts_the_server_below():
    """A project can switch a global server off, or add to it, without repeating it."""
    adjusting = """\
[servers.web]
enabled = false
headers = { B = "2" }
[servers.web.tools.put]
policy = "ask"
"""

    config = merge(GLOBAL, parse_toml(adjusting, "project.toml"))

    assert config.servers["web"] == ServerConfig(
        "web",
        url="https://global.example/mcp",
        ttl_s=10.0,
        headers={"A": "1", "B": "2"},
        enabled=False,
        tools={"get": ToolConfig(policy="deny"), "put": ToolConfig(policy="ask")},
    )
    assert config.origins["servers.web.ttl"] == Origin("user.toml", 7)
    assert config.origins["servers.web.enabled"] == Origin("project.toml", 2)


def test_an_entry_with_nothing_to_adjust_is_an_error_with_its_place():
    """A misspelt name does not vanish."""
    with pytest.raises(ConfigError, match=r"project.toml:2: Server 'wbe' has neither a command nor a url\."):
        merge(GLOBAL, parse_toml("\n[servers.wbe]\nenabled = false", "project.toml"))


def test_the_general_call_timeout_holds_for_servers_without_their_own():
    """``[calls] timeout`` is a default for all."""
    text = '[calls]\ntimeout = 5\n[servers.a]\ncommand = "x"\n[servers.b]\ncommand = "x"\ncall_timeout = 7\n'

    config = merge(parse_toml(text, "toolcrib.toml"))

    assert [server.call_timeout_s for server in config.servers.values()] == [5.0, 7.0]


def test_servers_come_in_the_order_of_their_names():
    """Whatever the order in the files, the output is the same."""
    text = '[servers.c]\ncommand = "x"\n[servers.a]\ncommand = "x"\n[servers.b]\ncommand = "x"'

    assert list(merge(parse_toml(text, "f.toml")).servers) == ["a", "b", "c"]


def test_no_layer_at_all_is_the_defaults():
    """toolcrib starts without any configuration."""
    assert merge() == Config()
