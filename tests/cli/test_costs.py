"""``toolcrib cost``: what the tools cost, what is used, and what could be left out."""

import tomllib

import pytest
from tests.cli.past import log_calls


def test_every_server_and_tool_has_its_price(tiny):
    """The parts add up to the whole; without a log nothing is said of use."""
    told = tiny.json("cost")

    assert told["total"]["tools"] == 6
    assert told["total"]["tokens"] == sum(tool["tokens"] for tool in told["tools"])
    assert told["total"]["tokens"] == sum(server["tokens"] for server in told["servers"])
    assert {server["name"]: server["tools"] for server in told["servers"]} == {"tiny": 5, "toolcrib": 1}
    assert (told["usage"], told["proposal"], told["servers"][0]["calls"]) == (None, None, None)


def test_what_was_used_becomes_a_profile_and_the_rest_dead_weight(tiny):
    """Old calls do not count; the profile can be pasted into the configuration."""
    log_calls(tiny, (50, "tiny__hang"), (9, "tiny__echo"), (8, "tiny__echo"), (1, "tiny__paint"))

    told = tiny.json("cost", "--days", "30")

    assert {tool["name"]: tool["calls"] for tool in told["tools"] if tool["calls"]} == {
        "tiny__echo": 2,
        "tiny__paint": 1,
    }
    assert sorted(told["usage"]["unused"]) == ["tiny__fail", "tiny__hang", "tiny__picture"]
    assert tomllib.loads(told["proposal"]["toml"]) == {"profiles": {"lean": {"tools": ["tiny__echo", "tiny__paint"]}}}
    assert told["proposal"]["saved"] == told["usage"]["unusedTokens"]
    assert tiny.json("cost", "--days", "2")["usage"]["used"] == 1


def test_people_get_the_same_in_words(tiny):
    """One line that says it all, then the tables."""
    log_calls(tiny, (40, "tiny__hang"), (9, "tiny__echo"))

    shown = tiny.run("cost").stdout

    assert shown.startswith("6 tools, ~")
    assert "; 4 not used in 30 days." in shown.splitlines()[0]
    assert "[profiles.lean]" in shown
    assert "tiny__echo" in shown


def test_a_young_log_is_not_held_against_the_tools(tiny):
    """What was called just now is used; that the rest was not means nothing yet."""
    tiny.run("call", "tiny__echo", "text=hi")

    first = tiny.run("cost").stdout.splitlines()[0]

    assert "not used" not in first


def test_cached_starts_nothing(tiny):
    """Only what is on record is counted."""
    assert [server["name"] for server in tiny.json("cost", "--cached")["servers"]] == ["toolcrib"]
    assert tiny.starts == 0


def test_a_log_that_cannot_be_read_costs_only_what_it_would_have_told(tiny):
    """The price is known all the same."""
    path = tiny.home / "state" / "toolcrib" / "audit.db"
    path.parent.mkdir(parents=True)
    path.write_text("no database")

    told = tiny.json("cost")

    assert (told["total"]["tools"], told["usage"]) == (6, None)


@pytest.mark.parametrize("days", ["0", "99999"])
def test_a_span_that_makes_no_sense_is_refused(tiny, days):
    """With what to use instead."""
    result = tiny.run("cost", f"--days={days}")

    assert (result.returncode, "Use 1 to 3650" in result.stderr) == (2, True)


@pytest.mark.parametrize("words", [("tokens", "--help"), ("help", "tokens")])
def test_tokens_are_those_that_let_somebody_in(toolcrib, words):
    """What tools cost of a model's context is another command."""
    shown = toolcrib.run(*words).stdout

    assert all(f"tokens {command}" in shown for command in ("create", "ls", "revoke"))
    assert "context" not in shown


def test_up_says_in_one_line_what_it_costs(tiny):
    """Below the table of servers."""
    log_calls(tiny, (40, "tiny__hang"), (9, "tiny__echo"))
    with tiny.serving("up") as serving:
        serving.wait_for("4 not used in 30 days: toolcrib cost")


def test_profiles_are_counted_by_what_they_show(tiny):
    """A profile of one tool costs what that tool costs."""
    tiny.write(tiny.tiny(), '[profiles.small]\ntools = ["tiny__echo"]\n')

    told = tiny.json("cost")

    (small,) = told["profiles"]
    price = {tool["name"]: tool["tokens"] for tool in told["tools"]}
    assert (small["name"], small["tokens"]) == ("small", price["tiny__echo"] + price["result_read"])
