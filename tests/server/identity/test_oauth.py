"""The built-in authorization server without HTTP: what ends when, how far a client reaches, and who it may be."""

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import pytest

from toolcrib.config.model import Config
from toolcrib.core.access import EVERYTHING, Caller, Grants
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import drop
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.identity import oauth_clients
from toolcrib.server.identity.authentication import PERSON, AuthContext, is_endpoint, make_authentication
from toolcrib.server.identity.oauth import (
    CODE_S,
    IDLE_S,
    BuiltinAuthorizationServer,
    ClientRefused,
    ResourceIdentity,
    SentBack,
    read_level,
)
from toolcrib.server.identity.oauth_clients import (
    UNUSED_MAX,
    UNUSED_S,
    ClientDescription,
    ClientDirectory,
    ClientMetadata,
    OAuthProblem,
    fetch_document,
    is_document_id,
    is_redirect_uri,
    read_document,
    read_metadata,
    shown_name,
)
from toolcrib.server.identity.oauth_tokens import ACCESS_S, EARLY_S, ConnectedCallers
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.connections import ConnectedClient, ConnectionFile, RegisteredClient
from toolcrib.testing import ManualClock
from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer

PUBLIC = "https://tools.example"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
CALLBACK = "http://127.0.0.1:33418/callback"
NOW = 1_000_000.0

R, W, A, S = SecurityLevel


class Issuer:
    """An authorization server with a clock of its own, and a client that is on its way in."""

    def __init__(self, home, most: SecurityLevel = SecurityLevel.WRITE) -> None:
        self.clock = ManualClock(NOW)
        self.people = TokenFile(home / "tokens.json", self.clock)
        self.book = ConnectionFile(home / "oauth.json", self.clock)
        resource = ResourceIdentity((), most, is_endpoint)
        resource.base = PUBLIC
        self.callers = ConnectedCallers(self.book, self.people, self.clock)
        clients = ClientDirectory(self.book, fetch_document(None), self.clock)
        self.server = BuiltinAuthorizationServer(resource, clients, self.callers, self.clock)
        self.client_id = ""

    def register(self) -> str:
        self.client_id = self.server.clients.register(ClientMetadata(redirect_uris=(CALLBACK,))).id
        return self.client_id

    def asked(self, **more: str) -> bytes:
        usual = {"response_type": "code", "client_id": self.client_id, "redirect_uri": CALLBACK}
        usual |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
        return urlencode(usual | more).encode()

    async def code(self, user: Caller = PERSON, level: SecurityLevel = SecurityLevel.SYSTEM, **more: str) -> str:
        self.register()
        request = await self.server.read_request(self.asked(**more))
        back = await self.server.approve(request, user, level, "somebody")
        return dict(parse_qsl(urlsplit(back).query))["code"]

    async def redeem(self, code: str, **more: str):
        sent = {"grant_type": "authorization_code", "client_id": self.client_id, "code": code}
        return await self.server.give_tokens({**sent, "code_verifier": VERIFIER, **more})

    async def refresh(self, tokens, **more: str):
        sent = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        return await self.server.give_tokens(sent | more)

    async def connect(self, *args, **more):
        return await self.redeem(await self.code(*args, **more))

    def caller(self, tokens) -> Caller | None:
        return self.callers.identify(tokens["access_token"].encode())


@pytest.fixture
def issuer(tmp_path) -> Issuer:
    return Issuer(tmp_path)


# What ends, and when


async def test_a_code_counts_for_a_minute_and_not_by_a_clock_that_was_set_back(issuer):
    late, early, right = [await issuer.code() for _ in range(3)]
    issuer.clock.advance(CODE_S - 1)
    tokens = await issuer.redeem(right)
    issuer.clock.advance(1)
    with pytest.raises(OAuthProblem, match="expired"):
        await issuer.redeem(late)
    issuer.clock.advance(-2 * CODE_S - 1)
    with pytest.raises(OAuthProblem, match="expired"):
        await issuer.redeem(early)

    assert tokens["expires_in"] == ACCESS_S


