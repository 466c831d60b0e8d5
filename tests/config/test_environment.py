import pytest

from toolcrib.config.environment import chosen_config, environment_layer
from toolcrib.config.merge import merge
from toolcrib.config.model import Config, Layer, Origin, ServerConfig, ServerEntry, ToolConfig
from toolcrib.config.parse import parse_toml
from toolcrib.core.errors import ConfigError

FILE = parse_toml(
    """\
[servers.rube]
command = "rube"
env = { X = "1" }
[servers.rube.tools.send]
policy = "deny"
""",
    "toolcrib.toml",
)


def test_a_server_is_declared_by_variables_alone():
    """Address, key and timeouts; the key itself stays in the environment."""
    env = {
        "RUBE_MCP_URL": "https://rube.example/mcp",
        "RUBE_API_KEY": "very-secret",
        "RUBE_MCP_TIMEOUT": "1m",
        "RUBE_MCP_CONNECT_TIMEOUT": "2.5",
        "RUBE_MCP_DISCOVERY_TIMEOUT": "500ms",
    }

    layer = environment_layer(env)

    assert layer == Layer(
        where="environment",
        servers={
            "rube": ServerEntry(
                fields={
                    "url": "https://rube.example/mcp",
                    "headers": {"Authorization": "Bearer ${RUBE_API_KEY}"},
                    "call_timeout_s": 60.0,
                    "connect_timeout_s": 2.5,
                    "discovery_timeout_s": 0.5,
                },
                origin=Origin("environment RUBE_MCP_URL"),
                origins={
                    "url": Origin("environment RUBE_MCP_URL"),
                    "headers.Authorization": Origin("environment RUBE_API_KEY"),
                    "call_timeout": Origin("environment RUBE_MCP_TIMEOUT"),
                    "connect_timeout": Origin("environment RUBE_MCP_CONNECT_TIMEOUT"),
                    "discovery_timeout": Origin("environment RUBE_MCP_DISCOVERY_TIMEOUT"),
                },
                adjusts=True,
            )
        },
    )
    assert merge(layer).servers["rube"].url == "https://rube.example/mcp"


@pytest.mark.parametrize("word", ["false", "False", "0", "no", "off"])
def test_a_server_is_switched_off_by_a_variable(word):
    """Whether the environment declares it or a file does."""
    declared = merge(environment_layer({"RUBE_MCP_URL": "https://rube.example/mcp", "RUBE_MCP_ENABLED": word}))
    written = merge(FILE, environment_layer({"RUBE_MCP_ENABLED": word}, known=FILE.servers))

    assert declared.servers == {"rube": ServerConfig("rube", url="https://rube.example/mcp", enabled=False)}
    assert written.servers["rube"].enabled is False
    assert written.origins["servers.rube.enabled"] == Origin("environment RUBE_MCP_ENABLED")


def test_an_address_in_the_environment_takes_the_place_of_a_command_but_not_of_policies():
    """What a file forbids is not allowed by pointing the server elsewhere."""
    config = merge(FILE, environment_layer({"RUBE_MCP_URL": "https://rube.example/mcp"}, known=FILE.servers))

    assert config.servers == {
        "rube": ServerConfig("rube", url="https://rube.example/mcp", tools={"send": ToolConfig(policy="deny")})
    }
    assert config.origins["servers.rube.url"] == Origin("environment RUBE_MCP_URL")
    assert not config.origins.keys() & {"servers.rube.command", "servers.rube.env", "servers.rube.env.X"}


def test_unrelated_variables_mean_nothing():
    """Keys of other programs, half names, empty values, and variables of servers nobody declared."""
    env = {
        "OPENAI_API_KEY": "sk-1",
        "MCP_URL": "https://x",
        "_MCP_URL": "https://x",
        "TOOLCRIB_MCP_URL": "https://x",
        "my_MCP_URL": "https://x",
        "A__B_MCP_URL": "https://x",
        "EMPTY_MCP_URL": " ",
        "LOST_MCP_ENABLED": "perhaps",
        "LOST_MCP_TIMEOUT": "later",
        "X_MCP_URL_SUFFIX": "https://x",
        "TOOLCRIB_PORT": "tcp://10.0.0.1:80",
        "TOOLCRIB_HOST": "",
    }

    assert merge(environment_layer(env)) == Config()
    assert environment_layer(env) == Layer("environment")


def test_a_key_alone_is_not_sent_to_a_server_of_a_file():
    """``GITHUB_API_KEY`` may be for something else entirely; only the address in the environment brings it along."""
    file = parse_toml('[servers.github]\nurl = "https://x"', "toolcrib.toml")

    assert environment_layer({"GITHUB_API_KEY": "k"}, known=file.servers) == Layer("environment")


def test_what_looks_like_a_declaration_but_is_none_is_said_and_ignored():
    """Another program's variable must not keep toolcrib from starting."""
    env = {"DB_MCP_URL": "stdio://x", f"{'LONG' * 9}_MCP_URL": "https://x"}

    assert environment_layer(env) == Layer(
        "environment",
        problems=(
            "environment: DB_MCP_URL does not declare a server and was ignored.",
            f"environment: {'LONG' * 9}_MCP_URL does not declare a server and was ignored.",
        ),
    )


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("RUBE_MCP_ENABLED", "maybe", 'RUBE_MCP_ENABLED must be true or false, but is the string "maybe".'),
        ("RUBE_MCP_TIMEOUT", "0", 'RUBE_MCP_TIMEOUT must be a duration longer than zero, but is the string "0".'),
        ("TOOLCRIB_PORT", "x", 'TOOLCRIB_PORT must be a port number from 0 to 65535, but is the string "x".'),
    ],
)
def test_a_wrong_value_names_its_variable(variable, value, expected):
    """For a server that is known, a mistake is an error."""
    with pytest.raises(ConfigError) as caught:
        environment_layer({variable: value}, known=["rube"])

    assert str(caught.value) == f"environment: {expected}"


def test_settings_of_toolcrib_itself_are_read():
    """Host and port; which file to read is for whoever reads files."""
    env = {"TOOLCRIB_HOST": "0.0.0.0", "TOOLCRIB_PORT": " 9000 ", "TOOLCRIB_CONFIG": "/etc/toolcrib.toml"}

    assert environment_layer(env) == Layer(
        where="environment",
        settings={"serve.host": "0.0.0.0", "serve.port": 9000},
        origins={
            "serve.host": Origin("environment TOOLCRIB_HOST"),
            "serve.port": Origin("environment TOOLCRIB_PORT"),
        },
    )
    assert chosen_config(env) == "/etc/toolcrib.toml"
    assert chosen_config({"TOOLCRIB_CONFIG": ""}) is None
