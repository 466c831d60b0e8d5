"""The one rule of who may reach what: levels, patterns, capabilities, and nothing by default."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.access import (
    EVERYTHING,
    LOCAL_USER,
    NATIVE,
    NOTHING,
    Caller,
    Decision,
    Grants,
    Reach,
    decide,
    is_granted,
    may_approve,
    may_know,
    may_know_server,
    may_operate,
)
from toolcrib.core.kinds import HoldReason
from toolcrib.core.offers import SecurityLevel

LEVELS = list(SecurityLevel)
TOOL = Reach("files__read", "files", SecurityLevel.READ_ONLY)


@pytest.mark.parametrize("tool", LEVELS)
@pytest.mark.parametrize("granted", LEVELS)
def test_a_level_reaches_itself_and_what_lies_below(granted, tool):
    """The whole matrix of four levels by four."""
    order = ["read_only", "write", "admin", "system"]
    expected = Decision.ALLOWED if order.index(tool) <= order.index(granted) else Decision.HIDDEN

    assert decide(Grants(granted), replace(TOOL, level=tool)) is expected


@pytest.mark.parametrize("tool", LEVELS)
def test_without_a_level_nothing_is_granted(tool):
    """Deny by default: a caller that nobody gave anything sees nothing."""
    reach = replace(TOOL, level=tool)

    assert decide(Caller("somebody").grants, reach) is Decision.HIDDEN
    assert decide(Grants(None, ("*",), ("*",)), reach) is Decision.HIDDEN
    assert decide(NOTHING, reach) is Decision.HIDDEN
    assert decide(LOCAL_USER.grants, reach) is Decision.ALLOWED


@pytest.mark.parametrize(
    ("servers", "tools", "expected"),
    [
        (("*",), ("*",), True),
        (("files",), ("*",), True),
        (("fil*",), ("*__read",), True),
        (("git", "files"), ("files__*",), True),
        (("git",), ("*",), False),
        (("file",), ("*",), False),
        (("FILES",), ("*",), False),
        (("*",), ("read",), False),
        (("*",), ("files__write",), False),
        ((), ("*",), False),
        (("*",), (), False),
        (("",), ("*",), False),
    ],
)
def test_server_and_tool_must_both_be_named(servers, tools, expected):
    """Patterns stand for whole names, upper and lower case differ, and an empty list names nothing."""
    assert (decide(Grants(SecurityLevel.SYSTEM, servers, tools), TOOL) is Decision.ALLOWED) is expected


def test_native_tools_answer_to_the_name_native():
    """A token for one server does not open the tools of the process itself."""
    reach = Reach("add")

    assert decide(Grants(SecurityLevel.SYSTEM, ("files",)), reach) is Decision.HIDDEN
    assert decide(Grants(SecurityLevel.SYSTEM, (NATIVE,)), reach) is Decision.ALLOWED


@pytest.mark.parametrize(
    ("granted", "needed", "expected"),
    [
        (None, {"net", "disk"}, True),
        (frozenset(), set(), True),
        (frozenset(), {"net"}, False),
        (frozenset({"net"}), {"net"}, True),
        (frozenset({"net"}), {"net", "disk"}, False),
        (frozenset({"net", "disk"}), {"net"}, True),
    ],
)
def test_every_capability_a_tool_needs_must_be_granted(granted, needed, expected):
    """Unless the caller's are not limited at all."""
    grants = Grants(SecurityLevel.SYSTEM, capabilities=granted)

    assert (decide(grants, replace(TOOL, capabilities=frozenset(needed))) is Decision.ALLOWED) is expected


