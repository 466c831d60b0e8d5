"""Calls under way over REST."""

import threading

from tests.fleet.running import until
from tests.server.rest.api import serving_api


def hang(api, token=None):
    replies = []
    thread = threading.Thread(target=lambda: replies.append(api.call("tiny__hang", token=token)), daemon=True)
    thread.start()
    until(lambda: api.program.has_noted("called hang"), deadline_s=150, what="the call")
    return thread, replies


def test_a_call_under_way_can_be_ended(api):
    """Its caller is told, and that it ended is remembered."""
    thread, replies = hang(api)
    [call] = api.get("/calls")["calls"]
    ended = api.send("POST", f"/calls/{call['id']}/cancel")
    thread.join(150)
    again = api.send("POST", f"/calls/{call['id']}/cancel")

    assert (call["tool"], call["outcome"], ended.json["cancelled"]) == ("tiny__hang", "", True)
    assert "A person ended this call" in replies[0].json["error"]["message"]
    assert api.get(f"/calls/{call['id']}")["outcome"] == "TOOL_CANCELLED"
    assert again.status == 409


def test_calls_are_remembered_without_what_was_said(api):
    """Of the arguments only names and kinds."""
    api.call("tiny__echo", {"text": "a-secret-word"})
    api.call("tiny__fail")
    listed = api.send("GET", "/calls")
    only = api.get("/calls?tool=tiny__echo&limit=5")["calls"]

    assert [call["tool"] for call in listed.json["calls"]] == ["tiny__fail", "tiny__echo"]
    assert b"a-secret-word" not in listed.body
    assert [call["outcome"] for call in only] == ["success"]
    assert api.send("GET", "/calls/nothing").status == 404


def test_whoever_calls_sees_and_ends_their_own_calls_only(program):
    """Others' are not there for them."""
    one, two = (program.json("tokens", "create", name, "--level", "write")["token"] for name in ("one", "two"))
    with serving_api(program) as api:
        thread, _ = hang(api, one)
        [call] = api.get("/calls", token=one)["calls"]
        others = api.get("/calls", token=two), api.send("POST", f"/calls/{call['id']}/cancel", token=two).status
        own = api.send("POST", f"/calls/{call['id']}/cancel", token=one).status
        thread.join(150)

    assert others == ({"calls": []}, 404)
    assert own == 200
