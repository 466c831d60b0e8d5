"""Autopsy: why a server is not there, in one message a person can act on."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolcrib
from toolcrib.sources.mcp.autopsy import KNOWN_CAUSES, Trouble, describe_exit, explain
from toolcrib.sources.mcp.link import ExitTrace
from toolcrib.sources.mcp.redactor import Redactor
from toolcrib.stores.paths import Environment


def explained(*stderr: str, **fields: object):
    return explain("files", Trouble("starting", "its process exited with code 1", ExitTrace(7, 1, stderr)), attempts=3)


def test_the_message_says_how_often_why_and_what_to_do():
    """And that everything else goes on."""
    error = explained("Traceback", "ValueError: no config")

    assert str(error) == (
        "Server 'files' is not available after 3 attempts: its process exited with code 1 while starting."
        " It wrote: 'Traceback | ValueError: no config'."
        " Try: toolcrib servers logs files. Everything else goes on without it."
    )
    assert error.details == {
        "server": "files",
        "phase": "starting",
        "exit_code": 1,
        "cause": "its process exited with code 1: ValueError: no config",
        "advice": "",
        "failure": "passing",
        "stderr": ["Traceback", "ValueError: no config"],
        "stdout_noise": 0,
        "stdout": [],
        "attempts": 3,
    }
    assert error.retryable


def test_a_single_attempt_and_a_silent_server_need_fewer_words():
    """Nothing is said that is not known."""
    error = explain("files", Trouble("running", "closed its connection"), attempts=1)

    assert error.message == "Server 'files' is not available: closed its connection while running."


@pytest.mark.parametrize(
    ("line", "cause", "advice"),
    [
        ("ModuleNotFoundError: No module named 'yaml'", "a Python module is missing", "install yaml beside the server"),
        (
            "ModuleNotFoundError: No module named 'mcp.server'",
            "the server was written for another major version of the mcp package",
            'install it with "mcp<2"',
        ),
        (
            "ImportError: cannot import name 'McpError' from 'mcp'",
            "the server was written for another major version of the mcp package",
            "or update the server",
        ),
        ("Error: Cannot find module '/srv/x.js'", "a Node module is missing", "run npm install"),
        ("npm error code E404", "npm does not know the package", "check the package name"),
        ("npm ERR! network request failed", "npm cannot reach its registry", "check the network"),
        ("× No solution found when resolving tool dependencies", "the package cannot be resolved", "name and version"),
        ("Error: listen EADDRINUSE :::3000", "its port is taken", "change the port"),
        ("PermissionError: [Errno 13] Permission denied", "something it needs may not be accessed", "permissions"),
        ("Error: GITHUB_TOKEN is required: api key missing", "it wants a credential", "under env"),
        ("Missing environment variable HOME_URL", "an environment variable is missing", "set it under env"),
        ("SyntaxError: invalid syntax", "it does not run on this interpreter version", "Python or Node"),
        ("ssl: CERTIFICATE_VERIFY_FAILED", "a certificate was not accepted", "SSL_CERT_FILE"),
        ("connect ECONNREFUSED 127.0.0.1:5432", "something it depends on refuses connections", "start what"),
    ],
)
def test_a_known_cause_is_named_with_its_remedy(line, cause, advice):
    """From the server's own words."""
    error = explained("some noise", line)

    assert error.details["cause"] == cause
    assert f"({cause})." in error.message
    assert advice in error.hint


def test_only_the_last_words_are_shown():
    """A server that talks a lot does not fill the message."""
    error = explained(*(f"line {number}" for number in range(100)), "  ", "")

    assert error.details["stderr"] == [f"line {number}" for number in range(92, 100)]
    assert "It wrote: 'line 97 | line 98 | line 99'." in error.message


def test_secrets_are_blotted_out_everywhere():
    """In the message, the reason and the last words."""
    trouble = Trouble("starting", "token s3cr3t-token was refused", ExitTrace(1, 1, ["using s3cr3t-token"]))

    error = explain("files", trouble, attempts=1, redactor=Redactor({"s3cr3t-token"}))

    assert "s3cr3t" not in f"{error} {error.details}"
    assert error.details["stderr"] == ["using ***"]


def test_control_characters_of_a_server_reach_no_terminal():
    """Colours and cursor jumps are shown, not done."""
    assert "\x1b" not in str(explained("\x1b[31mred\x1b[0m \x07"))


@given(st.lists(st.text(max_size=30), max_size=4))
def test_any_last_words_can_be_explained(lines):
    """Braces, quotes, backslashes, nonsense."""
    assert str(explained(*lines, "No module named '{0}{x}'")).startswith("Server 'files' is not available")


@pytest.mark.parametrize(
    ("code", "words"), [(None, "closed its connection"), (3, "exited with code 3"), (-9, "was killed by signal 9")]
)
def test_an_exit_is_told_by_its_code(code, words):
    """Or by its signal."""
    assert describe_exit(ExitTrace(exit_code=code)) == words


def test_every_advice_can_be_filled_in():
    """No cause has more gaps than its pattern has groups."""
    assert all(advice.format("", "", "") for _, _, advice, _ in KNOWN_CAUSES)


def test_lines_that_were_no_messages_are_shown():
    """Cleaned, cut and without secrets: many a server complains on the wrong stream."""
    remains = ExitTrace(noise=["\x1b[31mFATAL: key hunter22 is wrong", "x" * 500], noise_count=2)

    error = explain("files", Trouble("starting", "ended", remains), attempts=1, redactor=Redactor({"hunter22"}))

    assert error.details["stdout"] == ["FATAL: key *** is wrong", "x" * 200]


DYING = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "dying"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": hello}), flush=True)
    elif message.get("method") == "tools/list":
        sys.exit("KeyError: DATABASE_URL is not set")
    elif "id" in message:
        refusal = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": refusal}), flush=True)
"""


async def test_a_server_that_dies_while_it_lists_its_tools_is_named_with_its_last_words(tmp_path):
    """To whoever discovers, calls, or asks why; with what to try."""
    program = tmp_path / "dying.py"
    program.write_text(DYING)
    config = {"mcpServers": {"shop": {"command": sys.executable, "args": [str(program)]}}}
    async with toolcrib.open_crib(config, surroundings=Environment(tmp_path, {"HOME": str(tmp_path)})) as crib:
        found, called = await crib.discover("shop"), await crib.call("shop__buy")
        why = " ".join(crib.explain("shop__buy").reasons)

    said = (
        "Server 'shop' is not available: its process exited with code 1 while listing its tools."
        " It wrote: 'KeyError: DATABASE_URL is not set'."
    )
    assert found.error.message == f"{said} Try: toolcrib servers logs shop. Everything else goes on without it."
    assert (called.error.code, called.error.message.startswith("Server 'shop' is not available")) == (
        "TOOL_UNAVAILABLE",
        True,
    )
    assert all("It wrote: 'KeyError: DATABASE_URL is not set'" in text for text in (called.error.message, why))
