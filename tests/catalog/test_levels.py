"""Levels and policies: the user's word, then patterns, then the name; a server's claims only ever raise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.levels import Leveled, level_of, level_of_name, policy_of
from toolcrib.config.merge import merge
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.parse import parse_toml
from toolcrib.config.rules import POLICIES
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.names import uri_of_name
from toolcrib.core.offers import Prompt, Resource, SecurityLevel, Tool

READ_ONLY, WRITE, ADMIN, SYSTEM = SecurityLevel
PLAIN = SecurityConfig()
FILES = ServerConfig("files", command="files")


@pytest.mark.parametrize(
    ("names", "level"),
    [
        ("read_file list_directory getUser search-code git_log git.status describe HTTPGet fetch", READ_ONLY),
        ("write_file delete getOrCreate find_and_replace list_and_kill check_and_pay read_then_erase", WRITE),
        ("query query_database runSqlQuery frobnicate x do_it _ 42 mark_as_read unread browser_click", WRITE),
        ("drop_table grant_access list_and_purge getAdminUsers deploy shutdown", ADMIN),
        ("bash run_command execute-code readShell startProcess get_terminal python_eval list_exec", SYSTEM),
    ],
)
def test_the_words_of_a_name_suggest_a_level(names, level):
    """Reading must be said, up front, with no word of change beside it; a name that says nothing counts as writing."""
    assert {name: level_of_name(name).level for name in names.split()} == dict.fromkeys(names.split(), level)


def test_the_reason_names_the_word():
    """So that ``toolcrib why`` can say it."""
    assert level_of_name("run_command").reason == "its name speaks of 'command'"


@pytest.mark.parametrize(
    ("tool", "server", "patterns", "level"),
    [
        ({"level": READ_ONLY}, SYSTEM, {"*": ADMIN}, READ_ONLY),
        ({"level": SYSTEM}, None, {}, SYSTEM),
        ({}, SYSTEM, {"*": ADMIN}, ADMIN),
        ({}, None, {"files__*": WRITE, "*__bash": SYSTEM, "*": READ_ONLY}, SYSTEM),
        ({}, None, {"bash": READ_ONLY}, SYSTEM),
        ({}, READ_ONLY, {}, READ_ONLY),
        ({}, None, {}, SYSTEM),
    ],
)
def test_the_users_word_for_a_tool_wins_then_the_highest_pattern_then_the_server_then_the_name(
    tool, server, patterns, level
):
    """Patterns stand for exposed names."""
    config = ServerConfig("files", command="x", level=server, tools={"bash": ToolConfig(**tool)})

    assert level_of("files__bash", Tool("bash"), config, SecurityConfig(levels=patterns)).level is level


def test_native_tools_state_their_own_level_and_patterns_overrule_it():
    """Their authors are the user's own."""
    tool = Tool("add", security_level=ADMIN)

    assert level_of("add", tool, None, PLAIN).level is ADMIN
    assert level_of("add", tool, None, SecurityConfig(levels={"a*": READ_ONLY})).level is READ_ONLY


@pytest.mark.parametrize(
    ("claims", "level"),
    [
        ({"destructiveHint": True}, WRITE),
        ({"readOnlyHint": False}, WRITE),
        ({"readOnlyHint": True}, READ_ONLY),
        ({"readOnlyHint": True, "destructiveHint": True}, WRITE),
        ({"destructiveHint": "true"}, READ_ONLY),
        ({}, READ_ONLY),
    ],
)
def test_a_server_that_warns_of_its_own_tool_is_believed(claims, level):
    """Even where its name, or a pattern, says that it only reads; but not against the user's word for this tool."""
    tool = Tool("read", annotations=claims)
    told = ServerConfig("files", command="x", tools={"read": ToolConfig(level=READ_ONLY)})

    assert level_of("files__read", tool, FILES, PLAIN).level is level
    assert level_of("files__read", tool, FILES, SecurityConfig(levels={"*": READ_ONLY})).level is level
    assert level_of("files__read", tool, told, PLAIN).level is READ_ONLY


