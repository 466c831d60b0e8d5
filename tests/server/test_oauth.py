"""The built-in authorization server over HTTP, from discovery to a call, and everything that must not get through."""

import asyncio
import base64
import hashlib
import http.client
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import pytest
from tests.transports.issuer import AUDIENCE, ISSUER, claims, jwks, signed

import toolcrib
from toolcrib.core.access import Grants
from toolcrib.core.events import Emit, drop
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.identity import sign_in
from toolcrib.server.oauth import REGISTRATIONS_A_MINUTE
from toolcrib.server.serve import Serving
from toolcrib.stores.access_tokens import NewToken, token_file
from toolcrib.stores.connections import ConnectedClient
from toolcrib.stores.paths import Environment

TOKEN = "a-token-of-my-own-choosing"
PUBLIC = "https://tools.example"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
CALLBACK = "http://127.0.0.1:33418/callback"
FORM = b"application/x-www-form-urlencoded"
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def back(self) -> dict[str, str]:
        """What the redirect says."""
        return dict(parse_qsl(urlsplit(self.headers["location"]).query))


@dataclass
class Person:
    """A browser, or a client, that reaches one server as ``tools.example``."""

    address: str
    cookie: str = ""
    host: bytes = b"tools.example"

    async def send(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        sent = {b"host": self.host} | {
            name.replace("_", "-").encode(): value.encode() for name, value in headers.items()
        }
        if self.cookie:
            sent = {b"cookie": self.cookie.encode(), b"origin": b"https://tools.example"} | sent
        return await asyncio.to_thread(self._send, method, target, body, sent)

    def _send(self, method: str, target: str, body: bytes, headers: dict[bytes, bytes]) -> Answer:
        with closing(http.client.HTTPConnection(self.address, timeout=150)) as line:
            line.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in (headers | {b"content-length": str(len(body)).encode()}).items():
                line.putheader(name.decode(), value)
            line.endheaders(body)
            found = line.getresponse()
            return Answer(found.status, found.read(), {name.lower(): value for name, value in found.getheaders()})

    async def post(self, target: str, fields: dict[str, str], **headers: str) -> Answer:
        return await self.send("POST", target, urlencode(fields).encode(), content_type=FORM.decode(), **headers)

    async def sign_in(self, token: str = TOKEN) -> None:
        answer = await self.post("/signin", {"token": token}, origin=PUBLIC)
        self.cookie = answer.headers["set-cookie"].partition(";")[0]


@dataclass
class Connecting:
    """One client on its way in."""

    person: Person
    client: Person
    client_id: str = ""
    wishes: dict[str, str] = field(default_factory=dict)

    async def register(self, *uris: str, name: str = "Cursor") -> Answer:
        body = msgspec.json.encode({"client_name": name, "redirect_uris": list(uris or (CALLBACK,))})
        answer = await self.client.send("POST", "/oauth/register", body, content_type="application/json")
        if answer.status == 201:
            self.client_id = answer.json["client_id"]
        return answer

    def query(self, **changes: str | None) -> str:
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "state": "as it was & more",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": f"{PUBLIC}/mcp",
            **changes,
        }
        return urlencode({name: value for name, value in asked.items() if value is not None})

    async def ask(self, **changes: str | None) -> Answer:
        return await self.person.send("GET", f"/oauth/authorize?{self.query(**changes)}")

    async def consent(self, page: Answer, headers: dict[str, str] | None = None, **changes: str) -> Answer:
        text = page.body.decode()
        request = re.search(r'name="request" value="([^"]*)"', text)
        fields = {"csrf": CSRF.search(text)[1], "request": unescape(request[1]), "level": "write", "answer": "allow"}
        return await self.person.post("/oauth/authorize", fields | changes, **(headers or {}))

    async def code(self, **changes: str | None) -> str:
        return (await self.consent(await self.ask(**changes))).back["code"]

    async def redeem(self, code: str, **changes: str) -> Answer:
        sent = {"grant_type": "authorization_code", "code": code, "client_id": self.client_id}
        sent |= {"redirect_uri": CALLBACK, "code_verifier": VERIFIER, "resource": f"{PUBLIC}/mcp"}
        return await self.client.post("/oauth/token", sent | changes)

    async def refresh(self, token: str, **changes: str) -> Answer:
        sent = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id}
        return await self.client.post("/oauth/token", sent | changes)

    async def connect(self, **changes: str | None) -> dict[str, Any]:
        await self.register()
        same = {name: value for name, value in changes.items() if name == "resource" and value}
        return (await self.redeem(await self.code(**changes), **same)).json

    async def call(self, access_token: str, path: str = "/mcp") -> Answer:
        """Greet Ada, the modern way: no session is needed."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "greet", "arguments": {"name": "Ada"}, "_meta": meta}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        return await self.client.send(
            "POST",
            path,
            body,
            content_type="application/json",
            accept="application/json, text/event-stream",
            authorization=f"Bearer {access_token}",
            mcp_protocol_version="2026-07-28",
            mcp_method="tools/call",
            mcp_name="greet",
        )


@asynccontextmanager
async def served(
    tmp_path, auth: dict[str, str] | None = None, *, emit: Emit = drop, **settings: str
) -> AsyncIterator[Serving]:
    serve = {"oauth": "builtin", "public_url": PUBLIC, **settings}
    around = Environment(tmp_path, {"HOME": str(tmp_path)})
    config = tmp_path / "toolcrib.toml"
    tables = {"serve": serve, **({"auth": auth} if auth else {})}
    text = "".join(
        f"[{table}]\n" + "".join(f'{name} = "{value}"\n' for name, value in values.items())
        for table, values in tables.items()
    )
    config.write_text(f'{text}\n[profiles.small]\ntools = ["greet"]\n')
    opened = toolcrib.open_crib(config, tools=[greet], surroundings=around)
    async with opened as crib, toolcrib.serve(crib, port=0, token=TOKEN, emit=emit) as serving:
        yield serving


@pytest.fixture
async def way_in(tmp_path) -> AsyncIterator[Connecting]:
    async with served(tmp_path) as serving:
        person = Person(serving.server.address)
        await person.sign_in()
        yield Connecting(person, Person(serving.server.address))


async def test_a_client_finds_its_way_from_the_refusal_to_a_call(way_in):
    refused = await way_in.call("")
    challenge = refused.headers["www-authenticate"]
    resource = (await way_in.client.send("GET", "/.well-known/oauth-protected-resource/mcp")).json
    server = (await way_in.client.send("GET", "/.well-known/oauth-authorization-server")).json
    tokens = await way_in.connect()
    answer = await way_in.call(tokens["access_token"])

    assert refused.status == 401
    assert f'resource_metadata="{PUBLIC}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert 'scope="toolcrib:level:write"' in challenge
    assert (resource["resource"], resource["authorization_servers"]) == (f"{PUBLIC}/mcp", [PUBLIC])
    assert server["issuer"] == PUBLIC
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert (tokens["token_type"], tokens["scope"]) == ("Bearer", "toolcrib:level:write")
    assert (answer.status, b"Hello Ada" in answer.body) == (200, True)


# What clients find


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("", "/mcp"),
        ("/mcp", "/mcp"),
        ("/mcp/", "/mcp"),
        ("/mcp/small", "/mcp/small"),
        ("/sse", "/sse"),
        ("/messages", "/sse"),
        ("/messages/small", "/sse/small"),
        ("/agents/servers/native", "/agents/servers/native"),
    ],
)
async def test_each_endpoint_says_who_gives_tokens_for_it(way_in, path, resource):
    answer = await way_in.client.send("GET", f"/.well-known/oauth-protected-resource{path}")

    assert answer.json == {
        "resource": PUBLIC + resource,
        "authorization_servers": [PUBLIC],
        "scopes_supported": ["toolcrib:level:read_only", "toolcrib:level:write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "toolcrib",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource/api/v1",
        "/.well-known/oauth-protected-resource/settings",
        "/.well-known/oauth-protected-resource/mcpx",
        "/.well-known/oauth-protected-resourcex",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration/elsewhere",
    ],
)
async def test_there_is_nothing_to_find_for_what_is_no_endpoint(way_in, path):
    answer = await way_in.client.send("GET", path)

    assert (answer.status, b'"resource"' in answer.body, b'"issuer"' in answer.body) == (404, False, False)


@pytest.mark.parametrize("known", ["oauth-authorization-server", "openid-configuration"])
async def test_the_server_is_found_where_the_specification_looks_for_it(way_in, known):
    found = (await way_in.client.send("GET", f"/.well-known/{known}")).json

    assert found["issuer"] == PUBLIC
    assert found["authorization_endpoint"] == f"{PUBLIC}/oauth/authorize"
    assert found["token_endpoint_auth_methods_supported"] == ["none"]
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert ("jwks_uri" in found) is (known == "openid-configuration")


async def test_a_profile_and_a_token_that_does_not_count_are_challenged_for_what_they_are(way_in):
    profile = await way_in.call("", "/mcp/small")
    wrong = await way_in.call("tco_nonsense")

    assert (
        f'resource_metadata="{PUBLIC}/.well-known/oauth-protected-resource/mcp/small"'
        in (profile.headers["www-authenticate"])
    )
    assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
    assert (profile.status, wrong.status) == (401, 401)


async def test_an_outside_issuer_is_named_and_a_token_of_its_that_grants_nothing_is_told_which_scope_it_lacks(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_bytes(jwks("rsa"))
    auth = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(keys)}
    answers: dict[str, Any] = {}
    for oauth in ("off", "builtin"):
        async with served(tmp_path, auth, oauth=oauth) as serving:
            client = Connecting(Person(serving.server.address), Person(serving.server.address))
            found = await client.client.send("GET", "/.well-known/oauth-protected-resource/mcp")
            usual = {"iat": int(time.time()), "exp": int(time.time()) + 600}
            bare, good = (signed(claims(**usual, scope=scope)).decode() for scope in ("openid", "toolcrib:level:write"))
            while (called := await client.call(good)).status == 503:
                await asyncio.sleep(0.05)  # until its keys are read
            endpoints = [(await client.client.send("GET", f"/oauth/{name}")).status for name in ("token", "register")]
            answers[oauth] = found.json, await client.call(bare), called, endpoints
    only, both = answers["off"], answers["builtin"]

    assert only[0]["authorization_servers"] == [ISSUER]
    assert both[0]["authorization_servers"] == [PUBLIC, ISSUER]
    for _, refused, good, _ in (only, both):
        assert (refused.status, good.status) == (403, 200)
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        assert 'scope="toolcrib:level:write"' in refused.headers["www-authenticate"]
        assert "oauth-protected-resource/mcp" in refused.headers["www-authenticate"]
    assert only[3] != both[3] == [405, 405]


async def test_where_nobody_gives_tokens_nothing_of_it_is_there(tmp_path):
    async with served(tmp_path, oauth="off") as serving:
        client = Connecting(Person(serving.server.address), Person(serving.server.address))
        await client.person.sign_in()
        found = [
            (await client.client.send("GET", "/.well-known/oauth-protected-resource")).status,
            (await client.client.send("GET", "/.well-known/oauth-authorization-server")).status,
            (await client.ask()).status,
            (await client.person.send("GET", "/invite?word=x")).status,
        ]
        registered = await client.register()

    assert found == [404] * 4
    assert registered.status in (401, 404)


# Coming in by a token


async def test_a_token_is_for_one_address_and_for_nothing_else(way_in):
    """Not for another endpoint, REST, or the page: what it is for was said when it was asked for."""
    small = await way_in.connect(resource=f"{PUBLIC}/mcp/small")
    tokens = await way_in.connect()
    token = tokens["access_token"]
    right, other, swapped = (
        await way_in.call(small["access_token"], "/mcp/small"),
        await way_in.call(token, "/mcp/small"),
        await way_in.call(small["access_token"]),
    )
    rest = await way_in.client.send("GET", "/api/v1/tools", authorization=f"Bearer {token}")
    page = await way_in.client.send("GET", "/tools", authorization=f"Bearer {token}")
    refresh = await way_in.call(tokens["refresh_token"])
    signed_in = await way_in.client.post("/signin", {"token": token}, origin=PUBLIC)

    assert right.status == 200
    assert [each.status for each in (other, swapped, rest, page, refresh)] == [401] * 5
    assert (signed_in.status, "set-cookie" in signed_in.headers) == (403, False)


async def test_tokens_outlive_a_restart_and_end_when_the_client_gives_one_back(tmp_path):
    async with served(tmp_path) as serving:
        one = Connecting(Person(serving.server.address), Person(serving.server.address))
        await one.person.sign_in()
        tokens = await one.connect()
    async with served(tmp_path) as serving:
        again = Connecting(Person(serving.server.address), Person(serving.server.address), one.client_id)
        before = await again.call(tokens["access_token"])
        renewed = (await again.refresh(tokens["refresh_token"])).json
        unknown = await again.client.post("/oauth/revoke", {"token": "whatever"})
        ended = await again.client.post("/oauth/revoke", {"token": renewed["refresh_token"]})
        after = [(await again.call(each["access_token"])).status for each in (tokens, renewed)]
        refused = await again.refresh(renewed["refresh_token"])

    assert (before.status, unknown.status, ended.status, after) == (200, 200, 200, [401, 401])
    assert (refused.status, refused.json["error"]) == (400, "invalid_grant")


async def test_a_refresh_token_that_comes_again_ends_the_connection_and_is_written_down(tmp_path):
    async with served(tmp_path) as serving:
        way_in = Connecting(Person(serving.server.address), Person(serving.server.address))
        await way_in.person.sign_in()
        tokens = await way_in.connect()
        renewed = (await way_in.refresh(tokens["refresh_token"])).json
        stolen = await way_in.refresh(tokens["refresh_token"])
        after = await way_in.call(renewed["access_token"])
        entries = await way_in.person.send("GET", "/settings/clients")

    assert stolen.json["error"] == "invalid_grant"
    assert after.status == 401
    assert b"a refresh token was used twice" in entries.body


async def test_answers_of_the_token_endpoint_are_kept_by_nobody_and_say_what_is_wrong(way_in):
    await way_in.register()
    good = await way_in.redeem(await way_in.code())
    bad = [
        await way_in.client.send("POST", "/oauth/token", b"{}", content_type="application/json"),
        await way_in.client.send("POST", "/oauth/token", b"a=1&a=2", content_type=FORM.decode()),
        await way_in.client.send("POST", "/oauth/token", b"grant_type=%ff", content_type=FORM.decode()),
        await way_in.client.send(
            "POST", "/oauth/token", b"grant_type=x", content_type=FORM.decode(), authorization="Basic !"
        ),
        await way_in.client.post("/oauth/token", {"grant_type": "password"}),
        await way_in.client.post("/oauth/revoke", {}),
    ]

    assert good.headers["cache-control"] == "no-store"
    assert [(each.status, each.json["error"]) for each in bad] == [
        (400, "invalid_request"),
        (400, "invalid_request"),
        (400, "invalid_request"),
        (401, "invalid_client"),
        (400, "unsupported_grant_type"),
        (400, "invalid_request"),
    ]
    assert {each.headers["cache-control"] for each in bad} == {"no-store"}


async def test_a_client_may_name_itself_in_the_header(way_in):
    await way_in.register()
    sent = {"grant_type": "authorization_code", "code": await way_in.code(), "code_verifier": VERIFIER}
    header = "Basic " + base64.b64encode(f"{way_in.client_id}:".encode()).decode()
    answer = await way_in.client.post("/oauth/token", sent, authorization=header)

    assert (await way_in.call(answer.json["access_token"])).status == 200


# Registering


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"[]", "invalid_client_metadata"),
        (b'{"redirect_uris": 7}', "invalid_client_metadata"),
        (b'{"client_name": "x"}', "invalid_redirect_uri"),
        (b'{"redirect_uris": ["http://evil.example/cb"]}', "invalid_redirect_uri"),
        (b'{"redirect_uris": ["javascript:alert(1)"]}', "invalid_redirect_uri"),
        (b'{"redirect_uris": ["https://a.example/cb"], "response_types": ["token"]}', "invalid_client_metadata"),
    ],
)
async def test_a_registration_that_is_not_right_is_refused(way_in, body, error):
    answer = await way_in.client.send("POST", "/oauth/register", body, content_type="application/json")

    assert (answer.status, answer.json["error"]) == (400, error)


async def test_whoever_registers_is_told_what_it_was_given_and_no_secret(way_in):
    answer = await way_in.register(CALLBACK, "https://claude.ai/cb", name="C\u202elaude\n")
    nulls = b'{"redirect_uris": ["https://a.example/cb"], "client_name": null, "grant_types": null}'
    modest = await way_in.client.send("POST", "/oauth/register", nulls, content_type="application/json")
    as_form = await way_in.client.send("POST", "/oauth/register", b"{}", content_type=FORM.decode())

    assert answer.json == {
        "client_id": way_in.client_id,
        "client_id_issued_at": answer.json["client_id_issued_at"],
        "client_name": "Claude",
        "redirect_uris": [CALLBACK, "https://claude.ai/cb"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": "toolcrib:level:read_only toolcrib:level:write",
    }
    assert (modest.status, as_form.status) == (201, 400)


async def test_one_stranger_who_registers_without_end_is_stopped_and_others_are_not(way_in):
    """Behind a proxy on this machine they are told apart by what it says; whatever a client says itself counts not."""

    async def register(forwarded: str) -> int:
        body = msgspec.json.encode({"redirect_uris": [CALLBACK]})
        answer = await way_in.client.send(
            "POST", "/oauth/register", body, content_type="application/json", x_forwarded_for=forwarded
        )
        return answer.status

    of_one = [await register(f"10.0.0.{n}, 198.51.100.7") for n in range(REGISTRATIONS_A_MINUTE + 1)]

    assert of_one == [201] * REGISTRATIONS_A_MINUTE + [429]
    assert await register("198.51.100.8") == 201


# Asking a person


async def test_nobody_lets_a_client_in_who_is_not_signed_in_as_a_person(way_in, tmp_path):
    await way_in.register()
    stranger = Connecting(way_in.client, way_in.client, way_in.client_id)
    asked = await stranger.ask()
    forced = await way_in.client.post("/oauth/authorize", {"request": way_in.query(), "answer": "allow"})
    program = Connecting(Person(way_in.person.address), way_in.client, way_in.client_id)
    await program.person.sign_in(token_of(tmp_path, "ci", "token"))
    refused = await program.ask()
    by_header = await way_in.client.send(
        "GET", f"/oauth/authorize?{way_in.query()}", authorization=f"Bearer {TOKEN}", origin=PUBLIC
    )

    assert (asked.status, forced.status) == (303, 303)
    assert asked.headers["location"].startswith("/signin?next=%2Foauth%2Fauthorize%3F")
    assert forced.headers["location"].startswith("/signin")
    assert (refused.status, by_header.status) == (403, 403)
    assert b"Only the owner and people who were invited" in refused.body


def token_of(home, name: str, kind: str, level: SecurityLevel = SecurityLevel.SYSTEM) -> str:
    tokens = token_file({"HOME": str(home)}, time.time)
    return tokens.create(NewToken(name, Grants(level), kind))[1]


async def test_the_page_says_who_asks_and_what_for_and_can_be_put_in_no_frame(way_in):
    await way_in.register("https://evil.example/cb", name='<b>Claude</b>"')
    page = await way_in.ask(redirect_uri="https://evil.example/cb")
    text = page.body.decode()
    policy = page.headers["content-security-policy"]

    assert page.status == 200
    assert "&lt;b&gt;Claude&lt;/b&gt;" in text
    assert "<b>Claude" not in text
    assert "nobody: it chose its name itself" in text
    assert "<strong>evil.example</strong>" in text
    assert 'signed in as <strong class="wrap">the owner</strong>' in text
    assert f"{PUBLIC}/mcp" in text
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' https://evil.example;" in policy
    assert page.headers["cache-control"] == "no-store"
    assert 'value="write" checked' in text
    assert 'value="admin"' not in text


async def test_a_program_on_the_persons_computer_is_shown_as_one_that_cannot_be_told(way_in):
    await way_in.register()

    assert b"Nobody can tell which one it really is" in (await way_in.ask()).body


async def test_who_says_no_sends_the_client_back_with_nothing(way_in):
    await way_in.register()
    answer = await way_in.consent(await way_in.ask(), answer="refuse")
    silent = await way_in.consent(await way_in.ask(), answer="")

    assert answer.headers["location"].startswith(f"{CALLBACK}?")
    assert {**answer.back, "error_description": ""} == {
        "error": "access_denied",
        "error_description": "",
        "state": "as it was & more",
        "iss": PUBLIC,
    }
    assert silent.back["error"] == "access_denied"


async def test_the_code_comes_back_with_the_state_and_the_issuer_and_the_query_that_was_there(way_in):
    uri = "http://127.0.0.1:1/cb?keep=this&and=that"
    await way_in.register(uri)
    back = (await way_in.consent(await way_in.ask(redirect_uri=uri))).headers["location"]
    fields = parse_qsl(urlsplit(back).query)

    assert back.startswith(f"{uri}&code=")
    assert [name for name, _ in fields] == ["keep", "and", "code", "state", "iss"]
    assert dict(fields)["iss"] == PUBLIC


@pytest.mark.parametrize(
    ("change", "headers", "status"),
    [
        ({"csrf": "wrong"}, {}, 403),
        ({"csrf": ""}, {}, 403),
        ({}, {"origin": "https://evil.example"}, 403),
        ({}, {"origin": "http://localhost:1"}, 403),  # may use REST, say
        ({}, {"origin": "null"}, 403),
        ({}, {"sec_fetch_site": "cross-site", "origin": "https://evil.example"}, 403),
        ({"level": "admin"}, {}, 403),
        ({"level": "system"}, {}, 403),
        ({"level": "everything"}, {}, 403),
        ({"level": ""}, {}, 403),
        ({"request": ""}, {}, 400),
    ],
)
async def test_consent_is_given_on_our_page_alone_and_for_what_it_offers(way_in, change, headers, status):
    await way_in.register()
    answer = await way_in.consent(await way_in.ask(), headers, **change)

    assert (answer.status, "location" in answer.headers) == (status, False)


async def test_what_the_form_carries_is_not_believed(way_in):
    """A person's browser could be made to send another request than the one that was shown."""
    await way_in.register()
    page = await way_in.ask()
    away = await way_in.consent(page, request=way_in.query(redirect_uri="https://evil.example/cb"))
    plain = await way_in.consent(page, request=way_in.query(code_challenge_method="plain"))

    assert [(each.status, "location" in each.headers) for each in (away, plain)] == [(400, False)] * 2


