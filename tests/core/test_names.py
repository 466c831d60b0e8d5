"""Names: one parser for ``server__tool``, one rule for server names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import InvalidName
from toolcrib.core.names import (
    KB_PREFIX,
    KB_TOOLS,
    SERVER_NAME_MAX,
    TOOL_NAME_MAX,
    alias_of,
    check_server_name,
    fits_pattern,
    is_tool_name,
    join_name,
    name_of_alias,
    name_of_uri,
    plain_uri,
    split_name,
    to_public,
    to_server_name,
    translate_app,
    uri_of_name,
)
from toolcrib.knowledge.definitions import TOOLS

SERVERS = st.from_regex(r"[a-z][a-z0-9]{0,5}(_[a-z0-9]{1,5}){0,2}", fullmatch=True)


@given(SERVERS, st.text(min_size=1, max_size=20))
def test_what_is_joined_is_split_again(server, tool):
    """Whatever the tool is called, because a server's name has no double underscore and ends with none."""
    assert split_name(join_name(check_server_name(server), tool)) == (server, tool)


@pytest.mark.parametrize(
    ("name", "parts"),
    [("a__b", ("a", "b")), ("a__b__c", ("a", "b__c")), ("a___b", ("a", "_b")), ("a____b", ("a", "__b"))],
)
def test_the_first_double_underscore_divides(name, parts):
    """Further ones belong to the tool."""
    assert split_name(name) == parts


@pytest.mark.parametrize("name", ["", "a", "a_b", "__tool", "server__", "__"])
def test_a_name_without_both_parts_is_invalid(name):
    """The error says how to write it."""
    with pytest.raises(InvalidName, match="Write it as server__tool"):
        split_name(name)


@pytest.mark.parametrize(
    "name", ["", "A", "my-server", "1st", "a__b", "_a", "a_", "ä", "a b", "a.b", "a\n", "x" * (SERVER_NAME_MAX + 1)]
)
def test_a_name_that_breaks_the_rule_is_refused_with_a_better_one(name):
    """The hint names one that would do."""
    with pytest.raises(InvalidName, match="Use snake_case") as refused:
        check_server_name(name)

    assert repr(to_server_name(name)) in str(refused.value)


@given(st.text(max_size=80))
def test_every_name_has_a_server_name_near_it(name):
    """Other programs call their servers anything."""
    assert check_server_name(to_server_name(name)) == to_server_name(name)


@pytest.mark.parametrize(
    ("given_name", "expected"),
    [
        ("GitHub", "git_hub"),
        ("my-server", "my_server"),
        ("Größe!", "groe"),
        ("@scope/pkg", "scope_pkg"),
        ("42", "s_42"),
        ("日本", "server"),
    ],
)
def test_a_server_name_stays_recognisable(given_name, expected):
    """As close as the rule allows."""
    assert to_server_name(given_name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read", True),
        ("kb.search", True),
        ("a/b:c-d_E", True),
        ("x" * TOOL_NAME_MAX, True),
        ("x" * (TOOL_NAME_MAX + 1), False),
        ("", False),
        ("a b", False),
        ("a\n", False),
        ("ü", False),
    ],
)
def test_tool_names_are_visible_ascii(name, expected):
    """Whatever a server may call its tools."""
    assert is_tool_name(name) is expected


@pytest.mark.parametrize("name", ["native", "add", "import"])
def test_words_with_a_meaning_of_their_own_name_no_server(name):
    """A token for ``native`` must not reach a server that took the name; the page has forms at the others."""
    with pytest.raises(InvalidName, match="meaning of its own"):
        check_server_name(name)

    assert check_server_name(to_server_name(name)) == f"{name}_server"


URIS = ["memo://about", "file:///tmp/x", "mailto:a@b", "urn:isbn:1", "foo/bar", "{+any}://x", "ui://app/a.html", "x:/r"]


@pytest.mark.parametrize("uri", URIS)
def test_a_public_uri_keeps_its_scheme_and_leads_back(uri):
    """Whatever it looks like, it is the same resource on the way in."""
    public = to_public("my_lib", uri)

    assert public.split(":")[0].split("/")[0] in (uri.split(":")[0].split("/")[0], "my_lib")
    assert name_of_uri(public) == f"my_lib__{uri}"
    assert uri_of_name(f"my_lib__{uri}", "my_lib") == public


@given(st.text(min_size=1, max_size=50), st.sampled_from(["a", "my_lib", "s1"]))
def test_no_two_resources_have_one_public_uri(uri, server):
    """Of any text that a server may give, the way back is its own name and no other."""
    assert name_of_uri(to_public(server, uri)) == f"{server}__{uri}"


@pytest.mark.parametrize("uri", ["", "memo:", "memo://", "http://EXAMPLE", "memo://Lib/x", "a" * 5000 + "/b"])
def test_what_is_no_public_uri_stays_as_it_is(uri):
    """It names nothing of a server."""
    assert name_of_uri(uri) == uri


@pytest.mark.parametrize(
    "spelling", ["lib__memo://notes/%73ecret", "lib__memo://notes/./secret", "lib__memo://notes/%2573ecret"]
)
def test_every_spelling_of_a_name_is_one_to_the_rules(spelling):
    """A rule for a resource cannot be walked around by an escape."""
    assert plain_uri(spelling) == "lib__memo://notes/secret"


def test_the_resource_of_an_app_is_translated_in_both_spellings():
    """Older clients read the flat key."""
    meta = {"ui": {"resourceUri": "ui://a", "csp": {}}, "ui/resourceUri": "ui://a", "own": 1}

    assert translate_app(meta, str.upper) == {
        "ui": {"resourceUri": "UI://A", "csp": {}},
        "ui/resourceUri": "UI://A",
        "own": 1,
    }
    assert translate_app("odd", str.upper) == "odd"


def test_the_tools_of_the_knowledge_base_have_two_names():
    """Those of the specification are for calls and rules; one is the other with a dot."""
    described = {options["name"] for options in TOOLS.values()}

    assert described == {f"{KB_PREFIX}{tool}" for tool in KB_TOOLS}
    assert {name_of_alias(alias_of(name)) for name in described} == described
    assert {alias_of(name) for name in described} == {f"kb.{tool}" for tool in KB_TOOLS}
    assert [name_of_alias("kb.other"), alias_of("kb_other"), alias_of("kb__add")] == ["kb.other", "kb_other", "kb__add"]


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("kb_add", "kb.*", True),
        ("kb_add", "kb_*", True),
        ("kb_add", "kb.remove", False),
        ("kb_other", "kb.*", False),
        ("kb__add", "kb.*", False),
        ("lib__kb.add", "lib__kb.*", True),
    ],
)
def test_a_pattern_holds_for_both_names(name, pattern, fits):
    assert fits_pattern(name, pattern) is fits
