"""The HTTP client, against our own server and against servers that misbehave."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trustme

from toolcrib.core.errors import ConfigError, InternalError, SourceUnavailable
from toolcrib.transports.http.client import (
    ClientConnection,
    HttpFailure,
    HttpPool,
    PoolLimits,
    Response,
    idle_allowance,
)
from toolcrib.transports.http.dial import HttpOrigin
from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(handler) -> AsyncIterator[tuple[HttpServer, HttpPool]]:
    server = HttpServer({}, fallback=handler)
    await server.start("127.0.0.1", 0)
    async with pooling(f"http://{server.address}") as pool:
        yield server, pool
    await server.close(0)


@contextlib.asynccontextmanager
async def pooling(url: str, **options) -> AsyncIterator[HttpPool]:
    pool = HttpPool(url, **options)
    try:
        yield pool
    finally:
        await pool.close()


@contextlib.asynccontextmanager
async def scripted(script: Script, *, limits: PoolLimits | None = None) -> AsyncIterator[HttpPool]:
    """A pool whose server does to every connection what ``script`` says, then hangs up."""

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(run, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with pooling(f"http://127.0.0.1:{port}", limits=limits) as pool:
        yield pool
    server.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


def echo(request: HttpRequest, exchange: Exchange) -> None:
    exchange.answer(200, b" ".join([request.method, request.path, request.body]))


class Keeper:
    """A handler that answers nobody until told to."""

    def __init__(self) -> None:
        self.kept: asyncio.Queue[tuple[HttpRequest, Exchange]] = asyncio.Queue()

    def __call__(self, request: HttpRequest, exchange: Exchange) -> None:
        self.kept.put_nowait((request, exchange))

    async def next(self) -> tuple[HttpRequest, Exchange]:
        return await asyncio.wait_for(self.kept.get(), 150)


async def test_a_request_gets_its_answer():
    """Status, headers and body come back; what was sent arrived with host and length."""
    keeper = Keeper()
    async with serving(keeper) as (server, pool):
        asking = asyncio.create_task(pool.request("POST", b"/mcp?x", [(b"x-tag", b"a")], b"hello"))
        request, exchange = await keeper.next()
        exchange.answer(418, b"tea", b"text/plain", ((b"x-a", b"1"), (b"x-a", b"2")))
        response = await asking

    assert (request.method, request.path, request.query, request.body) == (b"POST", b"/mcp", b"x", b"hello")
    assert request.headers == [(b"host", server.address.encode()), (b"x-tag", b"a"), (b"content-length", b"5")]
    assert (response.status, response.body) == (418, b"tea")
    assert response.header(b"content-type") == b"text/plain"
    assert response.header(b"x-a") == b"1, 2"
    assert [value for name, value in response.headers if name == b"x-a"] == [b"1", b"2"]


async def test_one_connection_serves_many_requests():
    """Requests one after the other use one connection, whatever the size of their bodies."""
    sizes = [0, 1, 100_000, 3_000_000, 5]
    async with serving(lambda request, exchange: exchange.answer(200, request.body)) as (server, pool):
        answers = [len((await pool.request("POST", b"/", (), b"x" * size)).body) for size in sizes]

        assert answers == sizes
        assert server.connections == 1


async def test_two_hundred_requests_at_once_share_the_connections():
    """All are answered, each once, over no more connections than allowed."""
    order: list[bytes] = []
    most = 0

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        nonlocal most
        order.append(request.body)
        most = max(most, server.connections)
        asyncio.get_running_loop().call_soon(exchange.answer, 200, request.body)

    async with (
        serving(handle) as (server, _),
        pooling(f"http://{server.address}", limits=PoolLimits(connections=7)) as pool,
    ):
        bodies = [b"%d" % n for n in range(200)]
        answers = await asyncio.gather(*[pool.request("POST", b"/", (), body) for body in bodies])

    assert [answer.body for answer in answers] == bodies
    assert most == 7
    assert sorted(order) == sorted(bodies)


async def test_whoever_waits_longest_is_served_first():
    """With one connection the order of the requests is the order of asking."""
    order: list[bytes] = []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        order.append(request.body)
        exchange.answer(200, b"")

    async with (
        serving(handle) as (server, _),
        pooling(f"http://{server.address}", limits=PoolLimits(connections=1)) as pool,
    ):
        bodies = [b"%d" % n for n in range(20)]
        await asyncio.gather(*[pool.request("POST", b"/", (), body) for body in bodies])

    assert order == bodies


async def test_a_stream_reaches_its_receiver_as_it_arrives():
    """Pieces are delivered before the answer is complete; a body that nobody chose to receive is read whole."""
    keeper, pieces = Keeper(), asyncio.Queue()

    def choose(response: Response):
        return pieces.put_nowait if response.header(b"content-type") == b"text/event-stream" else None

    async with serving(keeper) as (_, pool):
        head = pool.encode_head("POST", b"/mcp", ())
        asking = asyncio.create_task(pool.exchange(head, b"{}", choose))
        _, exchange = await keeper.next()
        exchange.start_stream(200)
        exchange.write(b"data: 1\n\n")
        first = await asyncio.wait_for(pieces.get(), 150)
        pending = not asking.done()
        exchange.write(b"data: 2\n\n")
        exchange.end()
        streamed = await asking
        asking = asyncio.create_task(pool.exchange(head, b"{}", choose))
        _, exchange = await keeper.next()
        exchange.answer(200, b'{"a":1}')
        whole = await asking

    assert (first, pieces.get_nowait(), pending) == (b"data: 1\n\n", b"data: 2\n\n", True)
    assert (streamed.status, streamed.body) == (200, b"")
    assert whole.body == b'{"a":1}'


async def test_a_receiver_that_fails_fails_its_own_exchange():
    """The error comes out as it is; the connection is closed, the pool goes on."""

    def explode(piece: bytes) -> None:
        raise ZeroDivisionError

    async with serving(echo) as (_, pool):
        head = pool.encode_head("POST", b"/", ())
        with pytest.raises(ZeroDivisionError):
            await pool.exchange(head, b"x", lambda _: explode)
        answer = await pool.exchange(head, b"x")

    assert answer.status == 200


async def test_cancelling_closes_that_connection_and_no_other():
    """The server learns that the one client left; the other request is answered."""
    keeper, gone = Keeper(), asyncio.Event()
    async with serving(keeper) as (_, pool):
        doomed = asyncio.create_task(pool.request("POST", b"/doomed"))
        _, exchange = await keeper.next()
        exchange.on_disconnect(gone.set)
        other = asyncio.create_task(pool.request("POST", b"/other"))
        _, other_exchange = await keeper.next()
        doomed.cancel()
        await asyncio.wait_for(gone.wait(), 150)
        other_exchange.answer(200, b"fine")
        answer = await other

    assert doomed.cancelled()
    assert answer.body == b"fine"


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_cancelling_in_the_moment_of_the_answer_harms_nobody(moment: str):
    """Just before the answer is complete or just after: whoever has the connection next is served over it."""
    keeper, loop = Keeper(), asyncio.get_running_loop()
    later: list[asyncio.Task[Response]] = []

    def cancel_first(_: Response) -> None:
        first.cancel() if moment == "before" else loop.call_soon(first.cancel)
        later.append(asyncio.create_task(pool.request("POST", b"/2")))

    async with serving(keeper) as (server, pool):
        first = asyncio.create_task(pool.exchange(pool.encode_head("POST", b"/1", ()), b"", cancel_first))
        _, exchange = await keeper.next()
        exchange.answer(200, b"one")
        _, exchange = await keeper.next()
        exchange.answer(200, b"two")
        response = await later[0]
        connections = server.connections

    assert first.cancelled()
    assert (response.body, connections) == (b"two", 1)


async def test_giving_up_with_a_connection_in_hand_passes_it_on():
    """Whoever is cancelled after its turn came, but before it knew, leaves the connection to the next."""
    keeper, loop = Keeper(), asyncio.get_running_loop()

    async with (
        serving(keeper) as (server, _),
        pooling(f"http://{server.address}", limits=PoolLimits(connections=1)) as pool,
    ):
        first = asyncio.create_task(
            pool.exchange(pool.encode_head("POST", b"/1", ()), b"", lambda _: loop.call_soon(second.cancel) and None)
        )
        _, exchange = await keeper.next()
        second, third = (asyncio.create_task(pool.request("POST", path)) for path in (b"/2", b"/3"))
        await asyncio.sleep(0)
        exchange.answer(200, b"one")
        request, exchange = await keeper.next()
        exchange.answer(200, b"three")
        answers = [await first, await third]

    assert second.cancelled()
    assert (request.path, [answer.body for answer in answers]) == (b"/3", [b"one", b"three"])


async def test_cancelling_while_waiting_for_a_connection_passes_the_turn_on():
    """Whoever gives up in the queue does not keep others from being served."""
    keeper = Keeper()
    async with (
        serving(keeper) as (server, _),
        pooling(f"http://{server.address}", limits=PoolLimits(connections=1)) as pool,
    ):
        tasks = [asyncio.create_task(pool.request("POST", b"/%d" % n)) for n in range(4)]
        _, exchange = await keeper.next()
        tasks[1].cancel()
        tasks[0].cancel()
        _, exchange = await keeper.next()
        exchange.answer(200, b"two")
        tasks[2].add_done_callback(lambda _: tasks[3].cancel())
        await asyncio.wait(tasks)
        asking = asyncio.create_task(pool.request("POST", b"/5"))
        while (await keeper.next())[0].path != b"/5":
            pass
        asking.cancel()

    assert [task.cancelled() for task in tasks] == [True, True, False, True]


async def test_a_connection_the_server_closed_while_idle_is_not_used():
    """The next request takes a new one, without an error."""
    connections = 0

    async def once(reader, writer) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with scripted(once) as pool:
        for _ in range(3):
            await pool.request("POST", b"/")
            while pool._idle:
                await asyncio.sleep(0)

    assert connections == 3


async def answer_one_then_hang_up_on_the_next(reader, writer) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    await read_request(reader)


async def test_a_request_lost_on_a_kept_connection_may_have_had_its_effect():
    """The error says that it was sent; nobody sends it again unasked."""
    async with scripted(answer_one_then_hang_up_on_the_next) as pool:
        await pool.request("POST", b"/")
        with pytest.raises(HttpFailure, match="closed the connection before its answer was complete") as caught:
            await pool.request("POST", b"/")

    assert (caught.value.phase, caught.value.sent, caught.value.retryable) == ("answer", True, True)
    assert isinstance(caught.value, SourceUnavailable)


async def test_a_replayable_request_lost_on_a_kept_connection_is_sent_again():
    """Once, on a new connection."""
    async with scripted(answer_one_then_hang_up_on_the_next) as pool:
        head = pool.encode_head("GET", b"/", ())
        answers = [await pool.exchange(head, b"", replayable=True) for _ in range(4)]

    assert [answer.body for answer in answers] == [b"ok"] * 4


async def test_a_replayable_request_is_not_sent_again_when_the_new_connection_fails_too():
    """A server that hangs up on everybody is not asked for ever."""
    asked = 0

    async def hang_up(reader, writer) -> None:
        nonlocal asked
        asked += 1
        await read_request(reader)

    async with scripted(hang_up) as pool:
        with pytest.raises(HttpFailure):
            await pool.exchange(pool.encode_head("GET", b"/", ()), b"", replayable=True)

    assert asked == 1


async def test_a_replayable_request_is_not_sent_again_once_its_answer_began():
    """Half an answer is an answer: the server did work on it."""
    connections = 0

    async def begin_the_second(reader, writer) -> None:
        nonlocal connections
        connections += 1
        await answer_one_then_hang_up_on_the_next(reader, writer)
        writer.write(b"HTTP/1.1 200")

    async with scripted(begin_the_second) as pool:
        head = pool.encode_head("GET", b"/", ())
        await pool.exchange(head, b"", replayable=True)
        with pytest.raises(HttpFailure, match="before its answer was complete"):
            await pool.exchange(head, b"", replayable=True)

    assert connections == 1


BROKEN = {
    "cut in the head": (b"HTTP/1.1 200 OK\r\nContent-Le", "closed the connection"),
    "cut in the body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "closed the connection"),
    "cut in a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", "closed the connection"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", r"did not answer in HTTP/1.1 \("),
    "another protocol": (
        b"HTTP/1.1 101 Fine\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        "did not answer in HTTP/1.1",
    ),
    "a long header": (b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 3000 + b"\r\n\r\n", "more headers than allowed"),
    "a header without end": (b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 3000, "more headers than allowed"),
    "one header too often": (b"HTTP/1.1 200 OK\r\n" + b"X-A: a\r\n" * 50, "one header too often"),
    "a large body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + b"x" * 9999, "a larger body than allowed"),
    "large chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"64\r\n%b\r\n" % (b"x" * 100) * 99,
        "a larger",
    ),
}


@pytest.mark.parametrize(("answer", "reason"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_answer_is_an_error_that_says_how(answer: bytes, reason: str):
    """Every failure of the answer names the server and what it did, and that the request was sent."""

    async def reply(reader, writer) -> None:
        await read_request(reader)
        writer.write(answer)

    async with scripted(reply, limits=PoolLimits(head_bytes=2000, body_bytes=2000)) as pool:
        with pytest.raises(HttpFailure, match=reason) as caught:
            await asyncio.wait_for(pool.request("POST", b"/"), 150)

    assert (caught.value.phase, caught.value.sent) == ("answer", True)
    assert str(caught.value).startswith("127.0.0.1:")


async def test_a_reset_in_the_middle_of_an_answer_fails_that_request_only():
    """Others of the same pool go on."""
    keeper = Keeper()
    async with serving(keeper) as (_, pool):
        first, second = (asyncio.create_task(pool.request("POST", b"/%d" % n)) for n in range(2))
        exchanges = {request.path: exchange for request, exchange in [await keeper.next(), await keeper.next()]}
        exchanges[b"/0"].start_stream(200)
        exchanges[b"/0"].write(b"half")
        exchanges[b"/0"]._transport.abort()
        exchanges[b"/1"].answer(200, b"fine")
        with pytest.raises(HttpFailure, match="before its answer was complete"):
            await first
        answer = await second

    assert answer.body == b"fine"


async def test_an_answer_without_a_length_ends_with_the_connection():
    """Old servers say the end of the body by hanging up."""

    async def reply(reader, writer) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nall of it")

    async with scripted(reply) as pool:
        answers = [(await pool.request("POST", b"/")).body for _ in range(2)]

    assert answers == [b"all of it"] * 2


async def test_interim_answers_are_not_the_answer():
    """100 and 103 are passed over."""

    async def reply(reader, writer) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with scripted(reply) as pool:
        answer = await pool.request("DELETE", b"/")

    assert (answer.status, answer.headers, answer.body) == (204, [], b"")


async def test_an_answer_nobody_asked_for_does_not_become_the_next_one():
    """A server that sends two answers to one request loses the connection, and the second answer is not believed."""

    async def reply(reader, writer) -> None:
        request = await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + request[-1:])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        await reader.read()

    bodies = [b"1", b"2", b"3"]
    async with scripted(reply, limits=PoolLimits(connections=1)) as pool:
        in_turn = [(await pool.request("POST", b"/", (), body)).body for body in bodies]
        at_once = await asyncio.gather(*[pool.request("POST", b"/", (), body) for body in bodies])

    assert in_turn == bodies
    assert [answer.body for answer in at_once] == bodies


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_error_that_says_where_it_points(status: int):
    """Nothing is sent to the other address."""

    def redirect(_: HttpRequest, exchange: Exchange) -> None:
        exchange.answer(status, b"", headers=((b"location", b"http://evil.example/mcp"),))

    async with serving(redirect) as (_, pool):
        with pytest.raises(HttpFailure, match=rf"answered {status} and points to 'http://evil.example/mcp'") as caught:
            await pool.request("POST", b"/")

    assert caught.value.phase == "redirect"


async def test_a_refused_connection_is_named():
    """The error says who refused, and that nothing was sent."""
    async with serving(echo) as (server, _):
        port = server.port
    async with pooling(f"http://127.0.0.1:{port}/mcp") as pool:
        with pytest.raises(HttpFailure, match=rf"Connection refused by 127.0.0.1:{port}") as caught:
            await pool.request("POST", b"/mcp")

    assert (caught.value.phase, caught.value.sent) == ("connect", False)


async def test_a_name_that_does_not_resolve_is_named():
    """The error says which name, and what to check."""
    async with pooling("http://no-such-host.invalid") as pool:
        with pytest.raises(HttpFailure, match=r"The name 'no-such-host.invalid' does not resolve") as caught:
            await pool.request("POST", b"/")

    assert (caught.value.phase, caught.value.sent) == ("resolve", False)


async def test_connecting_has_its_own_limit():
    """A server that does not finish the handshake is given up, and the place is free for the next attempt."""

    async def say_nothing(reader, writer) -> None:
        await reader.read()

    async with scripted(say_nothing) as silent:
        url, limits = f"https://{silent.origin}", PoolLimits(connections=1)
        async with pooling(url, connect_timeout_s=0.05, limits=limits) as pool:
            for _ in range(3):
                with pytest.raises(HttpFailure, match=r"No connection to .* within 0.05 s") as caught:
                    await pool.request("POST", b"/")

    assert caught.value.phase == "connect"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1, made for this run, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    crt, key = str(folder / "crt.pem"), str(folder / "key.pem")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(crt)
    authority.cert_pem.write_to_path(crt, append=True)
    issued.private_key_pem.write_to_path(key)
    return crt, key


@contextlib.asynccontextmanager
async def serving_tls(certificate: tuple[str, str]) -> AsyncIterator[str]:
    async def reply(reader, writer) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                request = await read_request(reader)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + request[-5:])

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    server = await asyncio.start_server(reply, "127.0.0.1", 0, ssl=context)
    yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_a_trusted_certificate_is_believed(certificate, monkeypatch):
    """``SSL_CERT_FILE`` names whom to trust; the connection is kept as any other."""
    monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
    async with serving_tls(certificate) as url, pooling(url) as pool:
        answers = [(await pool.request("POST", b"/", (), body)).body for body in (b"hello", b"again")]
        connections = len(pool._connections)

    assert (answers, connections) == ([b"hello", b"again"], 1)


async def test_a_certificate_nobody_vouches_for_is_named(certificate):
    """The error says whose certificate, why, and how to trust it."""
    async with serving_tls(certificate) as url, pooling(url) as pool:
        with pytest.raises(
            HttpFailure, match=r"The certificate of 127.0.0.1:\d+ is not valid.*SSL_CERT_FILE"
        ) as caught:
            await pool.request("POST", b"/")

    assert (caught.value.phase, caught.value.sent) == ("tls", False)


async def test_https_to_a_server_without_it_says_so():
    """The hint is to write http."""
    async with serving(echo) as (server, _), pooling(f"https://{server.address}") as pool:
        with pytest.raises(HttpFailure, match=r"No TLS with .* write http://") as caught:
            await pool.request("POST", b"/")

    assert caught.value.phase == "tls"


async def test_closing_ends_everything_at_once():
    """What is under way fails as sent, what waits as not sent, what comes later as closed."""
    keeper = Keeper()
    async with (
        serving(keeper) as (server, _),
        pooling(f"http://{server.address}", limits=PoolLimits(connections=1)) as pool,
    ):
        under_way, waiting = (asyncio.create_task(pool.request("POST", b"/")) for _ in range(2))
        await keeper.next()
        await pool.close()
        failures = await asyncio.gather(under_way, waiting, return_exceptions=True)
        with pytest.raises(HttpFailure, match="were closed"):
            await pool.request("POST", b"/")

    assert [(failure.phase, failure.sent) for failure in failures] == [("closed", True), ("closed", False)]


async def test_closing_while_connecting_leaves_nothing_open():
    """A connection that comes about too late is closed."""
    async with serving(echo) as (server, _), pooling(f"http://{server.address}") as pool:
        asking = asyncio.create_task(pool.request("POST", b"/"))
        await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(HttpFailure, match="were closed"):
            await asking
        await asyncio.sleep(0.01)

    assert (len(pool._connections), pool._places) == (0, pool.limits.connections)


class Wire(asyncio.Transport):
    """A transport whose other end is nobody."""

    def get_extra_info(self, name, default=None):
        return self

    def setsockopt(self, *option) -> None: ...

    def write(self, data) -> None: ...

    def is_closing(self) -> bool:
        return False


ANSWERS = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-Empty:\r\nContent-Length: 5\r\n\r\nfirst",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nse\r\n4\r\ncond\r\n0\r\nX-Trailer: t\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n",
)


async def test_answers_survive_any_way_the_network_cuts_them():
    """Wherever each answer is cut, the same answers come out of one connection."""
    for cut in range(1, max(map(len, ANSWERS))):
        connection = ClientConnection(HttpPool("http://127.0.0.1"))
        connection.connection_made(Wire())
        seen = []
        for answer in ANSWERS:
            coming = connection.send(b"", b"", None)
            for piece in (answer[:cut], answer[cut:]):
                connection.data_received(piece)
            response = coming.result()
            seen.append((response.status, response.body, *response.headers))

        assert seen == [
            (200, b"first", (b"x-empty", b""), (b"content-length", b"5")),
            (200, b"second", (b"transfer-encoding", b"chunked")),
            (204, b"", (b"x-a", b"b")),
        ]


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("http://localhost", b"localhost", b"/"),
        ("http://localhost:80/mcp", b"localhost", b"/mcp"),
        ("https://tools.example:443/a?b=c", b"tools.example", b"/a?b=c"),
        ("https://tools.example:80/", b"tools.example:80", b"/"),
        ("http://[::1]:9000/m%C3%BC", b"[::1]:9000", b"/m%C3%BC"),
        ("http://bücher.example:8/ü b", b"xn--bcher-kva.example:8", b"/%C3%BC%20b"),
    ],
)
def test_a_url_says_whom_to_ask_for_what(url: str, authority: bytes, target: bytes):
    """The usual port is left out of the Host header; what may not stand in a target is encoded."""
    origin = HttpOrigin.parse(url)

    assert (origin.authority, origin.target) == (authority, target)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://host", "http://", "http://host:port", "http://u:p@host", "http://[::1"]
)
def test_a_url_that_cannot_be_used_is_refused_at_once(url: str):
    """Before any connection, with a way to write it; a password is not repeated."""
    with pytest.raises(ConfigError) as caught:
        HttpPool(url)

    assert caught.value.hint
    assert "u:p" not in str(caught.value)


def test_a_request_that_would_break_its_own_framing_is_not_sent():
    """Line breaks in headers or targets, and methods whose answers we could not read, are faults of ours."""
    pool = HttpPool("http://localhost")

    for method, target, headers in [
        ("GET", b"/ HTTP/1.1\r\nx: y", ()),
        ("GET", b"", ()),
        ("HEAD", b"/", ()),
        ("GET", b"/", [(b"x", b"a\r\nb: c")]),
        ("GET", b"/", [(b"x", b"a\nb: c")]),
    ]:
        with pytest.raises(InternalError):
            pool.encode_head(method, target, headers)


@pytest.mark.parametrize(
    ("said", "allowed_s"),
    [(None, 60), (b"timeout=5", 4), (b"max=100, Timeout=5", 4), (b"timeout=999", 60), (b"timeout=x", 60)],
)
def test_a_server_that_says_how_long_it_keeps_connections_is_believed(said: bytes | None, allowed_s: float):
    """A second less than it says, never more than we would on our own."""
    assert idle_allowance(said, 60) == allowed_s