async def test_a_faulty_request_leads_a_person_nowhere_before_they_click(way_in):
    """Whoever registers a client could send people from here to pages of their own (RFC 9700, 4.11.2)."""
    await way_in.register("https://evil.example/cb")
    told = await way_in.ask(redirect_uri="https://evil.example/cb", scope="toolcrib:nonsense")
    untold = await way_in.ask(redirect_uri="https://other.example/cb")

    assert [(each.status, "location" in each.headers) for each in (told, untold)] == [(400, False)] * 2
    assert b'href="https://evil.example/cb?error=invalid_scope' in told.body
    assert b"other.example" not in untold.body


async def test_who_thinks_for_long_is_asked_who_they_are_and_finds_the_question_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sign_in, "CONFIRMED_S", 0.0)
    async with served(tmp_path) as serving:
        way_in = Connecting(Person(serving.server.address), Person(serving.server.address))
        await way_in.person.sign_in()
        await way_in.register()
        asked = await way_in.ask()
        monkeypatch.setattr(sign_in, "CONFIRMED_S", 300.0)
        question = await way_in.person.send("GET", asked.headers["location"])
        csrf = CSRF.search(question.body.decode())[1]
        fields = {"csrf": csrf, "token": TOKEN, "next": f"/oauth/authorize?{way_in.query()}"}
        confirmed = await way_in.person.post("/confirm", fields)
        page = await way_in.person.send("GET", confirmed.headers["location"])
        for session in serving.app.auth.sign_ins._sessions.values():
            session.confirmed_until = 0.0
        late = await way_in.consent(page)

    assert (asked.status, confirmed.status, page.status, late.status) == (303, 303, 200, 303)
    assert b"wants to use your tools" in page.body
    assert late.headers["location"].startswith("/confirm?next=%2Foauth%2Fauthorize%3Fresponse_type")


