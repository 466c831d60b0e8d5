"""Policies over REST."""

from tests.server.rest.api import serving_api


def test_a_policy_counts_at_once_and_is_written_down(api):
    """The answer shows what holds now."""
    api.send("POST", "/servers/tiny/refresh")
    reply = api.send("PUT", "/policies/tiny__fail", {"policy": "deny"})

    assert (reply.status, [tool["policy"] for tool in reply.json["tools"]]) == (200, ["deny"])
    assert api.call("tiny__fail").status == 403
    assert api.get("/policies")["patterns"] == {"tiny__fail": "deny"}
    assert 'tiny__fail = "deny"' in api.program.config.read_text()
    noted = [(entry["tool"], entry["decision"]) for entry in api.get("/audit")["entries"] if entry["event"] == "policy"]
    assert noted == [("tiny__fail", "deny")]


def test_a_policy_of_a_pattern_or_of_a_server_is_shown_with_the_tools_it_stands_for(api):
    """A server's own stands in its table."""
    api.send("POST", "/servers/tiny/refresh")
    api.send("PUT", "/policies/tiny__p*", {"policy": "ask"})
    api.send("PUT", "/policies/tiny", {"policy": "deny"})
    pattern, server = api.get("/policies/tiny__p*"), api.get("/policies/tiny")

    assert [tool["name"] for tool in pattern["tools"]] == ["tiny__paint", "tiny__picture"]
    assert pattern["policy"] == "ask"
    assert {tool["name"]: tool["policy"] for tool in server["tools"]}["tiny__echo"] == "deny"


def test_policies_that_make_no_sense_are_refused(api):
    """Words there are not, and patterns no file should have."""
    before = api.program.config.read_text()
    replies = [
        api.send("PUT", "/policies/tiny", {"policy": "maybe"}),
        api.send("PUT", "/policies/a%0Ab", {"policy": "ask"}),
        api.send("PUT", f"/policies/{'a' * 300}", {"policy": "ask"}),
    ]

    assert [reply.status for reply in replies] == [422, 422, 422]
    assert api.send("GET", "/policies/nothing").status == 404
    assert api.program.config.read_text() == before


def test_without_a_file_of_its_own_a_project_has_the_policies_of_the_user(program):
    """As ``toolcrib policy`` does it."""
    program.config.unlink()
    with serving_api(program) as api:
        reply = api.send("PUT", "/policies/calculate", {"policy": "deny"})

    assert (reply.status, reply.json["policy"]) == (200, "deny")
    assert not program.config.exists()
    assert [row["policy"] for row in program.json("policy", "calculate")] == ["deny"]