async def test_an_access_token_counts_for_an_hour_and_not_long_before_it_was_made(issuer):
    tokens = await issuer.connect()
    begun = issuer.caller(tokens)
    issuer.clock.advance(ACCESS_S - 1)
    still = issuer.caller(tokens)
    issuer.clock.advance(1)
    ended = issuer.caller(tokens)
    issuer.clock.advance(-ACCESS_S - EARLY_S - 1)

    assert begun is not None
    assert begun == still
    assert (ended, issuer.caller(tokens)) == (None, None)


async def test_who_renews_stays_and_who_does_not_for_three_months_asks_its_person_again(issuer):
    tokens = await issuer.connect()
    for _ in range(3):
        issuer.clock.advance(IDLE_S - 1)
        tokens = await issuer.refresh(tokens)
    issuer.clock.advance(IDLE_S)

    with pytest.raises(OAuthProblem, match="not connected any more"):
        await issuer.refresh(tokens)


async def test_registrations_that_nobody_uses_end_and_never_fill_the_book(issuer):
    first = issuer.register()
    kept = [issuer.register() for _ in range(UNUSED_MAX)]
    names = {client.id for client in issuer.book.read(RegisteredClient)}
    found = await issuer.server.clients.find(kept[-1])
    issuer.clock.advance(UNUSED_S)
    with pytest.raises(OAuthProblem, match="not registered here"):
        await issuer.server.clients.find(kept[-1])

    assert names == {*kept}
    assert first not in names
    assert found.id == kept[-1]


async def test_a_registration_that_was_used_stays(issuer):
    await issuer.connect()
    issuer.clock.advance(UNUSED_S)

    assert (await issuer.server.clients.find(issuer.client_id)).id == issuer.client_id


# How far a client reaches


@pytest.mark.parametrize(
    ("most", "wanted", "own", "chosen", "given"),
    [
        (W, "", S, S, W),
        (S, "", S, S, S),
        (S, "toolcrib:level:write", S, S, W),
        (S, "toolcrib:level:read_only toolcrib:level:write", S, S, W),
        (S, "toolcrib:level:system", W, S, W),
        (W, "toolcrib:level:system", S, S, W),
        (S, "", S, R, R),
        (S, "openid offline_access", S, A, A),
    ],
)
async def test_a_client_never_reaches_further_than_any_of_those_who_have_a_say(
    tmp_path, most, wanted, own, chosen, given
):
    """The configuration, the client itself, the person's own reach, and what they chose."""
    issuer = Issuer(tmp_path, most)
    person = Caller(
        "token:" + issuer.people.create(NewToken("ada", Grants(own), "person"))[0].id, "person", Grants(own)
    )
    tokens = await issuer.connect(person, chosen, **({"scope": wanted} if wanted else {}))
    caller = issuer.caller(tokens)

    assert tokens["scope"] == f"toolcrib:level:{given}"
    assert (caller.grants.level, caller.kind, caller.audience) == (given, "agent", f"{PUBLIC}/mcp")


@pytest.mark.parametrize("scope", ["toolcrib:level:root", "toolcrib:server:docs", "toolcrib:", "toolcrib:level:"])
def test_a_scope_of_ours_that_nobody_knows_is_refused(scope):
    with pytest.raises(OAuthProblem, match="Scopes here are"):
        read_level(f"openid {scope}", SecurityLevel.SYSTEM)


async def test_a_client_reaches_only_the_servers_and_tools_of_its_person(issuer):
    grants = Grants(SecurityLevel.WRITE, ("docs",), ("docs__*",), frozenset({"net"}))
    token, _ = issuer.people.create(NewToken("ada", grants, "person"))
    caller = issuer.caller(await issuer.connect(token.caller))

    assert caller.grants == grants


@pytest.mark.parametrize("kind", ["token", "agent"])
async def test_a_program_lets_nobody_in(issuer, kind):
    with pytest.raises(OAuthProblem, match="Only the owner"):
        await issuer.code(Caller("token:0", kind, EVERYTHING))


async def test_whoever_is_no_user_any_more_takes_all_their_clients_with_them(issuer):
    token, _ = issuer.people.create(NewToken("ada", Grants(SecurityLevel.WRITE), "person"))
    tokens, code = await issuer.connect(token.caller), await issuer.code(token.caller)
    before = issuer.caller(tokens)
    issuer.people.revoke("ada")

    assert before is not None
    assert issuer.caller(tokens) is None
    assert not issuer.callers.is_current(before)
    with pytest.raises(OAuthProblem, match="not connected any more"):
        await issuer.refresh(tokens)
    with pytest.raises(OAuthProblem, match="expired"):
        await issuer.redeem(code)


