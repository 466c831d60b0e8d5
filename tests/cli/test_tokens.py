"""``toolcrib tokens`` as people use it, against servers that run meanwhile."""

import json
import stat
import time

import pytest
from tests.fleet.running import until
from tests.transports.issuer import AUDIENCE, ISSUER, claims, jwks, signed

from toolcrib.server.identity.jwt import SIZE_MAX

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


class Holder:
    """A client of a running server, with a token or without."""

    def __init__(self, serving, token: str | None = None) -> None:
        self._serving = serving
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def hello(self) -> int:
        answer = self._serving.request("POST", "/mcp", HELLO, **self._headers)
        self._headers["mcp-session-id"] = answer.headers.get("mcp-session-id") or "none"
        return answer.status

    def status(self) -> int:
        return self._serving.request("POST", "/mcp", LIST, **self._headers).status

    def tools(self) -> list[str]:
        self.hello()
        answer = json.loads(self._serving.request("POST", "/mcp", LIST, **self._headers).read())
        return [tool["name"] for tool in answer["result"]["tools"]]


def create(program, *words: str) -> str:
    return program.json("tokens", "create", *words)["token"]


def test_a_token_is_made_shown_once_and_listed_without_its_secret(toolcrib):
    """The token alone goes to stdout, everything else is talk; the file holds a digest and is private."""
    made = toolcrib.run("tokens", "create", "ci", "--level", "write", "--capability", "net", "--agent")
    listed = toolcrib.run("tokens", "ls")
    entries = toolcrib.json("tokens", "ls")
    text = made.stdout.strip()
    path = toolcrib.home / "state" / "toolcrib" / "tokens.json"

    assert text.startswith(f"tc_{entries[0]['id']}_")
    assert "not shown again" in made.stderr
    assert text.split("_", 2)[2] not in listed.stdout + json.dumps(entries) + path.read_text()
    assert listed.stdout.splitlines()[1].split()[:4] == ["ci", entries[0]["id"], "agent", "active"]
    assert {name: entries[0][name] for name in ("name", "kind", "level", "capabilities", "state")} == {
        "name": "ci",
        "kind": "agent",
        "level": "write",
        "capabilities": ["net"],
        "state": "active",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_is_careful_by_default(toolcrib):
    """It reads, and it ends; ``never`` has to be said."""
    create(toolcrib, "ci")
    create(toolcrib, "old", "--expires", "never")
    first, second = toolcrib.json("tokens", "ls")

    assert (first["level"], first["kind"], first["servers"], first["tools"]) == ("read_only", "token", ["*"], ["*"])
    assert first["expires"] > first["created"]
    assert second["expires"] is None


def test_patterns_that_stand_for_nothing_are_pointed_out(tiny):
    """A slip would otherwise be found by whoever gets the token; what is there is not mentioned."""
    tiny.run("servers", "refresh")

    made = tiny.run("tokens", "create", "ci", "--server", "t*", "--server", "githb", "--tool", "tiny__*", "--tool", "x")

    assert made.returncode == 0
    assert "'githb'" in made.stderr
    assert "'x'" in made.stderr
    assert "'t*'" not in made.stderr
    assert "'tiny__*'" not in made.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["create", "ci", "--level", "root"], 2, "root"),
        (["create", "ci", "--expires", "soon"], 2, '"30d"'),
        (["create", "ci", "--expires", "0d"], 2, '"30d"'),
        (["create", "a\nb"], 2, "printable"),
        (["revoke", "nobody"], 7, "tokens ls"),
    ],
)
def test_what_cannot_be_done_is_explained(toolcrib, words, code, told):
    """With what to do instead, and nothing made."""
    result = toolcrib.run("tokens", *words)

    assert (result.returncode, toolcrib.json("tokens", "ls")) == (code, [])
    assert told in result.stderr


def test_a_running_server_knows_each_token_and_its_limits(tiny):
    """Made before or after the start; each holder is shown its own tools."""
    write = create(tiny, "ci", "--level", "write", "--tool", "*__echo")
    with tiny.serving("serve") as serving:
        later = create(tiny, "later", "--level", "write", "--server", "tiny")
        nothing = create(tiny, "nothing", "--level", "system", "--server", "other")
        owner = (tiny.home / "state" / "toolcrib" / "token").read_text().strip()

        assert [Holder(serving, token).hello() for token in (None, "tc_0_0", write + "x")] == [401] * 3
        assert Holder(serving, write).tools() == ["result_read", "tiny__echo"]
        assert len(Holder(serving, later).tools()) == len(Holder(serving, owner).tools()) == 6
        assert Holder(serving, nothing).tools() == ["result_read"]
        assert write not in serving.output


def test_a_token_that_is_revoked_stops_at_once(tiny):
    """In the middle of a session; the others go on."""
    mine, other = (create(tiny, name, "--level", "write") for name in ("mine", "other"))
    with tiny.serving("serve") as serving:
        me, them = Holder(serving, mine), Holder(serving, other)
        before = [holder.hello() for holder in (me, them)]
        revoked = tiny.json("tokens", "revoke", "mine")

        assert before == [200, 200]
        assert revoked["state"] == "revoked"
        assert (me.status(), me.hello(), them.status()) == (401, 401, 200)


