"""What holds for every page: it is guarded, escapes what strangers wrote, gives no secret away, and stays small."""

import json
import sys
from pathlib import Path

import pytest
from tests.server.web.site import Visitor, opened

from toolcrib.server.web.static_files import CONTENT_SECURITY_POLICY

HOSTILE = Path(__file__).with_name("hostile_server.py")
SECRET = "hunter2-hunter2-hunter2"
PAGES = [
    "/",
    "/servers",
    "/servers?q=<script>alert(1)</script>&state=%22%3E<b>",
    "/servers/add",
    "/servers/add?kind=command",
    "/servers/import",
    "/servers/tiny",
    "/servers/tiny/edit",
    "/servers/tiny/remove",
    "/servers/hostile",
    "/servers/dying",
    "/servers/remote",
    "/servers/remote/edit",
    "/servers/resting",
    "/connect",
    "/connect?client=<script>alert(1)</script>",
    "/connect?client=vscode&token=yes",
    "/connect?client=zed&how=stdio",
    "/settings",
    "/settings?all=yes&q=<script>alert(1)</script>",
    "/settings/policies",
    "/settings/tokens",
    "/settings/about",
    "/settings/clients",
]
FOR_OPERATORS = [path for path in PAGES if path.startswith(("/servers", "/settings")) and path != "/settings/clients"]


def _server(name: str, *args: str) -> str:
    return f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(HOSTILE), *args])}"


@pytest.fixture
def full(toolcrib):
    """Servers of every kind, with secrets in every place a configuration has for them."""
    secrets = f'env = {{ API_KEY = "{SECRET}" }}\ndescription = "<script>alert(4)</script>"'
    toolcrib.write(
        toolcrib.tiny("tiny", secrets),
        _server("hostile"),
        _server("dying", "die"),
        f'[servers.remote]\nurl = "http://127.0.0.1:9/mcp?api_key={SECRET}"\n'
        f'headers = {{ Authorization = "Bearer {SECRET}" }}',
        toolcrib.tiny("resting", "enabled = false"),
    )
    return toolcrib


def test_every_page_is_guarded_escaped_and_keeps_secrets(full):
    """Whatever servers, files and addresses say, nothing of it becomes part of the page."""
    with opened(full, "--edit-commands") as visitor:
        for name in ("tiny", "hostile", "dying", "remote"):
            visitor.post(f"/servers/{name}/refresh")
        owner = (full.home / "state/toolcrib/token").read_text().strip()
        for path in PAGES:
            reply = visitor.get(path.replace("<", "%3C").replace(">", "%3E"))

            assert reply.status == 200, path
            assert reply.headers["content-security-policy"] == CONTENT_SECURITY_POLICY.decode(), path
            assert reply.headers["cache-control"] == "no-store", path
            assert "<script>alert" not in reply.text, path
            assert "<img src=x" not in reply.text, path
            assert '" onmouseover="' not in reply.text, path
            assert SECRET not in reply.text, path
            assert owner not in reply.text, path
            assert reply.sent_bytes < 100_000, path


def test_what_a_hostile_server_says_is_shown_as_text(full):
    """A person can read it all the same."""
    with opened(full) as visitor:
        visitor.post("/servers/hostile/refresh")
        visitor.post("/servers/dying/refresh")

        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in visitor.get("/servers/hostile").text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in visitor.get("/servers/dying").text


def test_nobody_sees_a_page_without_signing_in(full):
    """Neither the pages nor what their forms do."""
    with full.serving("serve", "--edit-commands") as serving:
        stranger = Visitor(serving.port)
        for path in PAGES:
            reply = stranger.get(path.replace("<", "%3C").replace(">", "%3E"))
            assert (reply.status, reply.place[:7]) == (303, "/signin"), path
        for path in ("/servers/tiny/disable", "/servers/add", "/settings/tokens", "/servers/tiny/remove"):
            assert stranger.forge(path).status == 303, path

    assert "[servers.tiny]" in full.config.read_text()


FORMS = [
    "/servers/tiny/refresh",
    "/servers/tiny/restart",
    "/servers/tiny/disable",
    "/servers/resting/enable",
    "/servers/tiny/remove",
    "/servers/tiny/edit",
    "/servers/add",
    "/servers/import",
    "/settings/policies",
    "/settings/tokens",
    "/settings/tokens/0123456789ab/revoke",
    "/settings/clients",
]
FORMS_OF_EVERYBODY = [
    "/settings/sessions/0123456789ab/end",
    "/settings/clients/0123456789ab/disconnect",
    "/confirm",
    "/signout",
]


def test_no_form_works_without_the_word_of_the_page(full):
    """Nor from a page of another address."""
    before = full.config.read_text()
    with opened(full, "--edit-commands") as visitor:
        for path in FORMS + FORMS_OF_EVERYBODY:
            assert visitor.forge(path, csrf="wrong").status == 403, path
            assert visitor.forge(path, csrf=visitor.csrf, origin="http://127.0.0.1:1").status == 403, path

    assert full.config.read_text() == before


def test_a_token_with_little_reach_sees_only_its_tools(full):
    """Servers, logs and settings are for whoever looks after this toolcrib."""
    guest = json.loads(
        full.run("tokens", "create", "guest", "--tool", "tiny__echo", "--level", "write", "--json").stdout
    )
    with full.serving("serve") as serving:
        visitor = Visitor(serving.port)
        assert visitor.sign_in(guest["token"]).status == 303

        assert visitor.get("/").status == 200
        assert "Servers" not in visitor.get("/").text
        assert visitor.get("/connect").status == 200
        for path in FOR_OPERATORS:
            assert visitor.get(path.replace("<", "%3C").replace(">", "%3E")).status == 403, path
        for path in FORMS:
            assert visitor.post(path, name="x").status == 403, path
        assert visitor.get("/palette.json?q=tiny").body == b"[]"


def test_htmx_gets_the_content_alone(full):
    """The same address gives everybody else the whole page."""
    with opened(full) as visitor:
        whole, part = visitor.get("/servers"), visitor.get("/servers", hx_request="true")

        assert '<nav aria-label="Main">' in whole.text
        assert '<nav aria-label="Main">' not in part.text
        assert 'id="rows"' in part.text


def test_pages_stay_small_with_many_tools(toolcrib, tmp_path):
    """Four servers with 150 tools each: lists are cut."""
    script = tmp_path / "many.py"
    script.write_text(
        HOSTILE.read_text().replace('{"tools": [TOOL]}', '{"tools": [TOOL | {"name": f"t{n}"} for n in range(150)]}')
    )
    args = json.dumps([str(script)])
    tables = [f"[servers.s{n}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}" for n in range(4)]
    toolcrib.write(*tables)
    with opened(toolcrib) as visitor:
        for n in range(4):
            visitor.post(f"/servers/s{n}/refresh")
        for path in ("/", "/servers", "/servers/s1", "/settings", "/palette.json?q=t"):
            reply = visitor.get(path)

            assert reply.status == 200
            assert reply.sent_bytes < 100_000
        page = visitor.get("/servers/s1").text

    assert page.count('title="How far it reaches"') == 100
    assert "Showing 100 rows of 150" in page