async def test_an_access_token_may_reach_less_than_the_connection_and_the_next_one_all_of_it_again(issuer):
    tokens = await issuer.connect()
    less = await issuer.refresh(tokens, scope="toolcrib:level:read_only")
    again = await issuer.refresh(less)
    more = await issuer.refresh(again, scope="toolcrib:level:system")
    with pytest.raises(OAuthProblem, match="Scopes here are"):
        await issuer.refresh(more, scope="toolcrib:all")

    assert [issuer.caller(each).grants.level for each in (less, again, more)] == [R, W, W]
    assert less["scope"] == "toolcrib:level:read_only"
    assert await issuer.refresh(more)  # a scope that is not known spent nothing


# Tokens that nobody gave


async def test_an_access_token_that_was_changed_or_comes_from_elsewhere_is_nobodys(issuer, tmp_path):
    token = (await issuer.connect())["access_token"]
    (tmp_path / "other").mkdir()
    other = Issuer(tmp_path / "other")
    foreign = await other.connect()
    body, _, signature = token.removeprefix("tco_").partition(".")
    claims = msgspec.json.decode(base64.urlsafe_b64decode(body + "=="))
    claims[2] = "system"
    raised = base64.urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
    wrong = [
        f"tco_{raised}.{signature}",
        f"tco_{body}.{signature[:-4]}AAAA",
        f"tco_{body}.",
        f"tco_{body}",
        "tco_",
        "tco_.",
        f"tco_{body}.{signature}" + "A" * 9_000,
        foreign["access_token"],
        "tco_\N{SNOWMAN}.x",
    ]

    assert [each for each in wrong if issuer.callers.identify(each.encode())] == []
    with pytest.raises(OAuthProblem, match="not known"):
        await issuer.refresh(foreign)


async def test_a_forged_refresh_token_ends_nothing(issuer):
    """Whoever knows the id of a connection, which stands in lists, cannot end it."""
    tokens = await issuer.connect()
    [connection] = issuer.book.read(ConnectedClient)
    for made_up in (f"tcr_{connection.id}_{'0' * 48}_{'0' * 32}", f"tcr_{connection.id}", "tcr_", "\N{SNOWMAN}"):
        with pytest.raises(OAuthProblem, match="not known"):
            await issuer.refresh({"refresh_token": made_up})
        assert await issuer.server.revoke({"token": made_up}) is None

    assert issuer.caller(tokens) is not None


async def test_a_token_given_back_by_another_client_stays(issuer):
    tokens = await issuer.connect()
    kept = await issuer.server.revoke({"token": tokens["refresh_token"], "client_id": "another"})
    with pytest.raises(OAuthProblem, match="another client"):
        await issuer.refresh(tokens, client_id="another")
    ended = await issuer.server.revoke({"token": tokens["access_token"], "client_id": issuer.client_id})
    with pytest.raises(OAuthProblem, match="`token` is missing"):
        await issuer.server.revoke({})

    assert (kept, ended.state(NOW)) == (None, "revoked")
    assert issuer.caller(tokens) is None


# Clients, and where people are sent back to


@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://chatgpt.com/connector_platform_oauth_redirect?x=1",
        "http://127.0.0.1:33418/callback",
        "http://[::1]/cb",
        "http://localhost:8080/oauth/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "com.example.app:/oauth",
    ],
)
def test_people_may_be_sent_back_to_pages_over_tls_and_to_programs_of_their_own(uri):
    assert is_redirect_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "http://claude.ai/callback",
        "http://127.0.0.1.evil.example/cb",
        "http://10.0.0.1/cb",
        "https:///cb",
        "https://claude.ai@evil.example/cb",
        "https://claude.ai/cb#fragment",
        "https://claude.ai\\@evil.example/",
        "https://evil.example;script-src/cb",
        "https://evil.example,x/cb",
        "https://evil.example:99999/cb",
        "https://[::1/cb",
        "javascript:alert(1)//",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "intent://x#Intent;end",
        "view-source:https://x.example/",
        "//evil.example/cb",
        "/callback",
        "callback",
        "",
        "https://x.example/a b",
        "https://x.example/\r\nset-cookie: a=b",
        "https://bücher.example/",
        "https://x.example/" + "a" * 2_000,
        None,
        7,
    ],
)
def test_nobody_is_sent_to_anything_else(uri):
    assert not is_redirect_uri(uri)


