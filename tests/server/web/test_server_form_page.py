"""Adding and changing servers by form: what runs a command needs a switch, secrets are neither shown nor lost."""

import json
import os
import pty
import re
import shlex
import sys
import threading
import tomllib

from tests.cli.keyboard import answer, read
from tests.cli.program import TINY
from tests.server.web.site import Visitor, opened

SECRET = "hunter2-hunter2-hunter2"


def servers(program) -> dict:
    return tomllib.loads(program.config.read_text()).get("servers", {})


def test_a_command_can_only_be_added_where_that_is_switched_on(tiny):
    """Otherwise the page says which command does it, and the form itself is refused."""
    with opened(tiny) as visitor:
        page = visitor.get("/servers/add?kind=command").text
        refused = visitor.post("/servers/add", kind="command", name="more", command="true")

    assert "toolcrib servers add time -- uvx mcp-server-time" in page
    assert refused.status == 403
    assert list(servers(tiny)) == ["tiny"]


def test_a_kind_that_is_made_up_does_not_run_a_command(tiny):
    """Only the kind `command` reads a command."""
    with opened(tiny) as visitor:
        reply = visitor.post("/servers/add", kind="Command", name="more", command="true", url="")

    assert reply.status == 422
    assert list(servers(tiny)) == ["tiny"]


def test_a_command_is_added_and_asked_at_once(tiny):
    """It is read as a terminal reads it; a variable without a value comes from toolcrib's own environment."""
    tiny.env["SOME_KEY"] = "a value"
    with opened(tiny, "--edit-commands") as visitor:
        command = f"{sys.executable} '{TINY}' {tiny.diary}"
        fields = {"env_name_0": "SOME_KEY", "env_value_0": "", "env_name_1": "B", "env_value_1": "two words"}
        reply = visitor.post("/servers/add", kind="command", name="second", command=command, **fields)
        page = visitor.get(reply.place).text

    assert reply.place == "/servers/second?done=added&name=second"
    assert servers(tiny)["second"] == {
        "command": sys.executable,
        "args": [str(TINY), str(tiny.diary)],
        "env": {"SOME_KEY": "${SOME_KEY}", "B": "two words"},
    }
    assert ">echo<" in page


def test_an_address_is_added_and_stays_though_nobody_answers(tiny):
    """What came of it is on the server's page."""
    with opened(tiny) as visitor:
        fields = {"header_name_0": "Authorization", "header_value_0": f"Bearer {SECRET}"}
        reply = visitor.post("/servers/add", kind="url", name="remote", url="http://127.0.0.1:9/mcp", **fields)
        page = visitor.get(reply.place).text

    assert reply.place == "/servers/remote?done=still_failing&name=remote"
    assert "Connection refused" in page
    assert SECRET not in page
    assert servers(tiny)["remote"]["headers"] == {"Authorization": f"Bearer {SECRET}"}


def test_a_secret_is_kept_out_of_the_file_unless_somebody_wants_it_there(tiny):
    """The form offers it, and says what it does."""
    fields = {"header_name_0": "Authorization", "header_value_0": f"Bearer {SECRET}", "url": "http://127.0.0.1:9/mcp"}
    with opened(tiny) as visitor:
        form = visitor.get("/servers/add?kind=url").text
        visitor.post("/servers/add", kind="url", name="kept", keep_secrets="on", **fields)
        visitor.post("/servers/add", kind="url", name="plain", **fields)
        before = servers(tiny)
        visitor.post("/servers/plain/edit", keep_secrets="on", **{**fields, "header_value_0": ""})
        page = visitor.get("/servers/kept").text

    assert re.search(r'name="keep_secrets"[^>]* checked', form)
    assert before["kept"]["headers"] == {"Authorization": "Bearer ${KEPT_TOKEN}"}
    assert before["plain"]["headers"] == {"Authorization": f"Bearer {SECRET}"}
    assert servers(tiny)["plain"]["headers"] == {"Authorization": "Bearer ${PLAIN_TOKEN}"}
    assert [one["name"] for one in tiny.json("secrets", "ls")] == ["KEPT_TOKEN", "PLAIN_TOKEN"]
    assert SECRET not in page


def test_what_cannot_be_used_is_said_and_nothing_entered_is_lost(tiny):
    """The form comes back as it was."""
    with opened(tiny) as visitor:
        wrong = visitor.post("/servers/add", kind="url", name="Not A Name", url="https://example.com/mcp")
        taken = visitor.post("/servers/add", kind="url", name="tiny", url="https://example.com/mcp")
        no_url = visitor.post("/servers/add", kind="url", name="more", url="ftp://example.com")

    assert (wrong.status, taken.status, no_url.status) == (422, 422, 422)
    assert 'value="Not A Name"' in wrong.text
    assert "There is already a server" in taken.text
    assert "http:// or https://" in no_url.text


def test_editing_keeps_secrets_it_does_not_show(tiny):
    """A field left empty leaves the value; a cleared name takes it out; comments in the file stay."""
    tiny.write(tiny.tiny("tiny", f'env = {{ API_KEY = "{SECRET}", GONE = "x", TZ = "UTC" }}'))
    with opened(tiny, "--edit-commands") as visitor:
        page = visitor.get("/servers/tiny/edit").text
        command = f"{sys.executable} {TINY} {tiny.diary}"
        fields = {"env_name_0": "API_KEY", "env_value_0": "", "env_name_1": "", "env_value_1": "x"}
        more = {"env_name_2": "TZ", "env_value_2": "CET", "description": "small", "timeout": "7"}
        reply = visitor.post("/servers/tiny/edit", command=command, **fields, **more)

    assert SECRET not in page
    assert 'value="UTC"' in page
    assert reply.place == "/servers/tiny?done=changed&name=tiny"
    assert servers(tiny)["tiny"]["env"] == {"API_KEY": SECRET, "TZ": "CET"}
    assert servers(tiny)["tiny"]["description"] == "small"
    assert "# tiny is small" in tiny.config.read_text()