# People who were invited


async def test_somebody_who_was_invited_lets_in_a_client_as_far_as_they_reach_and_no_further(tmp_path):
    async with served(tmp_path, oauth_level="system") as serving:
        owner = Connecting(Person(serving.server.address), Person(serving.server.address))
        await owner.person.sign_in()
        page = await owner.person.send("GET", "/settings/clients")
        csrf = CSRF.search(page.body.decode())[1]
        made = await owner.person.post("/settings/clients", {"csrf": csrf, "name": "ada", "level": "read_only"})
        link = re.search(rf"{re.escape(PUBLIC)}(/invite\?word=[\w-]+)<", made.body.decode())[1]
        ada = Connecting(Person(serving.server.address), owner.client)
        seen = await ada.person.send("GET", link)
        word = {"word": link.partition("word=")[2]}
        forged = await ada.person.post("/invite", word, origin="http://localhost:1")  # may use REST, say
        welcome = await ada.person.post("/invite", word, origin=PUBLIC)
        again = await ada.person.post("/invite", word, origin=PUBLIC)
        ada.person.cookie = welcome.headers["set-cookie"].partition(";")[0]
        await ada.register()
        asked = await ada.ask()
        tokens = (await ada.redeem((await ada.consent(asked, level="read_only")).back["code"])).json
        own = await owner.connect()
        listed = (await ada.person.send("GET", "/settings/clients")).body.decode()
        ids = [each.id for each in serving.app.auth.oauth.book.read(ConnectedClient)]
        foreign = await ada.person.post(f"/settings/clients/{ids[1]}/disconnect", {"csrf": csrf_of(listed)})
        mine = await ada.person.post(f"/settings/clients/{ids[0]}/disconnect", {"csrf": csrf_of(listed)})
        after = [(await ada.call(each["access_token"])).status for each in (tokens, own)]
        inviting = await ada.person.post(
            "/settings/clients", {"csrf": csrf_of(listed), "name": "eve", "level": "read_only"}
        )
        text = welcome.body.decode()

    assert (seen.status, forged.status, welcome.status, again.status) == (200, 403, 200, 404)
    assert re.search(r"tc_[0-9a-f]{12}_[\w-]+", text)
    assert b'value="write"' not in asked.body
    assert tokens["scope"] == "toolcrib:level:read_only"
    assert (ids[0] in listed, ids[1] in listed) == (True, False)
    assert (foreign.status, mine.status, inviting.status) == (404, 303, 403)
    assert after == [401, 200]


