"""The servers over REST, each route against a served toolcrib with real servers."""

import json
import sys

import pytest
from tests.cli.program import TINY
from tests.server.rest.api import serving_api

BROKEN = {"name": "broken", "command": sys.executable, "args": ["-c", "import sys; sys.exit('no luck today')"]}


def tiny_body(program, name="second", **more):
    return {"name": name, "command": sys.executable, "args": [str(TINY), str(program.diary)], **more}


@pytest.fixture
def editable(program):
    with serving_api(program, "--edit-commands") as api:
        yield api


def test_the_servers_are_listed_without_starting_any(api):
    """The same as ``servers ls --json`` says."""
    listed = api.get("/servers")["servers"]

    assert [(entry["name"], entry["state"]) for entry in listed] == [("tiny", "never")]
    assert listed == api.program.json("servers", "ls")
    assert api.program.starts == 0


def test_a_server_is_shown_with_its_tools_its_health_and_its_configuration(program):
    """Secrets are masked."""
    program.write(program.tiny(more='env = { API_KEY = "sk-very-secret-indeed", MODE = "${MODE:-fast}" }'))
    with serving_api(program) as api:
        api.send("POST", "/servers/tiny/refresh")
        found = api.send("GET", "/servers/tiny")

    assert b"very-secret" not in found.body
    assert found.json["config"]["env"] == {"API_KEY": "***", "MODE": "${MODE:-***}"}
    assert found.json["toolNames"][0] == "tiny__echo"
    assert (found.json["health"]["health"], found.json["health"]["state"]) == ("healthy", "connected")


def test_an_unknown_server_is_not_found(api):
    """With the code that says so."""
    replies = [api.send(method, "/servers/nope") for method in ("GET", "DELETE")]
    replies += [api.send("POST", f"/servers/nope/{deed}") for deed in ("enable", "disable", "refresh", "restart")]

    assert {(reply.status, reply.json["code"]) for reply in replies} == {(404, "RESOURCE_NOT_FOUND")}


def test_a_new_server_is_written_and_asked_at_once(editable):
    """What was found is in the answer, and the file has it."""
    reply = editable.send("POST", "/servers", tiny_body(editable.program, description="another"))

    assert reply.status == 201
    assert reply.json["discovery"] == {"status": "success", "tools": 5, "error": None}
    assert reply.json["server"]["state"] == "ok"
    assert 'description = "another"' in editable.program.config.read_text()
    assert editable.call("second__echo", {"text": "hi"}).json["success"]


def test_a_new_server_that_does_not_start_stays_with_its_error(editable):
    """It is 201 all the same: it was added."""
    reply = editable.send("POST", "/servers", BROKEN)
    shown = editable.get("/servers/broken")

    assert (reply.status, reply.json["discovery"]["status"]) == (201, "failed")
    assert "no luck today" in reply.json["discovery"]["error"]
    assert (shown["state"], "no luck today" in shown["error"]) == ("failed", True)
    assert editable.get("/servers/broken/logs")["lines"] == ["no luck today"]


def test_a_name_that_is_taken_is_a_conflict(editable):
    """Nothing is overwritten."""
    before = editable.program.config.read_text()

    assert editable.send("POST", "/servers", tiny_body(editable.program, "tiny")).status == 409
    assert editable.program.config.read_text() == before


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "x"}, "neither a command nor a url"),
        ({"name": "x", "command": "a", "url": "http://127.0.0.1:9/"}, "both a command and a url"),
        ({"name": "x", "url": "http://127.0.0.1:9/", "rate": "often"}, "must be a rate"),
        ({"name": "x", "url": "ftp://127.0.0.1/"}, "url"),
        ({"name": "X y", "url": "http://127.0.0.1:9/"}, "name"),
        ({"name": "x", "url": "http://127.0.0.1:9/", "hedaers": {}}, "hedaers"),
        ({"name": "x", "url": "http://127.0.0.1:9/", "headers": {"Authorization": "***"}}, "not shown"),
    ],
)
def test_what_no_file_could_say_is_refused_in_the_same_words(editable, body, words):
    """And the file stays as it is."""
    before = editable.program.config.read_text()
    reply = editable.send("POST", "/servers", body)

    assert reply.status == 422
    assert words in reply.json["detail"]
    assert editable.program.config.read_text() == before


def test_commands_cannot_be_set_over_http_unless_that_was_wanted(api):
    """Whoever stole a token could run anything."""
    changes = [api.send("POST", "/servers", tiny_body(api.program)), api.send("PATCH", "/servers/tiny", {"args": []})]

    assert [reply.status for reply in changes] == [403, 403]
    assert all("--edit-commands" in reply.json["detail"] for reply in changes)


def test_a_change_keeps_the_comments_and_asks_again_only_if_it_is_another_server(editable):
    """A description is no reason to start anything."""
    described = editable.send("PATCH", "/servers/tiny", {"description": "small", "callTimeout": "20s"})
    starts = editable.program.starts
    moved = editable.send("PATCH", "/servers/tiny", {"env": {"MODE": "fast"}})
    text = editable.program.config.read_text()

    assert (described.json["discovery"], starts) == (None, 0)
    assert described.json["server"]["config"]["description"] == "small"
    assert moved.json["discovery"]["status"] == "success"
    assert "# tiny is small\n[servers.tiny]" in text
    assert "# this one" in text


def test_a_change_that_cannot_be_used_leaves_the_file_alone(editable):
    """The parser says what is wrong."""
    before = editable.program.config.read_text()
    reply = editable.send("PATCH", "/servers/tiny", {"rate": "often"})

    assert (reply.status, "must be a rate" in reply.json["detail"]) == (422, True)
    assert editable.program.config.read_text() == before


