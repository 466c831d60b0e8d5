import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.config.edit import add_server, change_server, remove_server, replace_server, set_enabled
from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.merge import merge
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.parse import parse_toml
from toolcrib.core.errors import ConfigError
from toolcrib.core.limits import Rate

TOML = """\
# what this project uses
native = ["my_tools"]

# the clock,
# local
[servers.time]
command = "uvx"  # not npx
args = [
  "mcp-server-time",
]

[servers.time.tools.now]
policy = "allow"

# the documentation
[servers.docs]
url = "https://docs.example/mcp"
"""

JSON = """\
{
  "theme": "dark",
  "mcpServers": {
    "My Time": {
      "command": "uvx",
      "note": "ü"
    },
    "docs": {
      "url": "https://docs.example/mcp"
    }
  }
}
"""

SERVER = ServerConfig(
    name="zwave",
    command="zwave",
    args=("--port", "/dev/tty"),
    env={"TOKEN": "${TOKEN}"},
    enabled=False,
    ttl_s=60.0,
    connect_timeout_s=0.5,
    relay=("roots",),
    tools={"set.device": ToolConfig(parameters={"device_name": "deviceName"}, policy="ask")},
)


def test_a_server_is_added_at_the_end_and_nothing_else_changes():
    """Only what differs from the defaults is written."""
    assert add_server(TOML, SERVER) == TOML + (
        """
[servers.zwave]
command = "zwave"
args = ["--port", "/dev/tty"]
env = {TOKEN = "${TOKEN}"}
enabled = false
ttl = 60
connect_timeout = 0.5
relay = ["roots"]

[servers.zwave.tools."set.device"]
parameters = {device_name = "deviceName"}
policy = "ask"
"""
    )


def test_the_first_server_makes_the_file():
    """From nothing to a file that can be read."""
    assert add_server("", ServerConfig("a", url="https://x/mcp")) == '[servers.a]\nurl = "https://x/mcp"\n'


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)

rates = st.none() | st.builds(Rate, st.integers(1, 1000), st.sampled_from([0.25, 1.0, 90.0, 3600.0]))


@settings(deadline=None)
@given(
    st.builds(
        ServerConfig,
        name=st.just("new"),
        command=texts.filter(str.strip),
        args=st.lists(texts).map(tuple),
        env=st.dictionaries(texts, texts, max_size=3),
        enabled=st.booleans(),
        ttl_s=st.floats(0, 1e6),
        call_timeout_s=st.floats(0.001, 1e6),
        description=texts,
        rate=rates,
        parallel=st.none() | st.integers(1, 100),
        tools=st.dictionaries(
            texts,
            st.builds(ToolConfig, enabled=st.booleans(), parameters=st.dictionaries(texts, texts), rate=rates),
            max_size=2,
        ),
    )
)
def test_what_is_added_is_what_is_read(server):
    """Whatever characters a server's settings contain."""
    assert merge(parse_toml(add_server(TOML, server), "toolcrib.toml")).servers["new"] == server


def test_a_server_is_removed_with_its_tools_and_the_comment_above_it():
    """The neighbours keep theirs."""
    assert remove_server(TOML, "time") == (
        """\
# what this project uses
native = ["my_tools"]

# the documentation
[servers.docs]
url = "https://docs.example/mcp"
"""
    )


def test_a_server_that_was_added_and_removed_leaves_no_trace():
    """But for the empty line before it."""
    assert remove_server(add_server(TOML, SERVER), "zwave").rstrip() == TOML.rstrip()


def test_a_server_is_switched_off_and_on_in_place():
    """Comments, order and layout stay."""
    off = set_enabled(TOML, "docs", False)

    assert off == TOML + "enabled = false\n"
    assert set_enabled(off, "docs", True) == TOML + "enabled = true\n"
    assert set_enabled(TOML, "time", False) == TOML.replace(
        "]\n\n[servers.time.t", "]\nenabled = false\n\n[servers.time.t"
    )