def csrf_of(text: str) -> str:
    return CSRF.search(text)[1]


async def test_the_owner_sees_and_ends_clients_over_rest_and_their_calls_bear_their_name(way_in):
    tokens = await way_in.connect()
    called = await way_in.call(tokens["access_token"])
    bearer = {"authorization": f"Bearer {TOKEN}"}
    owner = Person(way_in.person.address)
    [listed] = (await owner.send("GET", "/api/v1/clients", **bearer)).json["clients"]
    calls = (await way_in.person.send("GET", "/audit")).body.decode()
    ended = await owner.send("DELETE", f"/api/v1/clients/{listed['id']}", **bearer)
    again = await owner.send("DELETE", f"/api/v1/clients/{listed['id']}", **bearer)
    after = await way_in.call(tokens["access_token"])

    assert (listed["name"], listed["user"], listed["state"], listed["level"]) == (
        "Cursor",
        "the owner",
        "active",
        "write",
    )
    assert "Cursor of the owner" in calls
    assert (called.status, ended.status, ended.json["state"], again.status, after.status) == (
        200,
        200,
        "revoked",
        404,
        401,
    )


async def test_no_secret_of_a_client_stands_in_a_log_a_page_the_audit_log_or_any_other_file(tmp_path):
    events: list[str] = []
    async with served(tmp_path, emit=lambda event: events.append(repr(event))) as serving:
        way_in = Connecting(Person(serving.server.address), Person(serving.server.address))
        await way_in.person.sign_in()
        await way_in.register()
        code = await way_in.code()
        tokens = (await way_in.redeem(code)).json
        renewed = (await way_in.refresh(tokens["refresh_token"])).json
        await way_in.call(renewed["access_token"])
        await way_in.call(tokens["access_token"] + "x")
        await way_in.redeem(code)
        pages = [
            (await way_in.person.send("GET", place)).body.decode()
            for place in ("/settings/clients", "/audit", "/calls", "/", "/settings/sessions")
        ]
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    secrets = [code, *(each[name] for each in (tokens, renewed) for name in ("access_token", "refresh_token"))]
    everywhere = "\n".join([*events, *pages, *(content.decode("latin-1") for content in files.values())])

    assert "oauth.json" in files
    assert [secret for secret in secrets if secret in everywhere] == []