VALUES = st.none() | st.booleans() | st.integers(-1, 1) | st.text(max_size=3)
CLAIMS = st.dictionaries(
    st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title", "level"]), VALUES
)
NAMES = st.sampled_from(["read", "write", "drop_all", "bash", "thing", "getOrCreate"])


@given(NAMES, CLAIMS, st.none() | st.sampled_from(list(SecurityLevel)))
def test_no_annotation_lowers_a_level(name, claims, of_server):
    """Whatever a server claims of its tools."""
    server = ServerConfig("files", command="x", level=of_server)
    plain = level_of(f"files__{name}", Tool(name), server, PLAIN).level
    claimed = level_of(f"files__{name}", Tool(name, annotations=claims), server, PLAIN).level

    assert claimed.rank >= plain.rank


@pytest.mark.parametrize(
    ("tool", "patterns", "server", "general", "policy"),
    [
        ("allow", {"*": "deny"}, "deny", "deny", "allow"),
        ("disable", {}, None, "allow", "disable"),
        (None, {"*": "allow", "files__*": "ask", "*__read": "deny"}, "allow", "allow", "deny"),
        (None, {"*": "disable", "files__read": "allow"}, None, "deny", "allow"),
        (None, {"files__*": "allow"}, "deny", "deny", "allow"),
        (None, {"read": "deny"}, "ask", "deny", "ask"),
        (None, {}, "ask", "deny", "ask"),
        (None, {}, None, "deny", "deny"),
        (None, {}, None, "allow", "allow"),
    ],
)
def test_a_tools_policy_beats_patterns_beat_its_servers_beats_the_general_one(tool, patterns, server, general, policy):
    """Of several patterns the most careful one counts; an exact name is the tool's own."""
    config = ServerConfig("files", command="x", policy=server, tools={"read": ToolConfig(policy=tool)})

    assert policy_of("files__read", Tool("read"), config, SecurityConfig(general, patterns)).policy == policy


@given(st.dictionaries(st.sampled_from(["*", "a*", "*d", "a?d", "x*"]), st.sampled_from(POLICIES)))
def test_of_several_patterns_the_most_careful_one_counts(patterns):
    """Adding a pattern never makes a native tool freer than the fitting ones together."""
    fitting = [POLICIES.index(patterns[pattern]) for pattern in patterns if pattern != "x*"]
    found = policy_of("add", Tool("add"), None, SecurityConfig("ask", patterns)).policy

    assert found == (POLICIES[max(fitting)] if fitting else "ask")


def _merged(user: str, project: str) -> SecurityConfig:
    return merge(parse_toml(user, "user.toml"), parse_toml(project, "project.toml")).security


@pytest.mark.parametrize(
    ("user", "project", "policy"),
    [
        ('policies = { "x__*" = "deny" }', 'policies = { "x__echo" = "allow" }', "deny"),
        ('policies = { "x__echo" = "allow" }', 'policies = { "x__*" = "ask" }', "ask"),
        ('policies = { "*" = "deny", "x__echo" = "allow" }', 'policy = "allow"', "allow"),
        ('policy = "ask"', 'policies = { "x__*" = "allow" }', "ask"),
        ('policy = "ask"\npolicies = { "x__e*" = "allow" }', 'policies = { "x__*" = "allow" }', "allow"),
        ('policies = { "y__*" = "deny" }', 'policies = { "x__*" = "ask" }', "ask"),
        ('policies = { "x__*" = "deny" }', 'policies = { "x__echo" = "disable" }', "disable"),
    ],
)
def test_of_what_two_files_come_to_the_stricter_policy_counts(user, project, policy):
    """An exact name beats a pattern within one file only."""
    security = _merged(f"[security]\n{user}", f"[security]\n{project}")

    assert policy_of("x__echo", Tool("echo"), ServerConfig("x", command="x"), security).policy == policy


