"""The quarantine over REST: nobody accepts what they did not see."""

import json

import pytest
from tests.server.rest.api import serving_api


def show(program, description):
    tool = {"name": "get_thing", "description": description, "inputSchema": {"type": "object"}}
    (program.home / "face.json").write_text(json.dumps([tool]))


@pytest.fixture
def held(turncoat):
    """A tool that changed after it was accepted."""
    with serving_api(turncoat) as api:
        api.send("POST", "/servers/box/refresh")
        show(turncoat, "new words")
        api.send("POST", "/servers/box/refresh")
        yield api


def test_what_is_in_quarantine_is_shown_with_what_changed(held):
    """The same as ``toolcrib diff --json``."""
    [pin] = held.get("/pins")["pins"]

    assert [pin] == held.program.json("diff")
    assert any(line.startswith("+") and "new words" in line for line in pin["diff"])
    assert held.get("/tools/box__get_thing")["pin"]["state"] == "held"
    assert held.call("box__get_thing").status == 403


def test_what_was_seen_can_be_accepted(held):
    """It can be called again, and the log has who accepted it."""
    [pin] = held.get("/pins")["pins"]
    reply = held.send("POST", "/pins/box__get_thing/approve", {"seen": pin["seen"]})

    assert (reply.status, reply.json) == (200, {"approved": ["box__get_thing"]})
    assert held.call("box__get_thing").status == 200
    [noted] = [entry for entry in held.get("/audit")["entries"] if entry.get("decision") == "accepted"]
    assert (noted["event"], noted["caller"]) == ("pin", "owner")


def test_what_changed_again_since_is_not_accepted(held):
    """The word belongs to what was shown."""
    [pin] = held.get("/pins")["pins"]
    show(held.program, "other words")
    held.send("POST", "/servers/box/refresh")
    replies = [held.send("POST", "/pins/box__get_thing/approve", {"seen": seen}) for seen in (pin["seen"], "", "abc")]

    assert [reply.status for reply in replies] == [409, 422, 422]
    assert len(held.get("/pins")["pins"]) == 1


def test_what_is_not_in_quarantine_cannot_be_accepted(held):
    """Nor what is not there."""
    assert held.send("POST", "/pins/result_read/approve", {"seen": "0" * 12}).status == 404


def test_a_field_can_be_trusted_with_the_approval(held):
    """Its changes count no more; a field that is not there is refused, and nothing is accepted."""
    [pin] = held.get("/pins")["pins"]
    address = "/pins/box__get_thing/approve"
    wrong = held.send("POST", address, {"seen": pin["seen"], "trust": ["inputSchema"]})
    trusted = held.send("POST", address, {"seen": pin["seen"], "trust": ["description"]})
    show(held.program, "yet other words")
    held.send("POST", "/servers/box/refresh")

    assert (wrong.status, trusted.status, held.get("/pins")["pins"]) == (422, 200, [])
    assert held.get("/tools/box__get_thing")["pin"]["trusted"] == ["description"]
    [noted] = [entry for entry in held.get("/audit")["entries"] if entry.get("decision") == "accepted"]
    assert noted["details"] == {"trusted": ["description"]}


def test_trust_is_taken_back_without_a_quarantine(held):
    """With the word of what it is now."""
    [pin] = held.get("/pins")["pins"]
    address = "/pins/box__get_thing/approve"
    held.send("POST", address, {"seen": pin["seen"], "trust": ["description"]})
    now = held.get("/tools/box__get_thing")["pin"]["hash"]
    reply = held.send("POST", address, {"seen": now, "distrust": ["description"]})

    assert (reply.status, held.get("/tools/box__get_thing")["pin"]["trusted"]) == (200, [])
