import pytest

from toolcrib.config.merge import merge
from toolcrib.config.model import Config, ConnectConfig, Layer, Origin, ServerConfig, ServerEntry, ToolConfig
from toolcrib.config.parse import flags_layer, parse, parse_toml
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import Transport
from toolcrib.core.limits import CommonLimits, Rate

EVERYTHING = """\
native = ["my_tools", "my_tools.extra:greet"]

[connect]
attempts = 5
delays = [0, "500ms", 2.5]

[calls]
timeout = "1m"
slow = "2s"

[catalog]
grace = 1
capacity = 500

[limits]
caller_rate = "600/1m"
parallel = 20
queue = 0

[serve]
host = "0.0.0.0"
port = 9000

[servers.zwave]
type = "stdio"
command = "~/bin/zwave"
args = ["--home", "${HOME}"]
env = { TOKEN = "${ZWAVE_TOKEN}" }
cwd = "~/zwave"
enabled = false
ttl = "5m"
discovery_timeout = "1h"
connect_timeout = 0.5
call_timeout = "2 s"
idle_timeout = 0
description = "Lights"
relay = ["elicitation", "roots"]
rate = "10/s"
parallel = 5

[servers.zwave.tools.control_zwave_device]
parameters = { device_name = "deviceName", command = "action" }
timeout = 3
replayable = true
policy = "ask"
rate = "3 / 500 ms"

[servers.zwave.tools."reset.all"]
enabled = false
policy = "disable"

[servers.docs]
type = "streamable-http"
url = "https://docs.example/mcp"
headers = { Authorization = "Bearer ${DOCS_KEY}" }
"""


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        merge(parse_toml(text, "toolcrib.toml"))
    return str(caught.value)


def test_everything_that_can_be_written_is_read():
    """One file with every key there is."""
    assert merge(parse_toml(EVERYTHING, "toolcrib.toml")) == Config(
        servers={
            "docs": ServerConfig(
                name="docs",
                url="https://docs.example/mcp",
                transport=Transport.HTTP,
                headers={"Authorization": "Bearer ${DOCS_KEY}"},
                call_timeout_s=60.0,
                parallel=20,
            ),
            "zwave": ServerConfig(
                name="zwave",
                command="~/bin/zwave",
                args=("--home", "${HOME}"),
                env={"TOKEN": "${ZWAVE_TOKEN}"},
                cwd="~/zwave",
                enabled=False,
                ttl_s=300.0,
                discovery_timeout_s=3600.0,
                connect_timeout_s=0.5,
                call_timeout_s=2.0,
                idle_timeout_s=0.0,
                description="Lights",
                relay=("elicitation", "roots"),
                rate=Rate(10, 1.0),
                parallel=5,
                tools={
                    "control_zwave_device": ToolConfig(
                        parameters={"device_name": "deviceName", "command": "action"},
                        timeout_s=3.0,
                        replayable=True,
                        policy="ask",
                        rate=Rate(3, 0.5),
                    ),
                    "reset.all": ToolConfig(enabled=False, policy="disable"),
                },
            ),
        },
        connect=ConnectConfig(attempts=5, delays_s=(0.0, 0.5, 2.5)),
        limits=CommonLimits(Rate(600, 60.0), parallel=20, queue=0),
        list_grace_s=1.0,
        capacity=500,
        slow_call_s=2.0,
        call_timeout_s=60.0,
        native=("my_tools", "my_tools.extra:greet"),
        host="0.0.0.0",
        port=9000,
    )


def test_a_layer_holds_what_was_written_and_where():
    """Nothing is filled in yet, so that another layer can be laid over it."""
    text = '[serve]\nport = 1\n\n[servers.a]\ncommand = "x"\nenv = {K = "v"}\n'

    assert parse_toml(text, "f.toml") == Layer(
        where="f.toml",
        settings={"serve.port": 1},
        servers={
            "a": ServerEntry(
                fields={"command": "x", "env": {"K": "v"}},
                origin=Origin("f.toml", 4),
                origins={
                    "command": Origin("f.toml", 5),
                    "env": Origin("f.toml", 6),
                    "env.K": Origin("f.toml", 6),
                },
            )
        },
        origins={"serve.port": Origin("f.toml", 2)},
    )


