"""Who may talk to the server: Host, Origin and token, on every route."""

import asyncio
import hmac
from dataclasses import replace

import pytest

from toolcrib.transports.http.guard import NO_TOKEN, SINGLE_HEADERS, RequestGuard, _Names, join_repeated
from toolcrib.transports.http.message import MOST_REPEATS, HttpRequest, Refusal, RequestRefused
from toolcrib.transports.http.server import GuardPolicy, HttpServer

ROUTES = ["/", "/mcp", "/healthz", "/nothing/there?x=y"]


def refused(policy: GuardPolicy, path: str = "/", **headers: str) -> int | None:
    """The status a request with these headers is refused with; ``None`` when it is served."""
    sent = {name.encode(): value.encode() for name, value in headers.items()}
    refusal = RequestGuard(policy, 8080).refusal(HttpRequest(b"GET", path.encode(), sent, None))
    return refusal.status if refusal else None


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8080", "LOCALHOST:9", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:8080"],
)
def test_loopback_names_are_served_with_any_port(host: str):
    """The default policy is that of a server on the loopback interface."""
    assert refused(GuardPolicy(), host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "evil.localhost",
        "127.0.0.1.evil.example",
        "localhost:8080:1",
        "localhost:",
        "localhost:x",
        "localhost.",
        "user@localhost",
        "127.0.0.2",
        "::1",
        "0.0.0.0",
        "",
        "*",
        "localhost:*x",
    ],
)
def test_other_hosts_are_misdirected(host: str):
    """A name that merely looks like ours is not ours."""
    assert refused(GuardPolicy(), host=host) == 421


@pytest.mark.parametrize(
    "origin", ["http://localhost", "https://127.0.0.1:3000", "http://[::1]:8080", "HTTP://LocalHost:1"]
)
def test_pages_of_this_machine_are_served(origin: str):
    """Origins of the loopback interface are allowed by default, with any port."""
    assert refused(GuardPolicy(), host="localhost", origin=origin) is None


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "http://localhost.evil.example", "file://", "ftp://localhost", "localhost", ""],
)
def test_pages_of_others_are_forbidden(origin: str):
    """Any origin that is not on the list is refused, ``null`` included."""
    assert refused(GuardPolicy(), host="localhost", origin=origin) == 403


def test_a_name_without_a_star_means_exactly_that_name():
    """An allowed name has the port it was written with, or none."""
    policy = GuardPolicy(frozenset({"tools.example"}), frozenset({"https://app.example:8443"}))

    assert refused(policy, host="tools.example") is None
    assert refused(policy, host="tools.example:8080") == 421
    assert refused(policy, host="tools.example", origin="https://app.example:8443") is None
    assert refused(policy, host="tools.example", origin="https://app.example") == 403


def with_token(token: bytes) -> GuardPolicy:
    return GuardPolicy(identify=lambda given: "somebody" if hmac.compare_digest(given, token) else None)


@pytest.mark.parametrize("credentials", ["Bearer secret", "bearer secret", "Bearer  secret "])
def test_the_right_token_is_let_in(credentials: str):
    """The scheme's case and the number of spaces do not matter."""
    assert refused(with_token(b"secret"), host="localhost", authorization=credentials) is None


@pytest.mark.parametrize(
    "credentials", ["Bearer wrong", "Bearer", "Bearer ", "secret", "Basic secret", "Bearersecret", ""]
)
def test_any_other_token_is_not(credentials: str):
    """Only the bearer scheme with the right token counts."""
    assert refused(with_token(b"secret"), host="localhost", authorization=credentials) == 401


def test_health_needs_no_token_but_the_right_host():
    """What is open without a token is not open to rebinding."""
    policy = with_token(b"secret")

    assert refused(policy, "/healthz", host="localhost") is None
    assert refused(policy, "/healthz", host="evil.example") == 421
    assert refused(policy, "/healthz/more", host="localhost") == 401