@pytest.mark.parametrize(
    ("policy", "held", "expected"),
    [
        ("allow", None, Decision.ALLOWED),
        ("ask", None, Decision.ASK),
        ("deny", None, Decision.DENIED),
        ("disable", None, Decision.DENIED),
        ("Allow", None, Decision.DENIED),
        ("", None, Decision.DENIED),
        ("allow", HoldReason.CHANGED, Decision.HELD),
        ("ask", HoldReason.CHANGED, Decision.HELD),
        ("deny", HoldReason.CHANGED, Decision.HELD),
    ],
)
def test_quarantine_comes_before_the_policy_and_an_unknown_policy_denies(policy, held, expected):
    """Only the word ``allow`` allows; grants do not overrule either."""
    reach = replace(TOOL, policy=policy, held=held)

    assert decide(EVERYTHING, reach) is expected
    assert decide(NOTHING, reach) is Decision.HIDDEN


def test_only_what_can_be_called_or_asked_for_is_listed():
    """Hidden, held and denied tools are not."""
    assert {decision for decision in Decision if decision.is_listed} == {Decision.ASK, Decision.ALLOWED}


@pytest.mark.parametrize(
    ("grants", "name", "expected"),
    [
        (EVERYTHING, "files__read", True),
        (NOTHING, "files__read", False),
        (Grants(SecurityLevel.READ_ONLY, ("files",)), "files__read", True),
        (Grants(SecurityLevel.READ_ONLY, ("git",)), "files__read", False),
        (Grants(SecurityLevel.READ_ONLY, ("git",)), "read", True),
        (Grants(SecurityLevel.READ_ONLY, tools=("git__*",)), "files__read", False),
    ],
)
def test_a_name_nobody_has_seen_is_looked_for_only_if_it_could_be_granted(grants, name, expected):
    """So nobody starts a server by guessing names; a name without a prefix may be anybody's."""
    assert may_know(grants, name) is expected


WORDS = st.sampled_from(["files", "git", "files__read", "git__push", "*", "files__*", "g*", "native"])
PATTERNS = st.lists(WORDS, max_size=3).map(tuple)
CAPABILITIES = st.frozensets(st.sampled_from(["net", "disk", "root"]))
GRANTS = st.builds(Grants, st.none() | st.sampled_from(LEVELS), PATTERNS, PATTERNS, st.none() | CAPABILITIES)
REACHES = st.builds(
    Reach,
    st.sampled_from(["files__read", "git__push", "add"]),
    st.sampled_from(["files", "git", NATIVE]),
    st.sampled_from(LEVELS),
    CAPABILITIES,
    st.sampled_from(["allow", "ask", "deny", "odd"]),
    st.sampled_from(["", "changed"]),
)


def wider(first: Grants, second: Grants) -> Grants:
    """What both grants give together, and possibly more."""
    levels = [level for level in (first.level, second.level) if level is not None]
    limited = first.capabilities is not None and second.capabilities is not None
    return Grants(
        max(levels, key=lambda level: level.rank, default=None),
        first.servers + second.servers,
        first.tools + second.tools,
        first.capabilities | second.capabilities if limited else None,
    )


@given(GRANTS, GRANTS, REACHES)
def test_widening_grants_never_takes_a_tool_away(grants, more, reach):
    """Whoever may use a tool still may after being granted more, and it is decided the same way."""
    before = decide(grants, reach)

    if before is not Decision.HIDDEN:
        assert decide(wider(grants, more), reach) is before
    assert decide(EVERYTHING, reach) is not Decision.HIDDEN


TRUSTED = frozenset({"approve"})


