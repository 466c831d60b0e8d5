import json

import msgspec

from toolcrib.config.environment import environment_layer
from toolcrib.config.explain import Explained, explain
from toolcrib.config.merge import merge
from toolcrib.config.parse import flags_layer, parse_toml
from toolcrib.config.tables import SETTINGS

TEXT = """\
native = ["my_tools"]

[servers.docs]
url = "https://docs.example/mcp"
headers = { Authorization = "Bearer abc", X-Key = "${KEY}" }
relay = ["roots"]
[servers.docs.tools."kb.find"]
policy = "ask"
"""


def test_every_setting_is_shown_with_its_value_and_where_it_came_from():
    """File and line, environment, flag or default; secrets masked."""
    layers = (
        parse_toml(TEXT, "toolcrib.toml"),
        environment_layer({"TOOLCRIB_HOST": "0.0.0.0", "DOCS_MCP_ENABLED": "off"}, known=["docs"]),
        flags_layer({"serve.port": 9000}),
    )

    told = explain(merge(*layers))

    assert {line.setting for line in told} >= set(SETTINGS)
    wanted = [
        Explained("connect.attempts", 3, "default"),
        Explained("calls.timeout", 30.0, "default"),
        Explained("calls.slow", 1.0, "default"),
        Explained("catalog.grace", 5.0, "default"),
        Explained("catalog.capacity", 10_000, "default"),
        Explained("limits.caller_rate", None, "default"),
        Explained("limits.parallel", 50, "default"),
        Explained("limits.queue", 1000, "default"),
        Explained("results.limit", 262144, "default"),
        Explained("results.keep", 3600.0, "default"),
        Explained("results.space", 256000000, "default"),
        Explained("serve.host", "0.0.0.0", "environment TOOLCRIB_HOST"),
        Explained("serve.port", 9000, "flag"),
        Explained("serve.auth", "auto", "default"),
        Explained("access.level", "system", "default"),
        Explained("auth.issuer", "", "default"),
        Explained("auth.audience", "", "default"),
        Explained("auth.jwks", "", "default"),
        Explained("auth.max_age", 86400.0, "default"),
        Explained("auth.leeway", 30.0, "default"),
        Explained("audit.enabled", False, "default"),
        Explained("audit.path", "", "default"),
        Explained("audit.values", False, "default"),
        Explained("telemetry.traces", False, "default"),
        Explained("isolation.level", "limits", "default"),
        Explained("servers.docs.url", "https://docs.example/mcp", "toolcrib.toml:4"),
        Explained("servers.docs.headers.Authorization", "***", "toolcrib.toml:5"),
        Explained("servers.docs.enabled", False, "environment DOCS_MCP_ENABLED"),
        Explained("servers.docs.ttl", 300.0, "default"),
        Explained("servers.docs.discovery_timeout", 30.0, "default"),
        Explained("servers.docs.connect_timeout", 5.0, "default"),
        Explained("servers.docs.call_timeout", 30.0, "default"),
        Explained("servers.docs.idle_timeout", 600.0, "default"),
        Explained('servers.docs.tools."kb.find".enabled', True, "default"),
        Explained('servers.docs.tools."kb.find".policy', "ask", "toolcrib.toml:8"),
    ]
    assert [line for line in wanted if line not in told] == []


def test_the_explanation_is_json():
    """``config show --origin --json`` prints it as it is."""
    lines = [msgspec.to_builtins(line) for line in explain(merge(parse_toml(TEXT, "toolcrib.toml")))]

    assert json.loads(json.dumps(lines)) == [line | {"overrules": list(line["overrules"])} for line in lines]


def test_a_rule_says_what_it_overrules_and_what_does_not_count_says_why():
    """A pattern of the user's file is not loosened by a name in the project's, nor by the same pattern there."""
    user = parse_toml('[security]\npins = "strict"\n[security.policies]\n"x__*" = "deny"', "user.toml")
    project = parse_toml(
        '[security]\npins = "off"\n[security.policies]\n"x__*" = "allow"\nx__echo = "ask"', "project.toml"
    )

    told = {line.setting: line for line in explain(merge(user, project))}

    assert told["security.pins"] == Explained("security.pins", "strict", "user.toml:2", ["off (project.toml:2)"])
    pattern, name = 'security.policies."x__*"', "security.policies.x__echo"
    assert told[pattern] == Explained(pattern, "deny", "user.toml:4", ["allow (project.toml:4)"])
    assert told[name] == Explained(name, "ask", "project.toml:5", [], "deny (user.toml)")


def test_a_timeout_for_all_servers_is_shown_where_it_was_written():
    """A server's default may itself have been written somewhere."""
    config = merge(parse_toml('[calls]\ntimeout = 5\n[servers.a]\ncommand = "x"', "toolcrib.toml"))

    assert Explained("servers.a.call_timeout", 5.0, "toolcrib.toml:2") in explain(config)


def test_limits_are_shown_as_they_are_written():
    """A server's own, and the one it takes over from all."""
    text = (
        '[limits]\nparallel = 5\ncaller_rate = "60/1m"\n[servers.a]\ncommand = "x"\nrate = "2/s"\ntools.t.rate = "9/1h"'
    )
    lines = explain(merge(parse_toml(text, "f.toml")))

    assert [line for line in lines if "rate" in line.setting or "parallel" in line.setting] == [
        Explained("limits.caller_rate", "60/1m", "f.toml:3"),
        Explained("limits.parallel", 5, "f.toml:2"),
        Explained("servers.a.rate", "2/1s", "f.toml:6"),
        Explained("servers.a.parallel", 5, "f.toml:2"),
        Explained("servers.a.tools.t.rate", "9/1h", "f.toml:7"),
    ]


def test_no_setting_is_forgotten():
    """What can be written is shown."""
    assert {line.setting for line in explain(merge())} == set(SETTINGS)
