"""The audit log over REST."""

import pytest
from tests.fleet.running import until
from tests.server.rest.api import serving_api


def wait_for_calls(api, count):
    """Ends of calls are written a moment after they are answered."""

    def written():
        return sum(entry["event"] == "call" for entry in api.get("/audit")["entries"])

    until(lambda: written() == count, deadline_s=150, what=f"{count} calls in the log")


def test_the_log_is_read_from_its_end_page_by_page(api):
    """Each entry once, the newest first."""
    for number in range(3):
        api.call("tiny__echo", {"text": str(number)})
    api.call("tiny__fail")
    wait_for_calls(api, 4)
    first = api.get("/audit?tool=tiny__*&limit=3")
    rest = api.get(f"/audit?tool=tiny__*&before={first['nextBefore']}")

    assert [entry["tool"] for entry in first["entries"]] == ["tiny__fail", "tiny__echo", "tiny__echo"]
    assert [entry["tool"] for entry in rest["entries"]] == ["tiny__echo"]
    assert rest["nextBefore"] is None
    assert first["entries"][0]["executionId"]


def test_the_log_is_searched_by_who_what_when_and_how_it_ended(api):
    """Patterns, and times as people write them."""
    api.call("tiny__echo", {"text": "hi"}, token="")
    api.call("tiny__fail")
    wait_for_calls(api, 2)

    def found(query):
        return [entry["tool"] for entry in api.get(f"/audit?{query}")["entries"] if entry["event"] == "call"]

    assert found("caller=local") == ["tiny__echo"]
    assert found("outcome=TOOL_*") == ["tiny__fail"]
    assert found("since=1h&until=2999-01-01T00:00:00Z") == ["tiny__fail", "tiny__echo"]
    assert found("until=1h") == []


@pytest.mark.parametrize("query", ["since=soon", "until=", "before=-1", "limit=all", f"tool={'*a' * 200}"])
def test_what_cannot_be_searched_for_is_refused(api, query):
    """With what to write instead."""
    assert api.send("GET", f"/audit?{query}").status == 422


def test_the_chain_is_checked(api):
    """The same as ``audit verify --json``."""
    api.call("tiny__echo", {"text": "hi"})

    assert api.get("/audit/verify")["status"] == "clean"


def test_where_nothing_is_written_there_is_nothing_to_read(program):
    """And it says why."""
    program.write("[audit]\nenabled = false", program.tiny())
    with serving_api(program) as api:
        replies = [api.send("GET", path) for path in ("/audit", "/audit/verify")]

    assert [reply.status for reply in replies] == [404, 404]
    assert "switched off" in replies[0].json["detail"]


def test_a_token_can_be_made_for_reading_the_log_and_nothing_else(program):
    """It sees the log, but may change nothing."""
    auditor = program.json("tokens", "create", "auditor", "--capability", "audit")["token"]
    with serving_api(program) as api:
        statuses = [api.send("GET", path, token=auditor).status for path in ("/audit", "/audit/verify", "/pins")]

    assert statuses == [200, 200, 403]