@pytest.mark.parametrize(
    ("caller", "asked_by", "expected"),
    [
        (Caller("ann", "token", EVERYTHING), "bob", True),
        (Caller("ann", "local", EVERYTHING), "bob", True),
        (Caller("ann", "token", EVERYTHING), None, True),
        (Caller("ann", "token", EVERYTHING), "ann", False),
        (Caller("ann", "agent", EVERYTHING), "bob", False),
        (Caller("ann", "token", NOTHING), "bob", False),
        (Caller("ann", "token", Grants(SecurityLevel.ADMIN)), "bob", False),
        (Caller("ann", "token", Grants(SecurityLevel.SYSTEM, ("files",))), "bob", False),
        (Caller("ann", "token", Grants(SecurityLevel.SYSTEM, capabilities=frozenset())), "bob", False),
        (Caller("ann", "token", Grants(SecurityLevel.SYSTEM, capabilities=frozenset({"audit"}))), "bob", False),
        (Caller("ann", "token", Grants(SecurityLevel.READ_ONLY, capabilities=TRUSTED)), "bob", True),
        (Caller("ann", "token", Grants(None, capabilities=TRUSTED)), "bob", True),
        (Caller("ann", "token", Grants(SecurityLevel.READ_ONLY, capabilities=TRUSTED)), "ann", False),
        (Caller("ann", "agent", Grants(SecurityLevel.READ_ONLY, capabilities=TRUSTED)), "bob", False),
    ],
)
def test_who_may_answer_for_somebody_elses_call(caller, asked_by, expected):
    """Whoever is granted everything or the capability to; never an agent, and nobody for themselves."""
    assert may_approve(caller, asked_by) is expected


@pytest.mark.parametrize("wanted", LEVELS)
@pytest.mark.parametrize(
    ("caller", "up_to"),
    [
        (Caller("ann", "token", EVERYTHING), "system"),
        (LOCAL_USER, "system"),
        (Caller("ann", "token", Grants(SecurityLevel.ADMIN)), "admin"),
        (Caller("ann", "token", Grants(SecurityLevel.WRITE)), "write"),
        (Caller("ann", "token", Grants(SecurityLevel.READ_ONLY)), "read_only"),
        (Caller("ann", "token", NOTHING), None),
        (Caller("ann", "agent", EVERYTHING), None),
        (Caller("ann", "token", Grants(SecurityLevel.SYSTEM, ("files",))), None),
        (Caller("ann", "token", Grants(SecurityLevel.SYSTEM, ("*", "files"))), None),
        (Caller("ann", "token", Grants(SecurityLevel.SYSTEM, tools=("files__*",))), None),
        (Caller("ann", "token", Grants(SecurityLevel.SYSTEM, capabilities=frozenset())), None),
        (Caller("ann", "token", Grants(SecurityLevel.SYSTEM, capabilities=TRUSTED)), None),
    ],
)
def test_who_may_look_after_the_whole(caller, up_to, wanted):
    """Only somebody from whom nothing is kept, and up to their own level."""
    allowed = LEVELS[: LEVELS.index(up_to) + 1] if up_to is not None else []

    assert may_operate(caller, wanted) is (wanted in allowed)


@pytest.mark.parametrize("grants", [Grants(SecurityLevel.READ_ONLY, ("none",), ("none",)), NOTHING])
def test_whoever_may_call_anything_may_read_results_and_nobody_else(grants):
    """The store looks at whose a result is."""
    reads = replace(TOOL, level=SecurityLevel.SYSTEM, reads_results=True)

    assert is_granted(grants, reads) is (grants is not NOTHING)


@pytest.mark.parametrize(
    ("servers", "tools", "known"),
    [
        (("*",), ("*",), True),
        (("files",), ("*",), True),
        (("other",), ("*",), False),
        (("*",), ("files__*",), True),
        (("*",), ("files__read",), True),
        (("*",), ("fi*",), True),
        (("*",), ("f?les__read",), True),
        (("*",), ("[f]iles__read",), True),
        (("*",), ("other__*",), False),
        (("*",), ("files",), False),
        (("*",), ("filesystem*",), False),
        (("*",), ("other__*", "files__x"), True),
    ],
)
def test_a_server_is_known_to_whoever_could_reach_one_of_its_tools(servers, tools, known):
    assert may_know_server(Grants(SecurityLevel.READ_ONLY, servers, tools), "files") is known
    assert not may_know_server(Grants(None, servers, tools), "files")
