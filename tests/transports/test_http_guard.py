"""Who may talk to the server: Host, Origin and token, on every route."""

import asyncio
import hmac

import pytest

from toolcrib.transports.http_guard import Guard
from toolcrib.transports.http_message import Request
from toolcrib.transports.http_server import GuardPolicy, HttpServer

ROUTES = ["/", "/mcp", "/healthz", "/nothing/there?x=y"]


def refused(policy: GuardPolicy, path: str = "/", **headers: str) -> int | None:
    """The status a request with these headers is refused with; ``None`` when it is served."""
    sent = {name.encode(): value.encode() for name, value in headers.items()}
    refusal = Guard(policy, 8080).refusal(Request(b"GET", path.encode(), sent, None))
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
