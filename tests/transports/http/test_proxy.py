"""The HTTP client through a real proxy on this machine, to real servers, with certificates made for the test."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme
from tests.transports.http.proxying import proxying

from toolcrib.core.errors import ConfigError
from toolcrib.core.network import Network
from toolcrib.transports.http.client import HttpFailure, HttpPool
from toolcrib.transports.http.dial import ForbiddenAddress, parse_proxy, tls_context
from toolcrib.transports.http.fetch import FetchLimits, fetch
from toolcrib.transports.http.guard import GuardPolicy
from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer

SECRET = "me:very-hidden"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture(scope="module")
def server_side(authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "server.example").configure_cert(context)
    return context


def echo(request: HttpRequest, exchange: Exchange) -> None:
    exchange.answer(200, b" ".join([request.method, request.path, request.query, request.body]))


@contextlib.asynccontextmanager
async def serving(handler=echo) -> AsyncIterator[str]:
    hosts = frozenset({"127.0.0.1:*", "93.184.215.14:*"})
    server = HttpServer({}, fallback=handler, policy=GuardPolicy(allowed_hosts=hosts))
    await server.start("127.0.0.1", 0)
    yield f"http://{server.address}"
    await server.close(0)


@contextlib.asynccontextmanager
async def serving_tls(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Answers every request with its first line; the port."""

    async def reply(reader, writer) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while line := (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(line), line))

    server = await asyncio.start_server(reply, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


@contextlib.asynccontextmanager
async def pooling(url: str, network: Network, **options) -> AsyncIterator[HttpPool]:
    pool = HttpPool(url, network=network, **options)
    try:
        yield pool
    finally:
        await pool.close()


async def test_a_plain_server_is_reached_by_its_whole_url():
    """The proxy is sent the URL, the server its path; one connection serves many requests."""
    async with serving() as url, proxying() as proxy, pooling(url, proxy.network()) as pool:
        answers = [(await pool.request("POST", b"/a?b=c", (), body)).body for body in (b"one", b"two")]

    assert answers == [b"POST /a b=c one", b"POST /a b=c two"]
    assert proxy.asked == [f"POST {url}/a?b=c HTTP/1.1"]  # the second went on within the same connection


async def test_a_server_with_tls_is_reached_through_a_tunnel(server_side, ca_file):
    """The proxy sees host and port only; the certificate is checked against the authority that was named."""
    async with serving_tls(server_side) as port, proxying() as proxy:
        network = proxy.network(SSL_CERT_FILE=ca_file)
        async with pooling(f"https://server.example:{port}", network) as pool:
            answers = [(await pool.request("GET", b"/secret")).body for _ in range(2)]

    assert answers == [b"GET /secret HTTP/1.1"] * 2
    assert proxy.asked == [f"CONNECT server.example:{port} HTTP/1.1"]


async def test_a_proxy_may_speak_tls_itself(server_side, ca_file):
    async with serving_tls(server_side) as port, serving() as plain, proxying(tls=server_side, secret=SECRET) as proxy:
        network = proxy.network(SSL_CERT_FILE=ca_file)
        async with pooling(f"https://127.0.0.1:{port}", network) as pool, pooling(plain, network) as other:
            bodies = [(await pool.request("GET", b"/x")).body, (await other.request("GET", b"/y")).body]

    assert bodies == [b"GET /x HTTP/1.1", b"GET /y  "]


async def test_user_and_password_go_to_the_proxy_only(server_side, ca_file):
    """A tunnel's request does not carry them, nor does the answer depend on them."""
    seen = []

    def keep(request: HttpRequest, exchange: Exchange) -> None:
        seen.append(dict(request.headers))
        exchange.answer(200, b"")

    async with serving(keep) as url, serving_tls(server_side) as port, proxying(secret=SECRET) as proxy:
        network = proxy.network(SSL_CERT_FILE=ca_file)
        async with pooling(url, network) as pool, pooling(f"https://127.0.0.1:{port}", network) as tunnel:
            await pool.request("GET", b"/")
            await tunnel.request("GET", b"/")

    assert [head.count("proxy-authorization: Basic bWU6dmVyeS1oaWRkZW4=") for head in proxy.heads] == [1, 1]
    assert len(seen) == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("given", "words"), [("", "asks for a user"), ("me:wrong-one@", "does not accept its user")])
async def test_a_proxy_that_wants_a_password_says_so(scheme, given, words):
    """What to do is said, the password is not."""
    async with proxying(secret=SECRET) as proxy:
        network = proxy.network(ALL_PROXY=f"http://{given}127.0.0.1:{proxy.port}")
        async with pooling(f"{scheme}://server.example", network) as pool:
            with pytest.raises(HttpFailure, match=words) as caught:
                await pool.request("GET", b"/")

    told = f"{caught.value} {caught.value.hint} {caught.value.details} {pool}"
    assert f"127.0.0.1:{proxy.port}" in told
    assert "user:password@host" in caught.value.hint
    assert "wrong-one" not in told
    assert (caught.value.phase, caught.value.sent) == ("connect", False)


