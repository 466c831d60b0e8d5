"""Rules: of each the strictest value counts, and every key of the configuration is decided to be one or not."""

import pytest

from toolcrib.config.merge import MergedOrigins, RuleSetting
from toolcrib.config.model import Layer, Origin, Overruled, ServerConfig, ServerEntry, ToolConfig
from toolcrib.config.rules import (
    SERVER_RULES,
    SETTING_RULES,
    TOOL_RULES,
    PlaceRules,
    as_place,
    default_rules,
    is_stricter_policy,
    level_said,
    only_rules,
    policy_said,
    rules_of_places,
    stricter_setting,
)
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.limits import Rate
from toolcrib.core.offers import SecurityLevel

READ_ONLY, WRITE, ADMIN, SYSTEM = SecurityLevel

STRICTER = {
    "security.policy": [("allow", "ask", "ask"), ("ask", "deny", "deny"), ("deny", "disable", "disable")],
    "security.policies": [
        ({"a": "allow", "b": "deny"}, {"a": "ask", "c": "ask"}, {"a": "ask", "b": "deny", "c": "ask"})
    ],
    "security.levels": [({"a": READ_ONLY}, {"a": ADMIN}, {"a": ADMIN})],
    "security.pins": [("off", "first", "first"), ("first", "strict", "strict")],
    "security.ask_timeout": [(120.0, 5.0, 5.0)],
    "serve.auth": [("none", "auto", "auto"), ("auto", "required", "required")],
    "serve.oauth": [("builtin", "off", "off")],
    "serve.oauth_level": [(ADMIN, WRITE, WRITE)],
    "serve.edit_commands": [(True, False, False)],
    "access.level": [(SYSTEM, WRITE, WRITE), (READ_ONLY, ADMIN, READ_ONLY)],
    "access.servers": [
        (("*",), ("git*",), ("git*",)),
        (("github", "files"), ("git*",), ("github",)),
        (("a*",), ("*b",), ()),
        (("?",), ("*",), ("?",)),
        (("a?",), ("a*",), ("a?",)),
        (("[ab]*",), ("a*",), ()),
    ],
    "access.tools": [(("x__*",), ("x__read",), ("x__read",))],
    "auth.issuer": [("https://mine", "https://theirs", "https://mine")],
    "auth.audience": [("mine", "theirs", "mine")],
    "auth.jwks": [("mine.json", "theirs.json", "mine.json")],
    "auth.algorithms": [(("RS256", "ES256"), ("ES256", "EdDSA"), ("ES256",))],
    "auth.max_age": [(60.0, 3600.0, 60.0)],
    "auth.leeway": [(30.0, 3600.0, 30.0)],
    "limits.caller_rate": [
        (None, Rate(1, 1), Rate(1, 1)),
        (Rate(5, 1), Rate(9, 1), Rate(5, 1)),
        (Rate(5, 1), Rate(60, 60), Rate(5, 60)),
    ],
    "limits.parallel": [(50, 2, 2)],
    "limits.queue": [(1000, 0, 0)],
    "audit.enabled": [(True, False, True)],
    "audit.path": [("mine.db", "/dev/null", "mine.db")],
    "audit.values": [(True, False, False)],
    "isolation.level": [
        ("none", "limits", "limits"),
        ("limits", "auto", "auto"),
        ("auto", "confined", "confined"),
        ("confined", "isolated", "isolated"),
    ],
    "isolation.minimum": [({"system": "confined"}, {"system": "none"}, {"system": "confined"})],
    "kb.add_from": [(("docs", "notes"), ("notes", "/"), ("notes",)), ((), ("/",), ())],
    "model.sampling": [("allow", "ask", "ask"), ("ask", "deny", "deny")],
    "workspace.bash": [(True, False, False)],
    "workspace.isolation": [("limits", "confined", "confined")],
    "workspace.network": [(True, False, False)],
    "workspace.loopback": [((80, 81), (81,), (81,))],
}
ROWS = [(name, *row) for name, rows in STRICTER.items() for row in rows]


@pytest.mark.parametrize(("name", "one", "other", "strictest"), ROWS)
def test_of_two_values_of_a_rule_the_stricter_counts(name, one, other, strictest):
    """Whichever comes first; only what cannot be compared stays as the first says it."""
    assert stricter_setting(name, one, other) == strictest
    if name not in ("auth.issuer", "auth.audience", "auth.jwks", "audit.path"):
        assert stricter_setting(name, other, one) == strictest


