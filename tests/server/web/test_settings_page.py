"""Settings: where values come from, policies, tokens and files."""

import json
import re

from tests.server.web.site import Visitor, opened


def test_settings_say_where_they_were_written(tiny):
    """Defaults are shown on demand."""
    with opened(tiny) as visitor:
        written, everything = visitor.get("/settings").text, visitor.get("/settings?all=yes").text
        found = visitor.get("/settings?all=yes&q=serve.port").text

    assert "connect.attempts" in written
    assert "toolcrib.toml:2" in written
    assert "serve.host" not in written.partition('id="rows"')[2]
    assert "default" in everything
    assert "connect.attempts" not in found


def test_a_policy_is_set_by_pattern_and_counts_at_once(tiny):
    """It is written to the file and to the audit log."""
    with opened(tiny) as visitor:
        visitor.post("/servers/tiny/refresh")
        reply = visitor.post("/settings/policies", pattern="tiny__f*", policy="deny")
        page, server = visitor.get(reply.place).text, visitor.get("/servers/tiny").text

    assert reply.place == "/settings/policies?done=policy&name=tiny__f%2A"
    assert "tiny__f*" in page
    assert '"tiny__f*" = "deny"' in tiny.config.read_text()
    assert ">deny<" in server
    assert "policy" in tiny.run("audit", "search", "--json").stdout


def test_a_policy_that_makes_no_sense_is_refused(tiny):
    """With what was entered still there."""
    with opened(tiny) as visitor:
        assert visitor.post("/settings/policies", pattern="", policy="deny").status == 422
        wrong = visitor.post("/settings/policies", pattern="tiny__*", policy="maybe")

    assert wrong.status == 422
    assert 'value="tiny__*"' in wrong.text
    assert "maybe" not in tiny.config.read_text()


def test_a_token_is_shown_once_and_can_be_ended(tiny):
    """The list has its name, never the token."""
    with opened(tiny) as visitor:
        visitor.get("/settings/tokens")
        made = visitor.post("/settings/tokens", name="cursor", level="write", tools="tiny__*", lifetime="30")
        token = re.search(r"tc_[0-9a-f]{12}_[\w-]+", made.text)[0]
        listed = visitor.get("/settings/tokens").text
        kept = json.loads(tiny.run("tokens", "ls", "--json").stdout)
        ended = visitor.post(f"/settings/tokens/{kept[0]['id']}/revoke")
        after = visitor.get(ended.place).text

    assert made.status == 200
    assert token not in listed
    assert "cursor" in listed
    assert (kept[0]["level"], kept[0]["tools"], kept[0]["state"]) == ("write", ["tiny__*"], "active")
    assert "The token cursor was revoked." in after
    assert json.loads(tiny.run("tokens", "ls", "--json").stdout)[0]["state"] == "revoked"


def test_nobody_makes_a_token_that_reaches_further_than_themselves(tiny):
    """An admin cannot make a token for the system level."""
    admin = json.loads(tiny.run("tokens", "create", "admin", "--level", "admin", "--json").stdout)
    with tiny.serving("serve") as serving:
        visitor = Visitor(serving.port)
        visitor.sign_in(admin["token"])
        page = visitor.get("/settings/tokens").text
        refused = visitor.post("/settings/tokens", name="more", level="system", lifetime="30")
        allowed = visitor.post("/settings/tokens", name="more", level="admin", lifetime="30")

    assert "<option>system</option>" not in page
    assert refused.status == 422
    assert allowed.status == 200


def test_a_token_needs_a_name_and_a_known_lifetime(tiny):
    """What was entered comes back."""
    with opened(tiny) as visitor:
        visitor.get("/settings/tokens")
        assert visitor.post("/settings/tokens", name=" ", level="write", lifetime="30").status == 422
        wrong = visitor.post("/settings/tokens", name="x", level="write", lifetime="1000000")

    assert wrong.status == 422
    assert 'value="x"' in wrong.text


def test_files_and_version_are_shown(tiny):
    """Where a person has to look."""
    with opened(tiny) as visitor:
        page = visitor.get("/settings/about").text

    assert "~/project/toolcrib.toml" in page
    assert "0.1.0" in page