def test_json_of_other_programs_is_edited_under_their_names():
    """``my_time`` is found as ``My Time``; everything else in the file is kept."""
    assert set_enabled(JSON, "my_time", False, "mcp.json") == JSON.replace('"ü"', '"ü",\n      "disabled": true')
    assert set_enabled(set_enabled(JSON, "my_time", False, "mcp.json"), "my_time", True, "mcp.json") == JSON
    assert remove_server(JSON, "my_time", "mcp.json") == (
        """\
{
  "theme": "dark",
  "mcpServers": {
    "docs": {
      "url": "https://docs.example/mcp"
    }
  }
}
"""
    )


def test_a_server_is_added_to_json():
    """In the words other programs understand."""
    server = ServerConfig("a", url="https://x/mcp", headers={"K": "${K}"}, enabled=False, call_timeout_s=90.0)

    text = add_server("", server, "mcp.json")

    assert text == (
        """\
{
  "mcpServers": {
    "a": {
      "type": "http",
      "url": "https://x/mcp",
      "headers": {
        "K": "${K}"
      },
      "timeout": 90000,
      "disabled": true
    }
  }
}
"""
    )
    assert merge(parse_mcp_servers(text, "mcp.json")).servers == {"a": server}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda: add_server(TOML, ServerConfig("time", command="x")),
         "toolcrib.toml: There is already a server 'time'. Remove it first: toolcrib servers rm time."),
        (lambda: remove_server(TOML, "tim"), "toolcrib.toml: There is no server 'tim'. Did you mean 'time'?"),
        (lambda: set_enabled("", "time", True), "toolcrib.toml: There is no server 'time'."),
        (lambda: set_enabled('{"mcpServers": {"a": {"command": "x"}}} // note', "a", True, "mcp.json"),
         "mcp.json: This file has comments, which an edit would lose. Edit it by hand."),
        (lambda: add_server("{}", SERVER, "mcp.json"),
         'mcp.json: There are no mcpServers in this file. Expected {"mcpServers": {"name": {"command": "…"}}}.'),
        (lambda: add_server(JSON, SERVER, "mcp.json"),
         "mcp.json: An mcpServers file has no place for ttl_s. Put the server into a toolcrib.toml."),
        (lambda: add_server('servers = {a = {command = "x"}}', SERVER),
         "toolcrib.toml: This file is written in a way that cannot be edited. Edit it by hand."),
        (lambda: remove_server('servers.a.command = "x"', "a"),
         "toolcrib.toml: This file is written in a way that cannot be edited. Edit it by hand."),
    ],
)  # fmt: skip
def test_an_edit_that_cannot_be_made_says_why(edit, expected):
    """Nothing is written that could not be read, and nothing a person wrote is lost."""
    with pytest.raises(ConfigError) as caught:
        edit()

    assert str(caught.value) == expected


CHANGED = """\
# what this project uses
native = ["my_tools"]

# the clock,
# local
[servers.time]
command = "uvx"  # not npx
args = ["other"]
call_timeout = 5

[servers.time.tools.now]
policy = "allow"

# the documentation
[servers.docs]
url = "https://docs.example/mcp"
headers = {X-Region = "north"}
"""


def test_a_change_keeps_comments_and_position():
    """Only the keys that are named change."""
    text = change_server(TOML, "time", {"args": ["other"], "call_timeout": 5.0})

    assert change_server(text, "docs", {"headers": {"X-Region": "north", "X-None": None}}) == CHANGED


def test_a_key_can_be_taken_out_and_an_entry_of_env_too():
    """``None`` stands for nothing; entries that are not named stay."""
    text = '[servers.a]\ncommand = "x"\ncwd = "/tmp"\n[servers.a.env]\nA = "1"\nB = "2"  # two\n'

    changed = change_server(text, "a", {"cwd": None, "env": {"A": None, "C": "3"}})

    assert changed == '[servers.a]\ncommand = "x"\n[servers.a.env]\nB = "2"  # two\nC = "3"\n'


