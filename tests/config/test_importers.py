import pytest

from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.merge import merge
from toolcrib.config.model import Layer, Origin, ServerConfig, ServerEntry
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import Transport

CLAUDE = """\
{
  "mcpServers": {
    "My Files": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"],
      "env": {"TOKEN": "${TOKEN}"}
    }
  },
  "theme": "dark"
}
"""


def servers(text: str) -> dict[str, ServerConfig]:
    return dict(merge(parse_mcp_servers(text, "mcp.json")).servers)


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_mcp_servers(text, "mcp.json")
    return str(caught.value)


def test_servers_of_another_program_are_read_under_names_of_our_own():
    """``My Files`` becomes ``my_files``; every value keeps its line."""
    assert parse_mcp_servers(CLAUDE, "mcp.json") == Layer(
        where="mcp.json",
        servers={
            "my_files": ServerEntry(
                fields={
                    "command": "npx",
                    "args": ("-y", "@modelcontextprotocol/server-filesystem", "/srv"),
                    "env": {"TOKEN": "${TOKEN}"},
                },
                origin=Origin("mcp.json", 3),
                origins={
                    "command": Origin("mcp.json", 4),
                    "args": Origin("mcp.json", 5),
                    "env": Origin("mcp.json", 6),
                    "env.TOKEN": Origin("mcp.json", 6),
                },
            )
        },
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"a": {"command": "x"}}}',
        '{"servers": {"a": {"type": "stdio", "command": "x"}}, "inputs": []}',
        '{"editor.fontSize": 12, "mcp": {"servers": {"a": {"command": "x"}}}}',
    ],
)
def test_each_place_where_programs_put_their_servers_is_known(text):
    """Claude, Cursor and most others; VS Code's own file; VS Code's settings."""
    assert servers(text) == {"a": ServerConfig("a", command="x")}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('{"url": "https://x/mcp", "type": "http"}', ServerConfig("a", url="https://x/mcp")),
        ('{"url": "https://x/mcp", "type": "streamableHttp"}', ServerConfig("a", url="https://x/mcp")),
        ('{"url": "https://x/mcp", "transport": "streamable_http"}', ServerConfig("a", url="https://x/mcp")),
        ('{"serverUrl": "https://x/mcp"}', ServerConfig("a", url="https://x/mcp")),
        ('{"httpUrl": "https://x/mcp", "headers": {"K": "v"}}',
         ServerConfig("a", url="https://x/mcp", headers={"K": "v"})),
        ('{"command": "x", "type": "local", "tools": ["*"]}', ServerConfig("a", command="x")),
        ('{"command": "x", "disabled": true}', ServerConfig("a", command="x", enabled=False)),
        ('{"command": "x", "disabled": false}', ServerConfig("a", command="x")),
        ('{"command": "x", "enabled": false}', ServerConfig("a", command="x", enabled=False)),
        ('{"command": "x", "timeout": 60000}', ServerConfig("a", command="x", call_timeout_s=60.0)),
        ('{"command": "x", "timeout": 60}', ServerConfig("a", command="x", call_timeout_s=60.0)),
        ('{"command": "x", "alwaysAllow": ["y"], "autoApprove": true, "gallery": 1}', ServerConfig("a", command="x")),
        ('{"command": "x", "url": null, "headers": {}, "cwd": "/y"}', ServerConfig("a", command="x", cwd="/y")),
        ('{"url": "https://x/sse", "type": "sse", "disabled": true}',
         ServerConfig("a", url="https://x/sse", transport=Transport.SSE, enabled=False)),
        ('{"url": "https://x/sse", "transport": "sse"}',
         ServerConfig("a", url="https://x/sse", transport=Transport.SSE)),
    ],
)  # fmt: skip
def test_the_ways_programs_write_a_server_mean_the_same(entry, expected):
    """Keys that toolcrib does not know belong to the other program and are left alone."""
    assert servers(f'{{"mcpServers": {{"a": {entry}}}}}') == {"a": expected}