def test_an_empty_file_is_the_defaults():
    """A configuration can be empty."""
    assert merge(parse_toml("", "toolcrib.toml")) == Config()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'nativ = ["a"]',
            "toolcrib.toml:1: Unknown key 'nativ'. Did you mean 'native'?",
        ),
        (
            '[servers.a]\ncommand = "x"\ncomand = "y"\n',
            "toolcrib.toml:3: Unknown key 'comand' in [servers.a]. Did you mean 'command'?",
        ),
        (
            "\n[serve]\nzzz = 1\n",
            "toolcrib.toml:3: Unknown key 'zzz' in [serve]."
            " Known keys: host, port, public_url, auth, oauth, oauth_level, edit_commands, replica, drain, linger.",
        ),
        (
            '[servers.a]\ncommand = "x"\n[servers.a.tools."kb.x"]\npolcy = "ask"\n',
            "toolcrib.toml:4: Unknown key 'polcy' in [servers.a.tools.\"kb.x\"]. Did you mean 'policy'?",
        ),
    ],
)
def test_an_unknown_key_is_shown_with_its_line_and_the_nearest_known_one(text, expected):
    """A typo is never silently without effect."""
    assert complaint(text) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('args = "x"', 'servers.a.args must be a list of strings, but is the string "x".'),
        ('args = ["x", 2]', "servers.a.args.1 must be a string, but is the number 2."),
        ("command = 5", "servers.a.command must be a string that is not empty, but is the number 5."),
        ('enabled = "no"', 'servers.a.enabled must be true or false, but is the string "no".'),
        ("env = { PORT = 8080 }", "servers.a.env.PORT must be a string, but is a number."),
        ('env = "SECRET=x"', "servers.a.env must be a table of strings, but is a string."),
        ("ttl = -1", 'servers.a.ttl must be seconds as a number, or a duration such as "5m", "30s" or "500ms",'
         " but is the number -1."),
        ("ttl = nan", 'servers.a.ttl must be seconds as a number, or a duration such as "5m", "30s" or "500ms",'
         " but is the number nan."),
        ('call_timeout = "soon"',
         'servers.a.call_timeout must be seconds as a number, or a duration such as "5m", "30s"'
         ' or "500ms", but is the string "soon".'),
        ("call_timeout = 0", "servers.a.call_timeout must be a duration longer than zero, but is the number 0."),
        ('relay = ["logs"]', 'servers.a.relay.0 must be one of "elicitation", "sampling", "roots",'
         ' but is the string "logs".'),
        ("tools.x.policy = true", 'servers.a.tools.x.policy must be one of "allow", "ask", "deny", "disable",'
         " but is true."),
        ('rate = "10"', 'servers.a.rate must be a rate such as "10/s", "600/1m" or "100/1h", but is the string "10".'),
        ("rate = 10", 'servers.a.rate must be a rate such as "10/s", "600/1m" or "100/1h", but is the number 10.'),
        ('tools.x.rate = "-1/s"', 'servers.a.tools.x.rate must be a rate such as "10/s", "600/1m" or "100/1h",'
         ' but is the string "-1/s".'),
        ('rate = "0/s"', "servers.a.rate must be a rate of 1 to 100000 calls in a time longer than zero,"
         ' but is the string "0/s".'),
        ('rate = "5/0s"', "servers.a.rate must be a rate of 1 to 100000 calls in a time longer than zero,"
         ' but is the string "5/0s".'),
        ('rate = "100001/1d"', "servers.a.rate must be a rate of 1 to 100000 calls in a time longer than zero,"
         ' but is the string "100001/1d".'),
        ("parallel = 0", "servers.a.parallel must be a whole number from 1, but is the number 0."),
        ("tools.x = []", "servers.a.tools.x must be a table, but is a list."),
        ("description = 1979-05-27", "servers.a.description must be a string, but is a date or time."),
    ],
)  # fmt: skip
def test_a_wrong_value_is_shown_with_what_was_expected(line, expected):
    """The message has the line, what should be there and what is; values under ``env`` are not repeated."""
    first = "" if line.startswith("command") else 'command = "x"\n'
    text = f"[servers.a]\n{first}{line}\n"

    assert complaint(text) == f"toolcrib.toml:{text.count(chr(10))}: {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("servers = 3", "toolcrib.toml:1: servers must be a table, but is the number 3."),
        ("[servers]\na = 3", "toolcrib.toml:2: servers.a must be a table, but is the number 3."),
        ("[connect]\nattempts = 0",
         "toolcrib.toml:2: connect.attempts must be a whole number from 1, but is the number 0."),
        ("[serve]\nport = 70000",
         "toolcrib.toml:2: serve.port must be a port number from 0 to 65535, but is the number 70000."),
        ("[limits]\nqueue = -1",
         "toolcrib.toml:2: limits.queue must be a whole number from 0, but is the number -1."),
        ("[serve]\nport = true", "toolcrib.toml:2: serve.port must be a port number from 0 to 65535, but is true."),
        ('native = ["a b"]', 'toolcrib.toml:1: native.0 must be an import path such as "package.module" or'
         ' "package.module:function", but is the string "a b".'),
        ('[servers.a]\nurl = "ftp://x"', "toolcrib.toml:2: servers.a.url must be an address that begins with http:// or"
         ' https://, but is the string "ftp://x".'),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_shown_the_same_way(text, expected):
    """Tables of the file and settings of the program follow the same rule."""
    assert complaint(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[servers.a]\ncommand = "x"\nurl = "https://x"\n',
            "toolcrib.toml:3: Server 'a' has both a command and a url. Keep one of them.",
        ),
        (
            "\n[servers.a]\nenabled = true\n",
            "toolcrib.toml:2: Server 'a' has neither a command nor a url. "
            'Write command = "…" for a program to start, or url = "https://…" for a server to reach.',
        ),
        (
            '[servers.a]\ntype = "sse"\ncommand = "x"\n',
            "toolcrib.toml:2: Server 'a' is of type 'sse' but has no url.",
        ),
        (
            '[servers.a]\ntype = "ws"\nurl = "https://x"\n',
            'toolcrib.toml:2: servers.a.type must be one of "stdio", "http", "sse", but is the string "ws".',
        ),
        (
            '[servers.a]\ntype = "http"\ncommand = "x"\n',
            "toolcrib.toml:2: Server 'a' is of type 'http' but has no url.",
        ),
        (
            '[servers.a]\nurl = "https://x"\nargs = ["y"]\n',
            "toolcrib.toml:3: servers.a.args goes with a command, not with a url.",
        ),
    ],
)
def test_a_server_is_a_command_or_an_address(text, expected):
    """Exactly one of the two, and nothing that belongs to the other."""
    assert complaint(text) == expected