@pytest.mark.parametrize(("text", "where"), [(TOML, "toolcrib.toml"), (JSON, "mcp.json")])
def test_a_server_that_changes_its_kind_loses_what_went_with_the_other(text: str, where: str):
    """A command becomes an address, in either kind of file."""
    name = "time" if where.endswith("toml") else "my_time"
    changed = change_server(text, name, {"url": "https://time.example/mcp", "headers": {"A": "b"}}, where)

    parsed = merge(parse_toml(changed, where) if where.endswith("toml") else parse_mcp_servers(changed, where))
    server = parsed.servers[name]
    assert (server.url, server.command, dict(server.headers)) == ("https://time.example/mcp", None, {"A": "b"})


def test_a_change_of_an_mcp_servers_file_is_written_in_its_words():
    """Timeouts in milliseconds, ``disabled`` for what is not enabled; foreign keys stay."""
    changed = change_server(JSON, "my_time", {"call_timeout": 2.5, "enabled": False}, "mcp.json")

    assert '"note": "ü"' in changed
    server = merge(parse_mcp_servers(changed, "mcp.json")).servers["my_time"]
    assert (server.call_timeout_s, server.enabled) == (2.5, False)
    with pytest.raises(ConfigError, match="no place for policy"):
        change_server(JSON, "docs", {"policy": "ask"}, "mcp.json")


def test_a_change_that_cannot_be_used_is_refused_in_the_words_of_the_parser():
    """With the key, what is expected and what was given."""
    with pytest.raises(ConfigError, match=r"servers\.time\.rate must be a rate"):
        change_server(TOML, "time", {"rate": "often"})
    with pytest.raises(ConfigError, match="There is no server 'tim'"):
        change_server(TOML, "tim", {"rate": "1/s"})


def test_a_server_is_replaced_in_place():
    """Its comments stay, keys that are no longer wanted go, its neighbours do not move."""
    server = ServerConfig("time", command="npx", tools={"now": ToolConfig(policy="disable")}, enabled=False)

    edited = replace_server(TOML, server)

    assert merge(parse_toml(edited, "toolcrib.toml")).servers["time"] == server
    assert edited.startswith('# what this project uses\nnative = ["my_tools"]\n\n# the clock,\n# local\n')
    assert edited.endswith('# the documentation\n[servers.docs]\nurl = "https://docs.example/mcp"\n')


@settings(deadline=None)
@given(
    st.builds(
        ServerConfig,
        name=st.just("time"),
        command=texts.filter(str.strip),
        args=st.lists(texts).map(tuple),
        env=st.dictionaries(texts, texts, max_size=3),
        enabled=st.booleans(),
        policy=st.sampled_from([None, "disable"]),
        tools=st.dictionaries(texts, st.builds(ToolConfig, policy=st.sampled_from(["allow", "disable"])), max_size=2),
    )
)
def test_what_replaces_a_server_is_what_is_read(server):
    """Whatever it was before; the other servers are untouched."""
    servers = merge(parse_toml(replace_server(TOML, server), "toolcrib.toml")).servers

    assert servers["time"] == server
    assert servers["docs"] == ServerConfig("docs", url="https://docs.example/mcp")


def test_a_server_that_loses_its_tools_does_not_take_a_neighbours_comment_along():
    """The comment above the next table stays with it."""
    edited = replace_server(TOML, ServerConfig("time", command="npx"))

    assert '# the documentation\n[servers.docs]\nurl = "https://docs.example/mcp"\n' in edited
    assert merge(parse_toml(edited, "toolcrib.toml")).servers["time"] == ServerConfig("time", command="npx")


def test_a_server_that_changes_its_kind_loses_all_that_went_with_the_other():
    """Grants and limits of a program mean nothing for an address, and would be refused beside one."""
    text = '[servers.a]\ncommand = "x"\nisolation = "confined"\nread = ["/a"]\nmemory = "2GB"\nrate = "1/s"\n'

    edited = change_server(text, "a", {"url": "https://a.example/mcp"})

    assert edited == '[servers.a]\nrate = "1/s"\nurl = "https://a.example/mcp"\n'