def test_a_file_that_is_damaged_while_serving_closes_the_door(tiny):
    """For its tokens; a repaired one opens it again. At the next start it is an error."""
    token = create(tiny, "ci", "--level", "write")
    path = tiny.home / "state" / "toolcrib" / "tokens.json"
    good = path.read_text()
    with tiny.serving("serve") as serving:
        statuses = [Holder(serving, token).hello()]
        for text in ("{", good):
            path.write_text(text)
            statuses += [Holder(serving, token).hello(), Holder(serving).hello()]
    path.write_text("{")
    again = tiny.run("serve", "--port", "0")

    assert statuses == [200, 503, 401, 200, 401]
    assert again.returncode == 1
    assert "damaged" in again.stderr
    assert "serving" not in again.stderr


def test_whoever_needs_no_token_can_be_limited(tiny):
    """By the file or by flags, over HTTP and stdio alike; a flag limits further, and opens nothing the file closes."""
    tiny.write('[access]\ntools = ["*__echo", "*__fail"]', tiny.tiny())
    with tiny.serving("serve") as serving:
        by_file = serving.tool_names()
    with tiny.serving("serve", "--only", "*__fail", "--only", "*__hang", "--level", "write", "--agent") as serving:
        by_flag = serving.tool_names()
    with tiny.serving("up", "--level", "read_only") as serving:
        by_level = serving.tool_names()

    assert by_file == ["result_read", "tiny__echo", "tiny__fail"]
    assert by_flag == ["result_read", "tiny__fail"]
    assert by_level == ["result_read", "tiny__echo"]


def test_a_client_on_stdio_can_be_limited(tiny):
    """The same limits, the same listing."""
    hello = json.dumps(HELLO) + "\n" + json.dumps(LIST) + "\n"

    result = tiny.run("stdio", "--alone", "--only", "*__echo", "--level", "write", stdin=hello)

    answers = {answer.get("id"): answer for answer in map(json.loads, result.stdout.splitlines())}
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == ["result_read", "tiny__echo"]


def test_no_token_from_elsewhere_has_to_be_said_twice(tiny):
    """In the file, and by ``--insecure``."""
    tiny.write('[serve]\nauth = "none"\nhost = "0.0.0.0"', tiny.tiny())

    refused = tiny.run("serve", "--port", "0")
    with tiny.serving("serve", "--insecure") as serving:
        served = Holder(serving).hello()

    assert (refused.returncode, served) == (1, 200)
    assert "--insecure" in refused.stderr


def test_jwts_of_the_configured_issuer_are_let_in(tiny):
    """With the grants of their scope; others, and those for others, are not."""
    now = int(time.time())
    tiny.write(f'[auth]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks = "keys.json"', tiny.tiny())
    (tiny.project / "keys.json").write_bytes(jwks("rsa"))
    fresh = {"iat": now, "exp": now + 600}
    scope = "toolcrib:level:write toolcrib:tool:*__echo"
    good, bare, foreign, old = (
        signed(body).decode()
        for body in (
            claims(**fresh, scope=scope),
            claims(**fresh),
            claims(**fresh, scope=scope, aud="other"),
            claims(iat=now - 600, exp=now - 60, scope=scope),
        )
    )
    with tiny.serving("serve") as serving:
        until(lambda: Holder(serving, good).hello() != 503, deadline_s=150, what="the issuer's keys")
        shown = Holder(serving, good).tools()
        statuses = [Holder(serving, token).hello() for token in (bare, foreign, old, "a.b.c", "x" * (SIZE_MAX + 1))]

    assert shown == ["result_read", "tiny__echo"]
    assert statuses == [403, *[401] * 4]


def test_a_door_that_was_closed_is_opened_by_a_reset_alone(toolcrib):
    """Not by deleting the file of tokens: then nothing is served, and the way out is told."""
    toolcrib.run("tokens", "create", "ci")
    (toolcrib.home / "state" / "toolcrib" / "tokens.json").unlink()
    closed = toolcrib.run("serve", "--port", "0")
    unsure = toolcrib.run("tokens", "reset")
    reset = toolcrib.run("tokens", "reset", "--yes")

    assert (closed.returncode != 0, "toolcrib tokens reset" in closed.stderr) == (True, True)
    assert (unsure.returncode != 0, reset.returncode, toolcrib.json("tokens", "ls")) == (True, 0, [])


def test_a_token_may_name_the_tools_of_a_knowledge_base_that_is_still_empty(toolcrib):
    """By either of their names; only what could never be meant is warned of."""
    named = ("--tool", "kb_*", "--tool", "kb.answer", "--tool", "kb_anser")

    made = toolcrib.run("tokens", "create", "reader", "--level", "read_only", *named)

    assert made.returncode == 0
    assert [name for name in ("kb_*", "kb.answer", "kb_anser") if f"is called '{name}'" in made.stderr] == ["kb_anser"]
