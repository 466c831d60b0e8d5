import pytest

from toolcrib.config.merge import merge
from toolcrib.config.model import DEFAULT, Config, Layer, Origin, ServerConfig, ToolConfig
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
    """Nothing of the global server is left but its rules: not its ttl, not its headers, not where they came from."""
    config = merge(GLOBAL, parse_toml('[servers.web]\nurl = "https://project.example/mcp"', "project.toml"))

    assert config.servers == {
        "files": ServerConfig("files", command="files"),
        "web": ServerConfig("web", url="https://project.example/mcp", tools={"get": ToolConfig(policy="deny")}),
    }
    assert (config.servers["web"].origin, config.servers["web"].line) == ("project.toml", 1)
    assert sorted(name for name in config.origins if name.startswith("servers.web")) == [
        "servers.web.tools.get.policy",
        "servers.web.url",
    ]
    assert config.origins["servers.web.tools.get.policy"] == Origin("user.toml", 11)


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


def test_no_layer_loosens_what_another_says():
    """Neither a setting nor what is said of a server or a tool; whoever is stricter adds to it."""
    user = """\
[isolation]
level = "confined"
[limits]
parallel = 5
[access]
tools = ["web__*"]
[servers.web]
command = "web"
policy = "ask"
write = ["/a", "/b"]
[servers.web.tools.get]
policy = "deny"
capabilities = ["mine"]
"""
    project = """\
[isolation]
level = "none"
[limits]
parallel = 50
[servers.web]
policy = "allow"
isolation = "none"
parallel = 9
write = ["/", "/b"]
[servers.web.tools.get]
policy = "allow"
timeout = 3
capabilities = ["theirs"]
"""

    config = merge(
        parse_toml(user, "user.toml"), parse_toml(project, "project.toml"), flags_layer({"access.tools": ["*"]})
    )

    assert (config.isolation.level, config.limits.parallel, config.access.tools) == ("confined", 5, ("web__*",))
    assert config.servers["web"] == ServerConfig(
        "web",
        command="web",
        policy="ask",
        isolation="confined",
        parallel=5,
        write=("/b",),
        tools={"get": ToolConfig(policy="deny", capabilities=("mine", "theirs"), timeout_s=3)},
    )
    assert config.origins["servers.web.isolation"] == Origin("user.toml", 2)
    assert config.origins["servers.web.tools.get.policy"] == Origin("user.toml", 12)


def test_what_one_file_says_in_general_and_in_particular_is_its_own_affair():
    """A server may be let out of the isolation that the same file has for all."""
    config = merge(
        parse_toml('[isolation]\nlevel = "confined"\n[servers.a]\ncommand = "a"\nisolation = "none"', "user.toml"),
        parse_toml("[servers.a]\nttl = 5", "project.toml"),
    )

    assert (config.servers["a"].isolation, config.isolation.level) == ("none", "confined")


def test_grants_of_another_program_of_the_same_name_do_not_count():
    """What the user's own ``web`` may write is no rule for the project's."""
    config = merge(
        parse_toml('[servers.web]\ncommand = "mine"\nwrite = ["/a"]\nnetwork = false', "user.toml"),
        parse_toml('[servers.web]\ncommand = "theirs"\nwrite = ["/b"]\nnetwork = true', "project.toml"),
    )

    assert config.servers["web"] == ServerConfig("web", command="theirs", write=("/b",), network=False)


def test_the_users_issuer_is_not_vouched_for_by_keys_from_another_file():
    """Issuer, audience and keys come from one file; lifetimes are the shortest of all."""
    config = merge(
        parse_toml('[auth]\nissuer = "https://mine.example"\nmax_age = "1h"', "user.toml"),
        parse_toml('[auth]\njwks = "theirs.json"\naudience = "a"\nmax_age = "1d"', "project.toml"),
    )

    assert (config.auth.issuer, config.auth.jwks, config.auth.audience) == ("https://mine.example", "", "")
    assert config.auth.max_age_s == 3600


def test_what_toolcrib_does_by_default_is_no_word_against_anybody():
    """A file may switch off what is on for files that say nothing."""
    default = Layer("default", {"audit.enabled": True}, origins={"audit.enabled": DEFAULT})

    assert not merge(default, parse_toml("[audit]\nenabled = false", "user.toml")).audit.enabled
    assert merge(default).audit.enabled