def test_a_route_that_asks_itself_is_open_to_whoever_sends_no_token_at_all():
    """A wrong one is refused there as anywhere."""
    policy = replace(with_token(b"secret"), asks_itself=lambda request: request.path == b"/page")

    assert refused(policy, "/page", host="localhost") is None
    assert refused(policy, "/page", host="localhost", authorization="Bearer wrong") == 401
    assert refused(policy, "/other", host="localhost") == 401


async def ask(path: str, *headers: str, policy: GuardPolicy | None = None) -> tuple[int, bytes]:
    """The status and the whole answer of a server that would serve anything."""
    server = HttpServer({"/": fine, "/mcp": fine, "/healthz": fine}, fallback=fine, policy=policy)
    await server.start("127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write("\r\n".join([f"GET {path} HTTP/1.1", *headers, "Connection: close", "", ""]).encode())
        answer = await reader.read()
        writer.close()
    finally:
        await server.close()
    return int(answer.split()[1]), answer


def fine(request, exchange) -> None:
    exchange.answer(200, b"{}")


@pytest.mark.parametrize("path", ROUTES)
async def test_every_route_is_guarded(path: str):
    """No route, not even one that does not exist, answers a stranger."""
    assert (await ask(path, "Host: localhost"))[0] == 200
    assert (await ask(path, "Host: evil.example"))[0] == 421
    assert (await ask(path, "Host: localhost", "Origin: http://evil.example"))[0] == 403
    assert (await ask(path, "Host: localhost", "Origin: null"))[0] == 403
    assert (await ask(path))[0] == 400


@pytest.mark.parametrize("path", ROUTES)
async def test_every_route_but_health_needs_the_token(path: str):
    """Without it the answer says which scheme is wanted."""
    status, answer = await ask(path, "Host: localhost", policy=with_token(b"secret"))

    assert status == (200 if path == "/healthz" else 401)
    assert (b'www-authenticate: Bearer realm="toolcrib"' in answer) == (path != "/healthz")


def asked(policy: GuardPolicy, **headers: str) -> tuple[object, object]:
    """What a request is refused with, and who it was found to come from."""
    sent = {name.encode(): value.encode() for name, value in {"host": "localhost", **headers}.items()}
    request = HttpRequest(b"POST", b"/mcp", sent, None)
    return RequestGuard(policy).refusal(request), request.identity


def test_a_request_carries_who_sends_it():
    """Whatever ``identify`` answers, untouched; without one, nobody."""
    somebody = object()
    policy = GuardPolicy(identify={b"secret": somebody}.get)

    assert asked(policy, authorization="Bearer secret") == (None, somebody)
    assert asked(policy, authorization="Bearer other") == (NO_TOKEN, None)
    assert asked(GuardPolicy(), authorization="Bearer secret") == (None, None)


def test_who_sends_it_is_not_carried_over_to_the_next_request():
    """A head that is known is not a token that is known."""
    request = HttpRequest(b"POST", b"/mcp", {b"host": b"localhost"}, None)
    request.identity = "somebody"

    assert request.with_body(b"more").identity is None


def test_identify_may_say_that_it_cannot_tell():
    """Then its own refusal is the answer."""
    later = Refusal(503, "HTTP_LATER", "Later.", ((b"retry-after", b"2"),))

    assert asked(GuardPolicy(identify=lambda _: later), authorization="Bearer x") == (later, None)


async def send(method: str, *headers: str, policy: GuardPolicy) -> tuple[int, bytes]:
    server = HttpServer({"/mcp": fine}, policy=policy)
    await server.start("127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = [f"{method} /mcp HTTP/1.1", "Host: localhost", *headers, "Connection: close", "", ""]
        writer.write("\r\n".join(lines).encode())
        answer = await reader.read()
        writer.close()
    finally:
        await server.close()
    return int(answer.split()[1]), answer


PAGE = "Origin: https://app.example"
WANTS = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization, mcp-session-id")
APP = GuardPolicy(
    allowed_origins=frozenset({"https://app.example"}), identify=lambda given: "me" if given == b"secret" else None
)


async def test_a_browser_may_ask_without_the_token_what_an_allowed_page_may_send():
    """It never has the token with it at that point; the answer has no body."""
    status, answer = await send("OPTIONS", PAGE, *WANTS, policy=APP)

    assert status == 204
    assert b"access-control-allow-origin: https://app.example\r\n" in answer
    assert b"access-control-allow-headers: authorization, mcp-session-id\r\n" in answer
    assert b"access-control-allow-methods: GET, POST, PUT, PATCH, DELETE\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (("Origin: https://evil.example", *WANTS), 403),
        (("Origin: null", *WANTS), 403),
        ((PAGE,), 401),
        (WANTS, 401),
    ],
    ids=["another page", "no page", "no question", "no origin"],
)
async def test_nobody_else_is_let_in_by_asking(headers, status):
    """Only a preflight of an allowed page is answered without a token."""
    found, answer = await send("OPTIONS", *headers, policy=APP)

    assert found == status
    assert b"evil.example" not in answer