def test_every_rule_stands_in_the_table_of_this_test():
    """A new one must say here what stricter means."""
    assert STRICTER.keys() == SETTING_RULES.keys()


SERVER_ROWS = [
    ("policy", "deny", "allow", "deny"),
    ("level", READ_ONLY, SYSTEM, SYSTEM),
    ("rate", Rate(5, 1), Rate(1, 1), Rate(1, 1)),
    ("parallel", 5, 1, 1),
    ("share", "all", "session", "session"),
    ("lanes", 5, 1, 1),
    ("isolation", "none", "confined", "confined"),
    ("network", True, False, False),
    ("transparent", True, False, False),
    ("unlisted", True, False, False),
    ("loopback", (80, 81), (81, 82), (81,)),
    ("memory_bytes", 5, 1, 1),
    ("processes", 5, 1, 1),
    ("relay", ("roots",), ("roots", "sampling"), ("roots",)),
    ("read", ("/a", "/b"), ("/b",), ("/b",)),
    ("write", ("/a",), (), ()),
]


@pytest.mark.parametrize(("field", "one", "other", "strictest"), SERVER_ROWS)
def test_the_rules_of_a_server_have_a_stricter_value_as_well(field, one, other, strictest):
    """Whichever comes first."""
    assert {row[0] for row in SERVER_ROWS} == SERVER_RULES.keys()
    assert SERVER_RULES[field](one, other) == SERVER_RULES[field](other, one) == strictest


TOOL_ROWS = [
    ("enabled", True, False, False),
    ("policy", "ask", "deny", "deny"),
    ("level", WRITE, ADMIN, ADMIN),
    ("capabilities", ("a",), ("a", "b"), ("a", "b")),
    ("rate", Rate(5, 1), Rate(1, 1), Rate(1, 1)),
    ("replayable", True, False, False),
]


@pytest.mark.parametrize(("field", "one", "other", "strictest"), TOOL_ROWS)
def test_the_rules_of_a_tool_have_a_stricter_value_as_well(field, one, other, strictest):
    """Whichever comes first."""
    assert {row[0] for row in TOOL_ROWS} == TOOL_RULES.keys()
    assert hasattr(ToolConfig(), field)
    assert TOOL_RULES[field](one, other) == TOOL_RULES[field](other, one) == strictest


def test_of_a_file_that_only_gives_rules_nothing_milder_than_the_default_counts():
    """Nobody switches anything on or off in a file whose servers are not asked for; preferences stay out."""
    said = {
        "security.policy": "ask",
        "security.pins": "off",
        "serve.edit_commands": True,
        "workspace.bash": True,
        "isolation.level": "none",
        "isolation.minimum": {"system": "confined"},
        "limits.parallel": 3,
        "limits.queue": 5000,
        "audit.enabled": False,
        "audit.path": "mine.db",
        "serve.port": 1,
        "kb.enabled": True,
    }

    kept = only_rules(Layer("user.toml", said), default_rules() | {"audit.enabled": True})

    assert kept.is_only_rules
    assert kept.settings == {
        "security.policy": "ask",
        "isolation.minimum": {"system": "confined"},
        "limits.parallel": 3,
        "audit.path": "mine.db",
    }


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        (("a?",), ("ab",), ("ab",)),
        (("a[bc]",), ("a[bc]",), ("a[bc]",)),
        (("a[bc]",), ("ab",), ("ab",)),
        (("a*",), ("ab*",), ("ab*",)),
        (("a?",), ("a*",), ("a?",)),
        (("a?",), ("a[bc]",), ()),
        (("a*b",), ("a?b",), ("a?b",)),
        (("a*",), ("b*",), ()),
    ],
)
def test_of_two_patterns_the_narrower_stays_where_that_is_certain(one, other, kept):
    """Two that merely overlap are left out, whichever comes first."""
    within = SETTING_RULES["access.tools"]

    assert within(one, other) == within(other, one) == kept


@pytest.mark.parametrize(
    ("one", "other", "is_stricter"),
    [("deny", "ask", True), ("ask", "deny", False), ("ask", "ask", False), ("allow", "ask", False)],
)
def test_a_policy_is_stricter_if_it_forbids_more(one, other, is_stricter):
    assert is_stricter_policy(one, other) is is_stricter