@pytest.mark.parametrize(
    ("known", "given", "is_allowed"),
    [
        ("https://x.example/cb", "https://x.example/cb", True),
        ("https://x.example/cb", "https://x.example/cb/", False),
        ("https://x.example/cb", "https://x.example/cb?next=1", False),
        ("https://x.example/cb", "https://x.example:443/cb", False),
        ("https://x.example/cb", "https://x.example:8443/cb", False),
        ("https://x.example/cb", "https://sub.x.example/cb", False),
        ("https://x.example/cb", "https://X.example/cb", False),
        ("https://x.example/cb", "http://x.example/cb", False),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", True),
        ("http://127.0.0.1/cb", "http://127.0.0.1:2/cb", True),
        ("http://[::1]:1/cb", "http://[::1]:2/cb", True),
        ("http://localhost/cb", "http://localhost:2/cb", True),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/other", False),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb?x=1", False),
        ("http://127.0.0.1:1/cb", "http://localhost:2/cb", False),
        ("http://127.0.0.1:1/cb", "http://x@127.0.0.1:2/cb", False),
        ("http://127.0.0.1:1/cb", "https://127.0.0.1:2/cb", False),
        ("cursor://a/cb", "cursor://a:2/cb", False),
    ],
)
def test_a_redirect_uri_is_the_one_that_was_registered_but_for_the_port_on_ones_own_machine(known, given, is_allowed):
    assert ClientDescription("x", "x", (known,)).allows(given) is is_allowed


@pytest.mark.parametrize(
    ("client_id", "is_one"),
    [
        ("https://claude.ai/oauth/client.json", True),
        ("https://claude.ai:8443/c", True),
        ("https://claude.ai", False),
        ("https://claude.ai/", False),
        ("http://claude.ai/c", False),
        ("http://127.0.0.1/c", False),
        ("https://x@claude.ai/c", False),
        ("https://claude.ai/c#x", False),
        ("https://claude.ai/a/../c", False),
        ("https://claude.ai/./c", False),
        ("https://claude.ai/" + "c" * 500, False),
    ],
)
def test_a_client_id_is_the_address_of_a_document_only_in_this_form(client_id, is_one):
    assert is_document_id(client_id) is is_one


def document(**changes: object) -> bytes:
    usual = {"client_id": "https://c.example/c.json", "client_name": "C", "redirect_uris": ["https://c.example/cb"]}
    return msgspec.json.encode(usual | changes)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (document(client_id="https://c.example/d.json"), "another client_id"),
        (document(client_id=""), "another client_id"),
        (document(redirect_uris=[]), "Name 1 to"),
        (document(redirect_uris=["https://c.example/cb"] * 21), "Name 1 to"),
        (document(redirect_uris=["http://c.example/cb"]), "must be https"),
        (document(redirect_uris="https://c.example/cb"), "no client metadata"),
        (document(token_endpoint_auth_method="client_secret_post"), "counts on a secret"),
        (document(client_secret="s3cret"), "counts on a secret"),
        (b"[]", "no client metadata"),
        (b"<html>", "no client metadata"),
        (b"[" * 100_000, "may have"),
        (document(about="x" * 40_000), "may have"),
    ],
)
def test_a_document_that_is_not_as_it_must_be_is_not_believed(body, words):
    with pytest.raises(OAuthProblem, match=words):
        read_document("https://c.example/c.json", body)


def test_a_client_that_can_prove_itself_otherwise_is_one_all_the_same():
    found = read_document("https://c.example/c.json", document(token_endpoint_auth_method="private_key_jwt"))

    assert (found.host, found.redirect_uris) == ("c.example", ("https://c.example/cb",))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("  Cursor\n\t  IDE ", "Cursor IDE"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("a\u200bb\x00c\x1b[31m", "abc[31m"),
        ("\u2066\u2069", "a client without a name"),
        ("", "a client without a name"),
        ("x" * 500, "x" * 80),
    ],
)
def test_the_name_of_a_client_is_shown_in_one_short_line(name, shown):
    assert shown_name(name) == shown


