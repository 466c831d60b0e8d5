"""The servers on the page: the table, one of them, and the buttons."""

import json
import re
from dataclasses import replace

from tests.server.web.site import opened

from toolcrib.config.lock import Record
from toolcrib.config.manifest import LISTED_IN_MANIFEST
from toolcrib.stores.lockfile import LockFile


def test_the_table_shows_every_server_and_its_state(tiny):
    """With what to do about those that are not in order."""
    tiny.write(tiny.tiny(), tiny.broken(), tiny.tiny("resting", "enabled = false"))
    with opened(tiny) as visitor:
        assert "not asked yet" in visitor.get("/servers").text
        visitor.post("/servers/tiny/refresh")
        visitor.post("/servers/broken/refresh")
        page = visitor.get("/servers").text

        assert ">ready<" in page
        assert ">failed<" in page
        assert ">off<" in page
        assert "Try again" in page
        assert 'action="/servers/resting/enable"' in page


def test_the_filter_looks_at_names_commands_and_states(tiny):
    """What does not fit is not shown; nothing that fits says so."""
    tiny.write(tiny.tiny(), tiny.broken())
    with opened(tiny) as visitor:
        assert 'href="/servers/broken"' not in visitor.get("/servers?q=TINY_server").text
        assert 'href="/servers/tiny"' in visitor.get("/servers?q=TINY_server").text
        assert "No server fits" in visitor.get("/servers?q=zebra").text
        assert "No server fits" in visitor.get("/servers?state=failed").text


def test_a_server_that_died_tells_its_last_words_and_what_to_try(tiny):
    """The page of a failed server is an autopsy."""
    tiny.write(tiny.broken())
    with opened(tiny) as visitor:
        reply = visitor.post("/servers/broken/refresh")
        page = visitor.get("/servers/broken").text

    assert reply.place == "/servers/broken?done=still_failing&name=broken"
    assert "Its process exited with code 1" in page
    assert "no luck today" in page
    assert "exit code 1" in page
    assert "Next: " in page
    assert 'class="chain attempts"' in page


def test_testing_a_server_shows_its_tools_and_its_log(tiny):
    """Everything of one server is on one page."""
    with opened(tiny) as visitor:
        assert "Try again" in visitor.get("/servers/tiny").text
        asked = visitor.post("/servers/tiny/refresh")
        page = visitor.get(asked.place).text

    assert asked.place == "/servers/tiny?done=asked&name=tiny"
    assert "Server tiny was asked for its tools." in page
    assert ">echo<" in page
    assert "tiny: at your service" in page
    assert "toolcrib.toml:" in page


def test_restarting_starts_the_process_anew(tiny):
    """The old process is gone, a new one answers."""
    with opened(tiny) as visitor:
        visitor.post("/servers/tiny/refresh")
        before = tiny.starts
        reply = visitor.post("/servers/tiny/restart")

        assert reply.place == "/servers/tiny?done=restarted&name=tiny"
        assert tiny.starts == before + 1


def test_switching_off_and_on_is_written_to_the_file(tiny):
    """A server that is off cannot be tested."""
    with opened(tiny) as visitor:
        off = visitor.post("/servers/tiny/disable")
        text = tiny.config.read_text()
        refused = visitor.post("/servers/tiny/refresh")
        on = visitor.post("/servers/tiny/enable")

    assert off.place == "/servers/tiny?done=disabled&name=tiny"
    assert "enabled = false" in text
    assert refused.status == 409
    assert on.place == "/servers/tiny?done=enabled&name=tiny"
    assert "enabled = true" in tiny.config.read_text()


def test_removing_asks_first(tiny):
    """The question is a page of its own, so it works everywhere."""
    with opened(tiny) as visitor:
        question = visitor.get("/servers/tiny/remove").text
        assert "[servers.tiny]" in tiny.config.read_text()
        reply = visitor.post("/servers/tiny/remove")
        gone = visitor.get("/servers/tiny")

    assert "Remove tiny?" in question
    assert reply.place == "/servers?done=removed&name=tiny"
    assert "[servers.tiny]" not in tiny.config.read_text()
    assert gone.status == 404


def test_a_sentence_of_somebody_else_is_not_shown(tiny):
    """Addresses can only ask for sentences the page has."""
    with opened(tiny) as visitor:
        assert "toast" not in visitor.get("/servers?done=You+were+hacked").text.partition('class="toasts"')[2][:200]


def test_a_held_server_without_tools_is_accepted_as_it_was_looked_at(tiny):
    """A manifest says something else of it than what was accepted; what was not looked at is not accepted."""
    tiny.write("[platform]\ndevelopment = true")
    listed = [{"mcpServerName": "mail", "url": "http://127.0.0.1:1/mcp"}]
    (tiny.project / "ToolingManifest.json").write_text(json.dumps({"mcpServers": listed}))
    LockFile(tiny.project / "toolcrib.lock").update(
        "mail", lambda found: replace(found or Record("mail"), entry=f"{LISTED_IN_MANIFEST} another")
    )
    with opened(tiny) as visitor:
        page = visitor.get("/servers/mail").text
        unseen = visitor.post("/servers/mail/approve", seen="0" * 64)
        shown = re.search(r'name="seen" value="(\w+)"', page)
        assert shown is not None
        accepted = visitor.post("/servers/mail/approve", seen=shown[1])
        after, again = visitor.get("/servers/mail").text, visitor.post("/servers/mail/approve", seen=shown[1])

    assert "This server is in quarantine" in page
    assert (unseen.status, again.status) == (409, 404)
    assert accepted.place == "/servers/mail?done=accepted&name=mail"
    assert "in quarantine" not in after