def test_a_masked_secret_is_never_written(tiny):
    """A line with the mask in it is either left whole or refused."""
    url = f"http://127.0.0.1:9/mcp?api_key={SECRET}"
    tiny.write(f'[servers.remote]\nurl = "{url}"')
    with opened(tiny) as visitor:
        page = visitor.get("/servers/remote/edit").text
        kept = visitor.post("/servers/remote/edit", url="http://127.0.0.1:9/mcp?api_key=***", description="far")
        refused = visitor.post("/servers/remote/edit", url="http://127.0.0.1:9/other?api_key=***")

    assert SECRET not in page
    assert kept.status == 303
    assert refused.status == 422
    assert servers(tiny)["remote"]["url"] == url
    assert servers(tiny)["remote"]["description"] == "far"


def test_a_command_cannot_be_changed_without_the_switch(tiny):
    """Not even its description."""
    with opened(tiny) as visitor:
        page = visitor.get("/servers/tiny/edit").text
        reply = visitor.post("/servers/tiny/edit", command="evil", description="x")

    assert "toolcrib.toml" in page
    assert reply.status == 403
    assert servers(tiny)["tiny"]["command"] == sys.executable


def test_an_admin_cannot_have_secrets_sent_elsewhere(tiny):
    """Neither those of a known server, by its address, nor those of toolcrib's environment, by a reference."""
    far = '[servers.remote]\nurl = "http://127.0.0.1:9/mcp"\nheaders = { Authorization = "Bearer ${KEY}" }'
    tiny.write(far)
    tiny.env["KEY"] = SECRET
    admin = json.loads(tiny.run("tokens", "create", "admin", "--level", "admin", "--json").stdout)
    kept = {"header_name_0": "Authorization", "header_value_0": ""}
    with tiny.serving("serve", "--edit-commands") as serving:
        visitor = Visitor(serving.port)
        visitor.sign_in(admin["token"])
        visitor.get("/servers")
        moved = visitor.post("/servers/remote/edit", url="http://127.0.0.1:8/mcp", **kept)
        reference = {"header_name_0": "X", "header_value_0": "${KEY}"}
        taken = visitor.post("/servers/add", kind="url", name="more", url="http://127.0.0.1:8/mcp", **reference)
        runs = visitor.post("/servers/add", kind="command", name="more", command="true")
        described = visitor.post("/servers/remote/edit", url="http://127.0.0.1:9/mcp", description="far", **kept)

    assert (moved.status, taken.status, runs.status, described.status) == (403, 403, 403, 303)
    assert servers(tiny)["remote"] == {
        "url": "http://127.0.0.1:9/mcp",
        "headers": {"Authorization": "Bearer ${KEY}"},
        "description": "far",
    }
    assert list(servers(tiny)) == ["remote"]


def test_what_is_changed_is_written_down(tiny):
    """Before it is done, with who did it."""
    with opened(tiny) as visitor:
        visitor.post("/servers/tiny/disable")
        found = json.loads(tiny.run("audit", "search", "--json").stdout)

    assert [(entry["server"], entry["decision"]) for entry in found if entry["event"] == "server"] == [
        ("tiny", "disabled")
    ]


def test_who_shares_a_server_is_chosen_and_shown(tiny):
    """A form that does not ask for it changes nothing of it."""
    where = {"kind": "url", "url": "http://127.0.0.1:9/mcp"}
    with opened(tiny) as visitor:
        visitor.post("/servers/add", name="remote", share="user", **where)
        page = visitor.get("/servers/remote").text
        form = visitor.get("/servers/remote/edit").text
        visitor.post("/servers/remote/edit", description="More.", **where)
        kept = servers(tiny)["remote"]["share"]
        visitor.post("/servers/remote/edit", share="", **where)

    assert "the sessions of one caller: configured" in page
    assert "<option selected>user</option>" in form
    assert (kept, "share" in servers(tiny)["remote"]) == ("user", False)


def test_a_program_is_added_after_a_word_at_the_terminal(toolcrib):
    """The terminal shows the command; what is declined changes nothing, and nothing is restarted."""
    toolcrib.env["TERM"] = "xterm"
    ours, theirs = pty.openpty()
    process = toolcrib.start("up", "--port", "0", stdin=theirs, stderr=theirs, stdout=theirs)
    os.close(theirs)
    try:
        said = read(ours, "this link works once")
        visitor = Visitor(int(re.search(r":(\d+)/mcp", said)[1]))
        visitor.get("/signin")
        visitor.sign_in((toolcrib.home / "state" / "toolcrib" / "token").read_text().strip())
        page = visitor.get("/servers/add?kind=command").text
        command = shlex.join([sys.executable, str(TINY), str(toolcrib.diary)])
        answers, shown = [], []
        for name, key in (("first", "n"), ("second", "o")):
            fields = {"kind": "command", "name": name, "command": command}
            sending = threading.Thread(
                target=lambda fields=fields: answers.append(visitor.post("/servers/add", **fields))
            )
            sending.start()
            shown.append(answer(ours, "[n]o?", key))
            sending.join(150)
    finally:
        process.kill()
        process.wait()
        os.close(ours)

    assert "You are asked once more, in the terminal" in page
    assert [reply.status for reply in answers] == [422, 303]
    assert "was not confirmed" in answers[0].text
    assert all(str(TINY) in text.replace("\r\n", "") for text in shown)
    assert list(servers(toolcrib)) == ["second"]