def test_a_server_that_is_reached_in_an_unknown_way_costs_only_itself():
    """Its neighbours are read, and it is said why it is not there."""
    text = '{"mcpServers": {\n"odd": {"url": "https://x/ws",\n"type": "websocket"},\n"good": {"command": "x"}}}'
    layer = parse_mcp_servers(text, "mcp.json")

    assert list(layer.servers) == ["good"]
    assert layer.problems == (
        'mcp.json:3: Server \'odd\' was left out: its type must be one of "stdio", "http", "sse", '
        'but is the string "websocket".',
    )


def test_what_has_an_effect_elsewhere_but_not_here_is_said():
    """A server that needs its ``envFile`` would otherwise fail without a reason."""
    layer = parse_mcp_servers('{"servers": {\n"a": {"command": "x",\n"envFile": ".env"}}}', "mcp.json")

    assert layer.problems == ("mcp.json:3: envFile of server 'a' is not read by toolcrib.",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", 'mcp.json: There are no mcpServers in this file. Expected {"mcpServers": {"name": {"command": "…"}}}.'),
        ("[]", 'mcp.json: There are no mcpServers in this file. Expected {"mcpServers": {"name": {"command": "…"}}}.'),
        ('{"mcpServers": [1]}', "mcp.json:1: mcpServers must be a table, but is a list."),
        ('{"mcpServers": {\n"a": "x"}}', 'mcp.json:2: mcpServers.a must be a table, but is the string "x".'),
        ('{"mcpServers": {"a": {\n"args": []}}}', "mcp.json:1: Server 'a' has neither a command nor a url."),
        ('{"mcpServers": {"a": {"command": "x",\n"url": "https://x"}}}',
         "mcp.json:2: Server 'a' has both a command and a url. Keep one of them."),
        ('{"mcpServers": {"a": {"command": "x",\n"args": "y"}}}',
         'mcp.json:2: mcpServers.a.args must be a list of strings, but is the string "y".'),
        ('{"mcpServers": {"a": {"command": "x",\n"timeout": "1"}}}',
         'mcp.json:2: mcpServers.a.timeout must be a number of milliseconds or seconds, but is the string "1".'),
        ('{"mcpServers": {"a": {"command": "x",\n"type": "sse"}}}',
         "mcp.json:2: Server 'a' is of type 'sse' but has no url."),
    ],
)  # fmt: skip
def test_what_toolcrib_uses_is_read_strictly(text, expected):
    """A mistake in a known key is an error here as everywhere."""
    assert complaint(text) == expected


def test_two_servers_of_one_name_are_an_error_that_names_both_places():
    """Written twice, or different only in a way that names here do not show."""
    twice = '{"mcpServers": {\n"a": {"command": "x"},\n"a": {"command": "y"}}}'
    alike = '{"mcpServers": {\n"my-server": {"command": "x"},\n"MyServer": {"command": "y"}}}'

    assert complaint(twice) == "mcp.json:3: mcpServers.a is written twice, on lines 2 and 3. Keep one of them."
    assert complaint(alike) == (
        "mcp.json:3: 'my-server' (line 2) and 'MyServer' would both be called 'my_server'. Rename one of them."
    )


def test_repetitions_elsewhere_in_the_file_are_the_other_programs_business():
    """Only the servers are ours."""
    assert servers('{"x": 1, "x": 2, "mcpServers": {"a": {"command": "y"}}}') == {"a": ServerConfig("a", command="y")}


def test_toolcrib_itself_in_such_a_file_is_left_out():
    """A connected client's file would otherwise make toolcrib start itself without end."""
    layer = parse_mcp_servers(
        '{"mcpServers": {\n"toolcrib": {"command": "toolcrib", "args": ["stdio"]}, "a": {"command": "x"}}}', "mcp.json"
    )

    assert list(layer.servers) == ["a"]
    assert layer.problems == ("mcp.json:2: 'toolcrib' is toolcrib itself and was left out.",)