@pytest.mark.parametrize("change", [{"grant_types": ["client_credentials"]}, {"response_types": ["token"]}])
def test_who_wants_no_code_cannot_register(issuer, change):
    with pytest.raises(OAuthProblem, match="Only authorization codes"):
        issuer.server.clients.register(read_metadata(document(**change)))


# Fetching a client's document


@pytest.fixture
async def site():
    """Serves what the test says, and counts who came."""
    seen: list[str] = []
    answers: dict[str, Callable[[Exchange], object]] = {}

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        path = request.path.decode()
        seen.append(path)
        answers[path](exchange)

    server = HttpServer({}, fallback=handle)
    await server.start("127.0.0.1", 0)
    yield f"http://{server.address}", answers, seen
    await server.close(0)


def anywhere(_: str) -> bool:
    return True


def _redirect(exchange: Exchange) -> None:
    exchange.answer(302, b"", headers=((b"location", b"/good"),))


def _never(exchange: Exchange) -> None:
    exchange.start_stream(200, b"application/json")
    exchange.write(b"{")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda exchange: exchange.answer(404, b"{}"), "the answer was 404"),
        (lambda exchange: exchange.answer(200, document(), b"text/html"), "not JSON"),
        (lambda exchange: exchange.answer(200, b" " * 33_000), "32,768|32768|large|bytes"),
        (_redirect, "redirects are not followed"),
        (_never, "did not come within"),
    ],
    ids=["missing", "a page", "huge", "elsewhere", "slow"],
)
async def test_a_document_is_fetched_in_one_small_quick_piece_or_not_at_all(site, issuer, monkeypatch, answer, words):
    monkeypatch.setattr(oauth_clients, "FETCH_S", 1.0)
    url, answers, seen = site
    answers |= {"/c": answer, "/good": lambda exchange: exchange.answer(200, document())}
    clients = ClientDirectory(issuer.book, fetch_document(None, anywhere), issuer.clock)
    with pytest.raises(OAuthProblem, match=words):
        await clients._find_document(f"{url}/c")

    assert seen == ["/c"]


async def test_nothing_of_this_machine_or_its_network_is_fetched(site, issuer):
    url, answers, seen = site
    answers["/c"] = lambda exchange: exchange.answer(200, document())
    with pytest.raises(OAuthProblem, match="cannot be fetched"):
        await issuer.server.clients._find_document(f"{url}/c")
    for inner in ("https://169.254.169.254/latest", "https://localhost/c", "https://[::1]/c", "https://10.0.0.1/c"):
        with pytest.raises(ClientRefused, match="cannot be fetched"):
            await issuer.server.read_request(issuer.asked(client_id=inner))

    assert seen == []


async def test_a_document_is_fetched_once_for_everybody_who_asks_and_a_bad_one_is_not_asked_for_at_each_try(issuer):
    fetched: list[str] = []
    released = asyncio.Event()

    async def fetch(url: str) -> bytes:
        fetched.append(url)
        await released.wait()
        return document() if url.endswith("c.json") else b"no"

    clients = ClientDirectory(issuer.book, fetch, issuer.clock)

    async def twice(url: str, ask: Callable[[str], Awaitable[object]]) -> list[object]:
        both = asyncio.gather(ask(url), ask(url), return_exceptions=True)
        released.set()
        return [*await both, *await asyncio.gather(ask(url), return_exceptions=True)]

    good = await twice("https://c.example/c.json", clients.find)
    bad = await twice("https://c.example/bad", clients.find)

    assert [each.name for each in good] == ["C"] * 3
    assert [type(each) for each in bad] == [OAuthProblem] * 3
    assert fetched == ["https://c.example/c.json", "https://c.example/bad"]


# Requests


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"client_id": ""}, "invalid_client"),
        ({"client_id": "unknown"}, "invalid_client"),
        ({"redirect_uri": ""}, "invalid_request"),
        ({"redirect_uri": "https://evil.example/"}, "invalid_request"),
        ({"redirect_uri": f"{CALLBACK}/more"}, "invalid_request"),
        ({"redirect_uri": f"{CALLBACK}#x"}, "invalid_request"),
    ],
)
async def test_nobody_is_told_anything_where_client_or_redirect_uri_are_wrong(issuer, change, error):
    issuer.register()
    with pytest.raises(ClientRefused) as caught:
        await issuer.server.read_request(issuer.asked(**change))

    assert caught.value.error == error