def test_an_address_of_a_known_server_can_be_set_by_nobody_below_system(program):
    """Its secrets would go to whoever listens there; a reference would take more of them along."""
    admin = program.json("tokens", "create", "admin", "--level", "admin")["token"]
    with serving_api(program) as api:
        added = api.send("POST", "/servers", {"name": "far", "url": "http://127.0.0.1:9/mcp"}, token=admin)
        refused = [
            api.send("PATCH", "/servers/far", {"url": "http://127.0.0.1:10/mcp"}, token=admin),
            api.send("PATCH", "/servers/far", {"level": "read_only"}, token=admin),
            api.send("POST", "/servers", {"name": "b", "url": "http://127.0.0.1:9/${TOKEN}"}, token=admin),
        ]
        described = api.send("PATCH", "/servers/far", {"description": "far away"}, token=admin)
        moved = api.send("PATCH", "/servers/far", {"url": "http://127.0.0.1:10/mcp"})

    assert (added.status, described.status, moved.status) == (201, 200, 200)
    assert [reply.status for reply in refused] == [403, 403, 403]
    assert "127.0.0.1:10" in moved.json["server"]["runs"]


def test_a_server_of_an_mcp_servers_file_can_be_changed_too(program):
    """In the words of that file."""
    path = program.project / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"Far Away": {"url": "http://127.0.0.1:9/mcp", "note": "mine"}}}))
    with serving_api(program, "--config", str(path)) as api:
        reply = api.send("PATCH", "/servers/far_away", {"callTimeout": 5, "description": "far"})

    entry = json.loads(path.read_text())["mcpServers"]["Far Away"]
    assert reply.status == 200
    assert (entry["timeout"], entry["description"], entry["note"]) == (5000, "far", "mine")


def test_a_server_can_be_switched_off_and_on(api):
    """Its tools leave and come back."""
    off = api.send("POST", "/servers/tiny/disable").json
    refused = api.send("POST", "/servers/tiny/refresh")
    on = api.send("POST", "/servers/tiny/enable").json

    assert (off["server"]["state"], off["discovery"]) == ("disabled", None)
    assert refused.status == 409
    assert (on["server"]["state"], on["discovery"]["tools"]) == ("ok", 5)


def test_a_restart_starts_the_server_anew(api):
    """Another process answers afterwards."""
    api.call("tiny__echo", {"text": "hi"})
    reply = api.send("POST", "/servers/tiny/restart")

    assert (reply.status, reply.json["discovery"]["status"], api.program.starts) == (200, "success", 2)
    assert api.call("tiny__echo", {"text": "hi"}).json["success"]


def test_a_removed_server_is_gone_from_the_file(api):
    """And from the list; the answer has no body."""
    reply = api.send("DELETE", "/servers/tiny")

    assert (reply.status, reply.body) == (204, b"")
    assert "servers.tiny" not in api.program.config.read_text()
    assert api.get("/servers") == {"servers": []}


def test_logs_are_the_end_of_what_a_server_wrote_and_start_nothing(api):
    """One that was never started wrote nothing."""
    before = api.get("/servers/tiny/logs")["lines"]
    starts = api.program.starts
    api.send("POST", "/servers/tiny/refresh")

    assert (before, starts) == ([], 0)
    assert api.get("/servers/tiny/logs?lines=1")["lines"] == ["tiny: at your service"]
    assert api.get("/servers/tiny/logs?lines=0")["lines"] == []
    assert api.send("GET", "/servers/tiny/logs?lines=many").status == 422


def test_who_may_not_look_after_toolcrib_does_not_learn_how_servers_are_run(program):
    """And nothing at all of servers out of reach."""
    near = program.json("tokens", "create", "near", "--server", "tiny")["token"]
    far = program.json("tokens", "create", "far", "--server", "other")["token"]
    with serving_api(program) as api:
        [entry] = api.get("/servers", token=near)["servers"]
        shown = api.get("/servers/tiny", token=near)
        hidden = (api.get("/servers", token=far), api.send("GET", "/servers/tiny", token=far).status)

    assert (entry["runs"], entry["origin"], shown["config"]) == (None, None, None)
    assert hidden == ({"servers": []}, 404)


def test_what_a_server_wrote_before_it_died_is_told_to_operators_only(program):
    """Its last words may name files and secrets; that it does not work is no secret."""
    program.write(program.broken())
    near = program.json("tokens", "create", "near", "--level", "read_only", "--server", "broken")["token"]
    with serving_api(program) as api:
        api.send("POST", "/servers/broken/refresh")
        [entry] = api.get("/servers", token=near)["servers"]
        told = [api.raw("GET", path, token=near).body for path in ("/servers", "/servers/broken", "/health")]
        known = api.raw("GET", "/servers", token=api.token).body

    assert (entry["state"], entry["error"]) == ("failed", None)
    assert [b"no luck today" in body for body in (*told, known)] == [False, False, False, True]


def test_changes_are_in_the_audit_log(api):
    """With who made them."""
    api.send("POST", "/servers/tiny/disable")
    entries = api.get("/audit")["entries"]

    [entry] = [entry for entry in entries if entry["event"] == "server"]
    assert (entry["server"], entry["decision"], entry["caller"]) == ("tiny", "disabled", "owner")


def test_a_file_that_is_given_a_secret_is_closed_to_others(api):
    """Nobody else on the machine reads the token of a server that was added from afar."""
    api.program.config.chmod(0o644)
    headers = {"Authorization": "Bearer abc"}

    added = api.send("POST", "/servers", {"name": "docs", "url": "http://127.0.0.1:9/mcp", "headers": headers})

    assert added.status == 201
    assert api.program.config.stat().st_mode & 0o777 == 0o600
