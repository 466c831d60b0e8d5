"""``login``, ``logout`` and ``accounts``, and how a server stands at which nobody is signed in, wherever one looks."""

import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from tests.cli.program import Program, Serving
from tests.fleet.oauth import OAuthProvider, oauth_provider
from tests.fleet.running import until

ROOT = Path(__file__).parents[3]
TOOLS = {"tracker__wait", "tracker__whoami", "tracker__write"}


@pytest.fixture
def provider() -> Iterator[OAuthProvider]:
    with oauth_provider() as started:
        yield started


@pytest.fixture
def program(tmp_path: Path, provider: OAuthProvider) -> Program:
    made = Program(tmp_path)
    made.project.mkdir()
    made.write(f'[servers.tracker]\nurl = "{provider.url}"', "[audit]\nvalues = true")
    return made


def owners_token(program: Program) -> str:
    """What the owner shows at the doors; made when somebody first wants to see the page."""
    program.run("open", "--print")
    [file] = program.home.rglob("token")
    return file.read_text().strip()


def rest(serving: Serving, program: Program, path: str) -> http.client.HTTPResponse:
    return serving.request("GET", f"/api/v1/{path}", authorization=f"Bearer {owners_token(program)}")


def page_of(serving: Serving, program: Program, path: str) -> str:
    return serving.request("GET", path, authorization=f"Bearer {owners_token(program)}").read().decode()


def test_a_server_that_wants_somebody_to_sign_in_is_in_a_state_of_its_own_everywhere(program: Program):
    """Its tools stay listed; every view says the same word, and how to go on."""
    program.log_in()
    program.run("logout", "tracker")
    with program.serving("up") as serving:
        serving.wait_for("Open the page")
        shown = serving.output
        told = json.loads(rest(serving, program, "servers/tracker").read())
        page = page_of(serving, program, "/servers/tracker")
        tools = set(serving.tool_names())
        link = f"http://127.0.0.1:{serving.port}/oauth/start/tracker"
    listed, why, doctor = program.run("ls"), program.run("why", "tracker__whoami"), program.run("doctor")
    [server] = [each for each in program.json("servers", "ls") if each["name"] == "tracker"]
    called = program.run("call", "tracker__whoami", "--json")

    assert "sign_in" in shown
    assert f"Sign in at tracker: {link}  (or: toolcrib login tracker)" in shown
    assert (told["state"], told["next"]["command"]) == ("sign_in", "toolcrib login tracker")
    assert 'href="/oauth/start/tracker"' in page
    assert tools >= TOOLS
    assert all(tool in listed.stdout for tool in TOOLS)
    assert "needs somebody to sign in" in listed.stderr
    assert why.stdout.startswith("tracker__whoami: sign_in\n")
    assert "→ Sign in: `toolcrib login tracker`." in why.stdout
    assert "→ toolcrib login tracker" in doctor.stdout
    assert server["state"] == "sign_in"
    assert called.returncode == 3
    assert '"TOOL_AUTH_REQUIRED"' in called.stdout + called.stderr
    assert link not in program.project.joinpath("toolcrib.lock").read_text()  # it leads nowhere by now


def test_a_running_toolcrib_uses_an_account_as_soon_as_somebody_signed_in(program: Program):
    """And no more as soon as they signed out, even if the authorization server keeps the token alive."""
    with program.serving("serve") as serving:
        before = program.run("call", "tracker__whoami", "--json")
        told = program.log_in()
        called = mcp_call(serving)
        [account] = json.loads(rest(serving, program, "accounts").read())["accounts"]
        after = program.run("logout", "tracker")
        refused = mcp_call(serving)

    assert before.returncode == 3
    assert "Signed in at 'tracker'" in told
    assert called["content"][0]["text"].startswith("ada")
    assert account["isSignedIn"]
    assert after.returncode == 0
    assert refused["isError"]
    assert "needs somebody to sign in" in refused["content"][0]["text"]


def test_what_cannot_be_revoked_is_forgotten_all_the_same(program: Program, provider: OAuthProvider):
    with program.serving("serve") as serving:
        program.log_in()
        assert not mcp_call(serving).get("isError")
        provider.wish(revokeStatus=503, tokenAnswer={"error": "server_error", "error_description": "not today"})
        told = program.run("logout", "tracker")
        refused = mcp_call(serving)

    assert told.returncode == 0
    assert "were not revoked" in told.stderr
    assert "server_error: not today" in told.stderr
    assert refused["isError"]
    assert program.json("accounts") == []