@pytest.mark.parametrize(
    "more", ["&client_id=x", "&state=1&state=2", "&%ff", "&" + "&".join(f"a{n}=" for n in range(60))]
)
async def test_a_request_that_could_mean_two_things_means_none(issuer, more):
    issuer.register()
    with pytest.raises(ClientRefused):
        await issuer.server.read_request(issuer.asked() + more.encode())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": ""}, "unsupported_response_type"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": CHALLENGE + "="}, "invalid_request"),
        ({"code_challenge_method": "plain", "code_challenge": VERIFIER}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
        ({"scope": "toolcrib:everything"}, "invalid_scope"),
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
        ({"resource": PUBLIC}, "invalid_target"),
        ({"resource": f"{PUBLIC}/api/v1"}, "invalid_target"),
        ({"resource": f"{PUBLIC}.evil.example/mcp"}, "invalid_target"),
        ({"resource": f"{PUBLIC}/mcp?x=1"}, "invalid_target"),
        ({"resource": f"{PUBLIC}/mcp#x"}, "invalid_target"),
    ],
)
async def test_the_client_is_told_of_every_other_fault_with_its_state_and_our_name(issuer, change, error):
    issuer.register()
    with pytest.raises(SentBack) as caught:
        await issuer.server.read_request(issuer.asked(state="a&b=c", **change))
    told = dict(parse_qsl(urlsplit(caught.value.place).query))

    assert caught.value.place.startswith(f"{CALLBACK}?")
    assert {**told, "error_description": ""} == {
        "error": error,
        "error_description": "",
        "state": "a&b=c",
        "iss": PUBLIC,
    }


async def test_a_state_without_end_is_not_sent_back(issuer):
    issuer.register()
    with pytest.raises(SentBack) as caught:
        await issuer.server.read_request(issuer.asked(state="x" * 5_000))

    assert "state=" not in caught.value.place.replace("error_description=state", "")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"client_id": "another"}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:1/callback"}, "invalid_grant"),
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_grant"),
        ({"code_verifier": CHALLENGE}, "invalid_grant"),
        ({"code_verifier": "v" * 129}, "invalid_grant"),
        ({"resource": f"{PUBLIC}/mcp/small"}, "invalid_target"),
        ({"code": "another"}, "invalid_grant"),
        ({"code": ""}, "invalid_grant"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "unsupported_grant_type"),
    ],
)
async def test_a_code_is_for_the_one_request_it_was_given_to(issuer, change, error):
    code = await issuer.code()
    with pytest.raises(OAuthProblem) as caught:
        await issuer.redeem(**{"code": code, **change})
    after = await issuer.redeem(code, redirect_uri=CALLBACK)

    assert caught.value.error == error
    assert issuer.caller(after) is not None


async def test_a_code_that_comes_again_ends_what_it_was_used_for(issuer):
    code = await issuer.code()
    tokens = await issuer.redeem(code)
    with pytest.raises(OAuthProblem, match="used before") as caught:
        await issuer.redeem(code, code_verifier="whatever")

    assert caught.value.ended.reason == "its code was used twice"
    assert issuer.caller(tokens) is None


# Where it may be switched on


@pytest.mark.parametrize("url", ["", "http://tools.example", "http://10.0.0.1:7337"])
def test_tokens_are_not_given_away_without_tls(tmp_path, url):
    here = AuthContext({"HOME": str(tmp_path)}, ManualClock(NOW), ManualClock(NOW), drop)
    config = Config(oauth="builtin", public_url=url, host="0.0.0.0")
    with pytest.raises(ConfigError, match=re.escape("reach it over TLS")):
        make_authentication(config, here)


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", ""), ("0.0.0.0", "https://tools.example"), ("0.0.0.0", "http://localhost:7337")]
)
def test_over_tls_or_on_this_machine_they_are(tmp_path, host, url):
    here = AuthContext({"HOME": str(tmp_path)}, ManualClock(NOW), ManualClock(NOW), drop)
    made = make_authentication(Config(oauth="builtin", public_url=url, host=host), here)

    assert made.oauth is not None
    assert made.identify is not None