def test_a_file_cannot_loosen_by_naming_a_tool_what_another_says_of_its_server():
    """And the reason names the file."""
    config = merge(
        parse_toml('[servers.x]\ncommand = "x"\npolicy = "deny"\nlevel = "admin"', "user.toml"),
        parse_toml('[servers.x.tools.echo]\npolicy = "allow"\nlevel = "read_only"', "project.toml"),
    )
    server, security = config.servers["x"], config.security

    assert policy_of("x__echo", Tool("echo"), server, security).reason == (
        "set for server 'x' in the configuration, in user.toml"
    )
    assert level_of("x__echo", Tool("echo"), server, security).level is ADMIN


def test_of_what_two_files_come_to_the_higher_level_counts():
    """A level that nobody set is no word against one that somebody did."""
    security = _merged('[security.levels]\n"x__*" = "admin"', '[security.levels]\nx__echo = "read_only"')
    server = ServerConfig("x", command="x")

    assert level_of("x__echo", Tool("echo"), server, security).level is ADMIN
    lowered = _merged('[security.levels]\nx__write = "read_only"', '[security]\npolicies = { a = "ask" }')
    assert level_of("x__write", Tool("write"), server, lowered).level is READ_ONLY


def test_a_native_tool_is_not_held_to_what_it_warns_of():
    """Its author has stated the level; hints are for clients."""
    tool = Tool("look", security_level=READ_ONLY, annotations={"destructiveHint": True})

    assert level_of("look", tool, None, PLAIN).level is READ_ONLY


@pytest.mark.parametrize(
    ("level", "is_configured", "twice"),
    [(READ_ONLY, True, True), (READ_ONLY, False, None), (WRITE, True, None)],
)
def test_only_what_reads_by_the_users_word_may_run_twice(level, is_configured, twice):
    assert Leveled(level, "", is_configured=is_configured).may_run_twice is twice


@pytest.mark.parametrize(("stated", "level"), [(READ_ONLY, READ_ONLY), (SecurityLevel.ADMIN, SecurityLevel.ADMIN)])
def test_a_programs_own_source_states_the_level_of_a_tool_whatever_its_name_suggests(stated, level):
    """``delete_file`` sounds like a write; the program knows better."""
    own = ServerConfig("files", command="x", is_own=True)

    assert (
        level_of("files__delete_file", Tool("delete_file", security_level=stated), own, SecurityConfig()).level is level
    )


@pytest.mark.parametrize("stated", [WRITE, ADMIN, SYSTEM])
def test_the_program_is_named_where_its_word_counts_although_the_name_suggests_the_same(stated):
    own = ServerConfig("files", command="x", is_own=True)
    name = {WRITE: "delete_file", ADMIN: "drop_table", SYSTEM: "run_command"}[stated]

    assert (
        level_of(f"files__{name}", Tool(name, security_level=stated), own, PLAIN).reason
        == "stated by the program's own source"
    )


@pytest.mark.parametrize("offer", [Resource("file:///notes/a.md"), Prompt("delete_everything")])
def test_what_is_no_tool_only_reads_whatever_its_name_says(offer):
    assert level_of(f"files__{offer.name}", offer, FILES, PLAIN) == Leveled(READ_ONLY, f"a {offer.kind} only reads")


def test_rules_may_name_a_resource_as_clients_do():
    """By the URI under which they see it."""
    offer, uri = Resource("file:///notes/a.md"), uri_of_name("files__file:///notes/a.md", "files")
    rules = SecurityConfig(levels={uri: ADMIN}, policies={uri: "ask"})

    assert level_of("files__file:///notes/a.md", offer, FILES, rules).level is ADMIN
    assert policy_of("files__file:///notes/a.md", offer, FILES, rules).policy == "ask"