def mcp_call(serving: Serving) -> dict:
    """A call of a client that can open no address."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "tracker__whoami", "arguments": {}, "_meta": meta}
    needed = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "tracker__whoami"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    text = serving.request("POST", "/mcp", body, **needed).read().decode()
    return json.loads(text if text.startswith("{") else text.rpartition("data: ")[2])["result"]


def test_login_opens_the_browser_and_waits_until_it_comes_back(program: Program):
    """Any program may be the browser; this one signs in, and goes where it is sent in the end."""
    script, seen = program.home / "browser.py", program.home / "page"
    script.write_text(
        dedent(f"""\
        import pathlib, sys, urllib.request
        sys.path.insert(0, {str(ROOT)!r})
        from tests.fleet.oauth import sign_in
        page = urllib.request.urlopen(sign_in(sys.argv[1])).read()
        pathlib.Path({str(seen)!r}).write_bytes(page)
        """)
    )
    told = program.run("login", "tracker", BROWSER=f"{sys.executable} {script} %s")

    assert told.returncode == 0, told.stderr
    assert "Signed in at 'tracker'" in told.stderr
    until(lambda: seen.exists() and b"You are signed in" in seen.read_bytes(), deadline_s=150, what="the last page")


def test_accounts_say_until_when_and_what_went_wrong_last_in_the_providers_own_words(
    program: Program, provider: OAuthProvider
):
    program.log_in()
    [good] = program.json("accounts")
    until_when = program.run("accounts").stdout
    provider.wish(accessS=1)
    program.run("logout", "tracker")
    program.log_in()
    words = "The account was closed on Friday"
    provider.wish(tokenStatus=503, tokenAnswer={"error": "temporarily_unavailable", "error_description": "Tea time"})
    until(lambda: program.run("call", "tracker__whoami").returncode != 0, deadline_s=150, what="the end of the token")
    [troubled] = program.json("accounts")
    provider.wish(tokenStatus=400, tokenAnswer={"error": "invalid_grant", "error_description": words})
    refused = program.run("call", "tracker__whoami")
    [ended] = program.json("accounts")
    shown = program.run("accounts")

    assert (good["isSignedIn"], good["isRenewed"], good["error"]) == (True, True, None)
    assert f"{good['expiresAt']}, then renewed" in until_when
    assert troubled["isSignedIn"]  # a refresh token is left
    assert "temporarily_unavailable: Tea time" in troubled["error"]
    assert refused.returncode == 3
    assert f"invalid_grant: {words}" in refused.stderr
    assert provider.issuer in refused.stderr
    assert "toolcrib login tracker" in refused.stderr
    assert (ended["isSignedIn"], ended["isRenewed"]) == (False, False)
    assert "ended" in shown.stdout
    assert f"tracker: {provider.issuer}: the renewal failed: invalid_grant: {words}" in shown.stderr


def test_doctor_walks_the_whole_way_and_shows_where_it_ends(program: Program, provider: OAuthProvider):
    nobody = program.run("doctor").stdout
    program.log_in()
    somebody = program.run("doctor")
    provider.wish(issuer="https://evil.example")
    lied = program.run("doctor", "--json")

    metadata = f"{provider.issuer}/.well-known"
    steps = [
        f"✓ asked without an account: {provider.url}: HTTP 401",
        f"✓ resource metadata: {metadata}/oauth-protected-resource/mcp: found",
        f"✓ authorization server metadata: {metadata}/oauth-authorization-server: found",
        f"✓ PKCE: {provider.issuer}: S256",
        f"✓ client: {provider.issuer}/reg: it lets clients register",
    ]
    assert [line.strip() for line in nobody.splitlines() if line.strip()[0] in "✓✗"] == [
        *steps,
        f"✗ account: {provider.url}: nobody is signed in",
    ]
    assert somebody.returncode == 0
    assert f"✓ account: {provider.url}: signed in" in somebody.stdout
    checks = [check for check in json.loads(lied.stdout)["checks"] if check["subject"] == "server tracker"]
    assert [check["level"] for check in checks] == ["ok", "fail"]  # its token is still good
    assert "its metadata say that it is 'https://evil.example'" in checks[1]["message"]
    assert [step["isGood"] for step in checks[1]["steps"]] == [True, True, True, False]


def test_no_token_stands_in_any_file_log_or_answer(program: Program, provider: OAuthProvider):
    """Whatever the server repeats and however it goes wrong: in no file, log, audit log, answer or page."""
    provider.wish(leak=True, accessS=2)
    with program.serving("serve", "--log-level", "debug") as serving:
        program.log_in()
        said = [json.dumps(mcp_call(serving)) for _ in range(3)]
        until(lambda: provider.seen()["refreshes"] >= 2, deadline_s=150, what="renewed tokens")
        said += [json.dumps(mcp_call(serving)), program.run("call", "tracker__whoami").stdout]
        provider.wish(tokenStatus=400, tokenAnswer={"error": "invalid_grant", "error_description": "no more"})
        until(lambda: mcp_call(serving).get("isError"), deadline_s=150, what="the end of the account")
        places = ["servers", "servers/tracker", "accounts", "audit", "state", "servers/tracker/log"]
        said += [rest(serving, program, place).read().decode() for place in places]
        pages = ["/", "/servers", "/servers/tracker", "/audit", "/calls", "/oauth/start/tracker"]
        said += [page_of(serving, program, page) for page in pages]
    for words in (["accounts", "--json"], ["audit"], ["doctor"], ["servers", "logs", "tracker"], ["config", "show"]):
        told = program.run(*words)
        said += [told.stdout, told.stderr]
    files = [path.read_bytes() for path in program.home.rglob("*") if path.is_file()]
    given = provider.seen()["given"]

    assert len(given) >= 6
    assert "ada mcp:read offline_access ***" in said[0]
    assert not [text for text in said if any(token in text for token in given)]
    assert not [content for content in files if any(token.encode() in content for token in given)]
