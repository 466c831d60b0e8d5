"""Calls to copy: whatever the arguments are, what is copied means the same."""

import ast
import json
import shlex

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.content import read_arguments
from toolcrib.server.web.tool_result import snippets

TEXT = st.text(st.characters(codec="utf-8"), max_size=10) | st.sampled_from(
    ["5", "true", "@file", "it's", "$(x)", "a=b"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(TEXT, VALUES, max_size=4)


def texts(arguments, **options):
    made = snippets("files__read", arguments, "http://127.0.0.1:7337/mcp", **{"needs_token": False} | options)
    return {snippet.key: snippet.text for snippet in made}


@given(ARGUMENTS)
def test_the_command_line_means_the_same_arguments(arguments):
    """A shell and the command take it apart again."""
    words = shlex.split(texts(arguments)["cli"])

    assert words[:3] == ["toolcrib", "call", "files__read"]
    whole = words[4] if words[3:4] == ["--input-json"] else None
    assert read_arguments([] if whole else words[3:], whole, {}) == arguments


@given(ARGUMENTS)
def test_curl_sends_the_same_arguments(arguments):
    """In one quoted word."""
    words = shlex.split(texts(arguments)["curl"].replace("\\\n", " "))

    assert words[3] == "http://127.0.0.1:7337/api/v1/tools/files__read/call"
    assert json.loads(words[words.index("-d") + 1]) == {"arguments": arguments}


@given(ARGUMENTS)
def test_python_calls_with_the_same_arguments(arguments):
    """It is a program, and its one call has them."""
    calls = [node for node in ast.walk(ast.parse(texts(arguments)["python"])) if isinstance(node, ast.Call)]

    [call] = [call for call in calls if getattr(call.func, "attr", "") == "call"]
    assert [ast.literal_eval(argument) for argument in call.args] == ["files__read", arguments]


def test_a_token_is_named_but_never_shown():
    """Where one is needed, the shell puts it in."""
    assert "$TOOLCRIB_TOKEN" in texts({}, needs_token=True)["curl"]
    assert "authorization" not in texts({})["curl"]