def test_a_name_that_cannot_be_used_comes_with_one_that_can():
    """Names in toolcrib's own file are not changed behind the user's back."""
    assert complaint('\n[servers."My Server"]\ncommand = "x"') == (
        "toolcrib.toml:2: 'My Server' cannot name a server. Use snake_case: letters, digits and single underscores, "
        "at most 32 characters, for example 'my_server'."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[servers.a]\ncommand = "x"\n\n[servers.a]\ncommand = "y"\n',
            "toolcrib.toml:4: This is not TOML: servers.a is written twice, on lines 1 and 4.",
        ),
        (
            '[servers.a]\ncommand = "x"\ncommand = "y"\n',
            "toolcrib.toml:3: This is not TOML: servers.a.command is written twice, on lines 2 and 3.",
        ),
        ("[servers.a]\ncommand = \n", "toolcrib.toml:2: This is not TOML: Invalid value."),
        ("a = [\n1\n", "toolcrib.toml:3: This is not TOML: Unclosed array."),
    ],
)
def test_a_syntax_error_has_its_line_and_a_repetition_both(text, expected):
    """What the TOML reader complains about is put where an editor can jump to."""
    assert complaint(text) == f"{expected} Correct the line, or put a good copy of the file in its place."


def test_the_kind_of_file_is_told_by_its_name():
    """toolcrib.toml is TOML, everything else another program's JSON."""
    entry = parse("[servers.a]\ncommand = 'x'", "x/toolcrib.toml").servers["a"]
    foreign = parse('{"mcpServers": {"a": {"command": "x"}}}', "x/.mcp.json").servers["a"]

    assert entry.fields == foreign.fields == {"command": "x"}


def test_flags_are_settings_like_those_in_the_file():
    """They are checked the same way, and named by their name in the file."""
    assert flags_layer({"serve.port": 0, "calls.timeout": "2m"}) == Layer(
        where="flag",
        settings={"serve.port": 0, "calls.timeout": 120.0},
        origins={"serve.port": Origin("flag"), "calls.timeout": Origin("flag")},
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"serve.port": -1}, "flag: serve.port must be a port number from 0 to 65535, but is the number -1."),
        ({"serve.prt": 1}, "flag: Unknown key 'serve.prt'. Did you mean 'serve.port', 'serve.host', 'serve.auth'?"),
    ],
)
def test_a_wrong_flag_is_an_error_like_a_wrong_line(flags, expected):
    """Said to come from a flag."""
    with pytest.raises(ConfigError) as caught:
        flags_layer(flags)

    assert str(caught.value) == expected