async def test_header_names_that_are_none_are_not_repeated():
    """What comes in as a list of names goes out as one, or not at all."""
    odd = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x: y, <b>")
    _, answer = await send("OPTIONS", PAGE, *odd, policy=APP)

    assert b"access-control-allow-headers: authorization, content-type\r\n" in answer


@pytest.mark.parametrize("token", ["secret", "wrong"])
async def test_an_allowed_page_can_read_the_answer(token):
    """The refusal too: a page must see that its token is wrong."""
    status, answer = await send("GET", PAGE, f"Authorization: Bearer {token}", policy=APP)
    _, plain = await send("GET", f"Authorization: Bearer {token}", policy=APP)

    assert status == (200 if token == "secret" else 401)
    assert b"access-control-allow-origin: https://app.example\r\n" in answer
    assert b"mcp-session-id" in answer
    assert b"access-control" not in plain


@pytest.mark.parametrize(("method", "status"), [(b"TRACE", 405), (b"CONNECT", 405), (b"GET", None), (b"OPTIONS", None)])
def test_methods_that_reach_further_are_not_served(method: bytes, status: int | None):
    refusal = RequestGuard(GuardPolicy()).refusal(HttpRequest(method, b"/", {b"host": b"localhost"}, None))

    assert (refusal.status if refusal else None) == status


@pytest.mark.parametrize(("method", "status"), [(b"OPTIONS", 204), (b"GET", None), (b"POST", None)])
def test_only_options_with_a_wanted_method_is_a_browsers_question(method: bytes, status: int | None):
    """The same headers on another request are no reason not to serve it."""
    headers = {b"host": b"localhost", b"origin": b"http://localhost", b"access-control-request-method": b"POST"}
    refusal = RequestGuard(GuardPolicy()).refusal(HttpRequest(method, b"/", headers, None))

    assert (refusal.status if refusal else None) == status


@pytest.mark.parametrize("name", sorted(SINGLE_HEADERS))
def test_a_header_with_one_meaning_is_not_sent_twice(name: bytes):
    with pytest.raises(RequestRefused, match="too often"):
        join_repeated(name, b"a", b"a")


def test_other_headers_may_be_repeated_so_often_and_no_more():
    joined = b"0"
    for number in range(1, MOST_REPEATS):
        joined = join_repeated(b"accept", joined, b"%d" % number)

    assert len(joined.parts) == MOST_REPEATS
    with pytest.raises(RequestRefused, match="too often"):
        join_repeated(b"accept", joined, b"x")


@pytest.mark.parametrize(
    ("value", "is_named"),
    [
        (b"example.com:8080", True),
        (b"Example.COM:8080", True),
        (b"example.com:81", False),
        (b"local.example:81", True),
        (b"LOCAL.example", True),
        (b"local.example:x", False),
        (b"local.example:", False),
    ],
)
def test_names_count_with_their_port_whatever_their_case(value, is_named):
    """With an asterisk, any port or none."""
    assert (value in _Names(["example.com:8080", "local.example:*"], 8080)) is is_named