PLACE = PlaceRules(
    "here",
    "ask",
    {"db__drop": "deny", "db__*": "allow", "*__r*": "ask", "db__calm": "allow", "db__c*": "deny"},
    {"db__drop": ADMIN, "db__*": WRITE, "*__r*": READ_ONLY, "db__calm": READ_ONLY, "db__c*": ADMIN},
    {"web": "deny"},
    {"web": SYSTEM},
    {("db", "own"): "disable"},
    {("db", "own"): SYSTEM},
)


@pytest.mark.parametrize(
    ("server", "tool", "policy", "level"),
    [
        ("db", "own", "disable", SYSTEM),
        ("db", "drop", "deny", ADMIN),
        ("db", "calm", "allow", READ_ONLY),
        ("db", "crash", "deny", ADMIN),
        ("db", "read", "ask", WRITE),
        ("db", "else", "allow", WRITE),
        ("web", "fetch", "deny", SYSTEM),
        ("mail", "send", "ask", None),
    ],
)
def test_the_nearest_word_of_a_place_counts_and_of_several_patterns_the_strictest(server, tool, policy, level):
    """The tool's own, then patterns, then the server's, then the general one."""
    said = [rule(PLACE, f"{server}__{tool}", server, tool) for rule in (policy_said, level_said)]

    assert [one and one[0] for one in said] == [policy, level]
    assert policy_said(PlaceRules(""), "a__b", "a", "b") is None


def test_without_a_server_the_merged_configuration_says_what_it_says_of_all():
    security = SecurityConfig(policy="ask", policies={"a": "deny"}, levels={"b": ADMIN})

    assert as_place(None, security) == PlaceRules("", "ask", {"a": "deny"}, {"b": ADMIN})


TOOLS = {"drop": ToolConfig(policy="ask"), "calm": ToolConfig(level=READ_ONLY), "slow": ToolConfig(timeout_s=9.0)}
OF_TOOLS = ({("db", "drop"): "ask"}, {("db", "calm"): READ_ONLY})


def test_what_the_merged_configuration_says_of_a_server_is_told_as_one_place_would():
    """Of a server and its tools only what it does say."""
    security = SecurityConfig(policy="ask", policies={"a": "deny"}, levels={"b": ADMIN})
    general = ("", "ask", {"a": "deny"}, {"b": ADMIN})
    strict = ServerConfig("db", command="db", policy="deny", level=SYSTEM, tools=TOOLS)

    assert as_place(strict, security) == PlaceRules(*general, {"db": "deny"}, {"db": SYSTEM}, *OF_TOOLS)
    assert as_place(ServerConfig("db", command="db"), security) == PlaceRules(*general)


def test_each_place_that_says_something_of_tools_is_asked_if_there_are_several():
    """Of a single one, the merged configuration says as much."""
    origin = Origin("here")
    one = Layer("one", {"security.policy": "ask", "security.policies": {"a": "deny"}, "security.levels": {"b": ADMIN}})
    servers = {
        "db": ServerEntry({"command": "db", "policy": "deny", "level": SYSTEM, "tools": TOOLS}, origin),
        "web": ServerEntry({"command": "web"}, origin),
    }
    two, silent = Layer("two", servers=servers), Layer("silent", {"serve.port": 1})

    assert rules_of_places((one, silent, two)) == (
        PlaceRules("one", "ask", {"a": "deny"}, {"b": ADMIN}),
        PlaceRules("two", None, {}, {}, {"db": "deny"}, {"db": SYSTEM}, *OF_TOOLS),
    )
    assert rules_of_places((silent, two)) == ()


def test_what_is_overruled_is_found_with_where_it_was_said():
    """Nothing is where both say the same."""
    here, there = Origin("here"), Origin("there")
    found = MergedOrigins()

    kept = found.strictest("a", [RuleSetting(1, here), RuleSetting(2, there)], max)
    same = found.strictest("b", [RuleSetting(1, here), RuleSetting(1, there)], max)

    assert (kept, same) == (RuleSetting(2, there), RuleSetting(1, here))
    assert found.overruled == {"a": (Overruled(1, here),)}
    assert found.origins == {"a": there, "b": here}
    assert found.strictest("c", [], max) is None