# Mounted beside other things


async def test_mounted_under_a_path_everything_is_found_from_the_refusal_on(tmp_path):
    """Where the server around it hands on the addresses at the root of the host, also there."""
    around = Environment(tmp_path, {"HOME": str(tmp_path)})
    config = tmp_path / "toolcrib.toml"
    config.write_text('[serve]\noauth = "builtin"\n')
    crib = toolcrib.open_crib(config, tools=[greet], surroundings=around)
    base = f"{PUBLIC}/tools"
    app = toolcrib.asgi(crib, token=TOKEN, public_url=base)
    async with app:
        refused = await ask_asgi(app, "POST", "/mcp")
        documents = [
            await ask_asgi(app, "GET", path)
            for path in (
                "/.well-known/oauth-protected-resource/mcp",
                "/.well-known/oauth-protected-resource/tools/mcp",
                "/.well-known/oauth-authorization-server",
                "/.well-known/oauth-authorization-server/tools",
                "/.well-known/openid-configuration",
            )
        ]
        asked = await ask_asgi(app, "GET", "/oauth/authorize")

    assert f'resource_metadata="{base}/.well-known/oauth-protected-resource/mcp"' in refused[1]["www-authenticate"]
    assert [found[0] for found in documents] == [200] * 5
    assert [found[2].get("resource", found[2].get("issuer")) for found in documents] == [
        f"{base}/mcp",
        f"{base}/mcp",
        base,
        base,
        base,
    ]
    assert documents[2][2]["token_endpoint"] == f"{base}/oauth/token"
    assert asked[1]["location"].startswith("/tools/signin?next=")


async def ask_asgi(app: Any, method: str, path: str) -> tuple[int, dict[str, str], Any]:
    """Send a request to an application that is mounted under ``/tools``."""
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()
    coming = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if coming:
            return coming.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": f"/tools{path}",
        "root_path": "/tools",
        "query_string": b"",
        "scheme": "https",
        "headers": [(b"host", b"tools.example")],
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    gone.set()
    body = b"".join(message.get("body", b"") for message in sent)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    is_json = headers.get("content-type", "").startswith("application/json")
    return sent[0]["status"], headers, msgspec.json.decode(body) if is_json else None