@pytest.mark.parametrize(
    ("status", "words"), [(403, "refused to connect to server.example:443: 403 Forbidden"), (502, "could not reach")]
)
async def test_a_proxy_that_refuses_is_named(status, words):
    async with proxying(status=status) as proxy, pooling("https://server.example", proxy.network()) as pool:
        with pytest.raises(HttpFailure, match=words) as caught:
            await pool.request("GET", b"/")

    assert f"The proxy 127.0.0.1:{proxy.port}" in str(caught.value)
    assert "NO_PROXY" in caught.value.hint


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_away_is_named(scheme):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    network = Network.of({"ALL_PROXY": f"http://{SECRET}@127.0.0.1:{port}"})
    async with pooling(f"{scheme}://server.example", network) as pool:
        with pytest.raises(HttpFailure, match=f"The proxy 127.0.0.1:{port} .* Connection refused") as caught:
            await pool.request("GET", b"/")

    assert "HTTPS_PROXY" in caught.value.hint
    assert "very-hidden" not in f"{caught.value}{caught.value.__cause__}"


@pytest.mark.parametrize("said", [b"SSH-2.0-x\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n\r\nmore than asked for"])
async def test_what_is_no_proxy_is_told_so(said):
    async def speak(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with pooling("https://server.example", Network.of({"ALL_PROXY": f"127.0.0.1:{port}"})) as pool:
            with pytest.raises(HttpFailure, match=f"The proxy 127.0.0.1:{port} (did not answer|spoke)"):
                await pool.request("GET", b"/")


async def test_a_silent_proxy_is_given_up():
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(lambda *_: None, "127.0.0.1", 0))
        network = Network.of({"ALL_PROXY": f"127.0.0.1:{server.sockets[0].getsockname()[1]}"})
        pool = await stack.enter_async_context(pooling("https://server.example", network, connect_timeout_s=0.01))
        with pytest.raises(HttpFailure, match=r"No connection to server.example:443 within 0.01 s"):
            await pool.request("GET", b"/")


async def test_a_certificate_of_another_name_is_refused_inside_a_tunnel(server_side, ca_file):
    async with serving_tls(server_side) as port, proxying() as proxy:
        network = proxy.network(SSL_CERT_FILE=ca_file)
        async with pooling(f"https://other.example:{port}", network) as pool:
            with pytest.raises(HttpFailure, match=r"The certificate of other.example") as caught:
                await pool.request("GET", b"/")

    assert caught.value.phase == "tls"


async def test_a_server_that_asks_for_a_proxys_password_itself_is_passed_on():
    """Only a proxy's word counts as one."""
    async with serving(lambda _, exchange: exchange.answer(407, b"odd")) as url, pooling(url, Network()) as pool:
        assert (await pool.request("GET", b"/")).status == 407


async def test_a_public_page_is_fetched_through_the_proxy():
    async with serving() as url, proxying() as proxy:
        page = f"http://93.184.215.14:{url.rpartition(':')[2]}/guide"
        found = await fetch(page, (), FetchLimits(1000, 5.0, network=proxy.network()))

    assert found.body == b"GET /guide  "
    assert proxy.asked == [f"GET {page} HTTP/1.1"]


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.7", "[::1]", "[fd00::1]", "localhost", "2130706433"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_guard_against_inner_addresses_holds_with_a_proxy(scheme, host):
    """What is inside here is not asked for there; the proxy hears nothing of it."""
    async with proxying() as proxy:
        with pytest.raises(ForbiddenAddress):
            await fetch(f"{scheme}://{host}/latest/", (), FetchLimits(1000, 5.0, network=proxy.network()))

    assert proxy.asked == []


async def test_a_redirect_to_an_inner_address_is_not_followed_through_a_proxy():
    def redirect(_: HttpRequest, exchange: Exchange) -> None:
        exchange.answer(302, b"", headers=((b"location", b"http://169.254.169.254/latest/"),))

    async with serving(redirect) as url, proxying() as proxy:
        page = f"http://93.184.215.14:{url.rpartition(':')[2]}/"
        with pytest.raises(ForbiddenAddress):
            await fetch(page, (), FetchLimits(1000, 5.0, network=proxy.network()))

    assert len(proxy.asked) == 1


async def test_a_name_only_the_proxy_knows_is_not_asked_for():
    """Where it leads cannot be judged here."""
    async with proxying() as proxy:
        with pytest.raises(HttpFailure, match=r"'intranet.invalid' does not resolve"):
            await fetch("http://intranet.invalid/", (), FetchLimits(1000, 5.0, network=proxy.network()))

    assert proxy.asked == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("socks5://me:hidden@proxy:1080", "socks5 one, which toolcrib cannot use"),
        ("http://me:hidden@proxy:port", "not a URL"),
        ("ftp://me:hidden@proxy", "not an http or https URL"),
        ("http://", "not an http or https URL"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(url, words):
    with pytest.raises(ConfigError, match=words) as caught:
        parse_proxy(url)

    assert "hidden" not in f"{caught.value} {caught.value.hint}"


def test_a_proxy_without_a_scheme_is_an_http_one_and_shows_no_password():
    proxy = parse_proxy("me:p%40ss%2Fword@[fd00::1]:3128")

    assert (str(proxy), proxy.origin.tls) == ("[fd00::1]:3128", False)
    assert proxy.authorization == b"proxy-authorization: Basic bWU6cEBzcy93b3Jk\r\n"
    assert "bWU6" not in repr(proxy)


def test_certificates_that_are_not_there_are_named(tmp_path):
    (tmp_path / "odd.pem").write_text("no certificate")

    with pytest.raises(ConfigError, match=r"There is no '/nowhere/ca.pem', which SSL_CERT_FILE or \[network\] ca_file"):
        tls_context("/nowhere/ca.pem", "")
    with pytest.raises(ConfigError, match="There is no '/nowhere', which SSL_CERT_DIR names"):
        tls_context("", "/nowhere")
    with pytest.raises(ConfigError, match=r"The certificates in .*odd.pem' cannot be read"):
        tls_context(str(tmp_path / "odd.pem"), "")
