"""The HTTP server, as a client with a socket and bad manners sees it."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import ConfigError, InternalError
from toolcrib.transports.http.connection import SLICE_BYTES, TURN_REQUESTS, ServerConnection
from toolcrib.transports.http.guard import RequestGuard
from toolcrib.transports.http.limits import ConnectionSettings, Places
from toolcrib.transports.http.server import Exchange, GuardPolicy, HttpLimits, HttpRequest, HttpServer, answer_not_found

HASTE = HttpLimits(sweep_s=0.01)


@dataclass
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def code(self) -> str:
        return json.loads(self.body)["error"]["code"]


class Client:
    """A socket, and just enough HTTP to read what comes back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, to_head: bool = False) -> Answer:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        status = int(first.split()[1])
        chunked = b"transfer-encoding" in headers
        body = b"".join([chunk async for chunk in self.chunks()]) if chunked and not to_head else b""
        if not chunked and not to_head:
            body = await self.reader.readexactly(int(headers.get(b"content-length", b"0")))
        return Answer(status, headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    async def closed(self) -> bytes:
        """Whatever comes before the server hangs up."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


@contextlib.asynccontextmanager
async def connected(server: HttpServer) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


class Clock:
    """The server's clock: it stands still until it is put forward."""

    def __init__(self) -> None:
        self._now = 0.0
        self._seen = asyncio.Event()

    def __call__(self) -> float:
        self._seen.set()
        return self._now

    async def advance(self, seconds: float) -> None:
        """Put it forward; returns when the server has acted on it."""
        self._now += seconds
        self._seen.clear()
        await self._seen.wait()


@contextlib.asynccontextmanager
async def serving(
    handler, *, limits: HttpLimits = HASTE, policy: GuardPolicy | None = None, clock: Clock | None = None
) -> AsyncIterator[HttpServer]:
    routes = {"/": handler, "/healthz": handler}
    server = HttpServer(routes, limits=limits, policy=policy, clock=clock or Clock())
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.close(0)


def echo(request: HttpRequest, exchange: Exchange) -> None:
    seen = [request.method, request.path, request.query, request.body]
    exchange.answer(200, json.dumps([part.decode() for part in seen]).encode())


def get(*lines: str, path: str = "/", method: str = "GET", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: localhost", *lines, "", ""]).encode()


def post(body: bytes, *lines: str, path: str = "/") -> bytes:
    return get(f"Content-Length: {len(body)}", *lines, path=path, method="POST") + body


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return get("Transfer-Encoding: chunked", method="POST") + framed + b"0\r\n" + trailers + b"\r\n"


class Keeper:
    """A handler that answers nobody until told to."""

    def __init__(self) -> None:
        self.kept: asyncio.Queue[tuple[HttpRequest, Exchange]] = asyncio.Queue()

    def __call__(self, request: HttpRequest, exchange: Exchange) -> None:
        self.kept.put_nowait((request, exchange))

    async def next(self) -> tuple[HttpRequest, Exchange]:
        return await asyncio.wait_for(self.kept.get(), 150)


async def test_a_handler_sees_the_whole_request():
    """Method, path, query, headers (repeated ones each and joined), body and peer are all there."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(post(b"hello", "X-Tag: a", "X-Tag: b", path="/?q=1&r"))
        request, exchange = await keeper.next()

    assert (request.method, request.path, request.query, request.body) == (b"POST", b"/", b"q=1&r", b"hello")
    assert request.header(b"x-tag") == b"a, b"
    assert request.header(b"x-nothing") is None
    assert [pair for pair in request.headers if pair[0] == b"x-tag"] == [(b"x-tag", b"a"), (b"x-tag", b"b")]
    assert request.peer[0] == "127.0.0.1"
    assert request.exchange is exchange


async def test_a_path_without_a_route_goes_to_the_fallback():
    """The usual fallback says that nothing is there, in JSON."""
    async with serving(echo) as server, connected(server) as client:
        client.send(get(path="/else"))
        answer = await client.answer()

    assert (answer.status, answer.code) == (404, "HTTP_NOT_FOUND")


class Wire(asyncio.Transport):
    """A transport whose other end is a list."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def get_extra_info(self, name, default=None):
        return self

    def setsockopt(self, *option) -> None: ...

    def write(self, data) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


FOUR_REQUESTS = (
    post(b"first", "X-Empty:")
    + chunked(b"se", b"cond", trailers=b"X-Trailer: t\r\n")
    + get(path="/third?x=y")
    + get("Connection: Upgrade", "Upgrade: h2c", "Content-Length: 6", method="POST")
    + b"fourth"
)


def served(pieces: list[bytes]) -> list[tuple[bytes, ...]]:
    """What the handler of a connection sees when it reads ``pieces``."""
    seen: list[tuple[bytes, ...]] = []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        seen.append((request.method, request.path, request.query, request.body, *sorted(n for n, _ in request.headers)))
        exchange.answer(200, b"{}")

    connection = ServerConnection(ConnectionSettings({}, handle, RequestGuard(GuardPolicy()), HttpLimits(), Places(10)))
    connection.connection_made(Wire())
    for piece in pieces:
        connection.data_received(piece)
    return seen


def test_requests_survive_being_cut_in_two():
    """Wherever the network cuts, the same requests come out; trailers are no headers, an upgrade is ignored."""
    for cut in range(1, len(FOUR_REQUESTS)):
        seen = served([FOUR_REQUESTS[:cut], FOUR_REQUESTS[cut:]])

        assert seen == [
            (b"POST", b"/", b"", b"first", b"content-length", b"host", b"x-empty"),
            (b"POST", b"/", b"", b"second", b"host", b"transfer-encoding"),
            (b"GET", b"/third", b"x=y", b"", b"host"),
            (b"POST", b"/", b"", b"fourth", b"content-length", b"host"),
        ]


@given(st.lists(st.integers(1, len(FOUR_REQUESTS) - 1), unique=True))
def test_requests_survive_any_way_the_network_cuts_them(cuts: list[int]):
    """However the bytes are split into reads, the same requests come out."""
    edges = [0, *sorted(cuts), len(FOUR_REQUESTS)]

    pieces = [FOUR_REQUESTS[start:end] for start, end in itertools.pairwise(edges)]

    assert served(pieces) == served([FOUR_REQUESTS])


async def test_a_head_that_was_seen_before_means_the_same_again():
    """Requests with the same head differ by their bodies only, read one by one, together, or cut."""
    async with serving(echo) as server, connected(server) as client:
        answers = []
        for piece, complete in [
            (post(b"one"), 1),
            (post(b"two"), 1),
            (post(b"abc") + post(b"def"), 2),
            (post(b"six")[:-1], 0),
            (b"x" + post(b"end"), 2),
            (post(b"fin"), 1),
        ]:
            client.send(piece)
            answers += [json.loads((await client.answer()).body) for _ in range(complete)]

    assert [answer[3] for answer in answers] == ["one", "two", "abc", "def", "six", "end", "fin"]


async def test_a_token_is_checked_with_every_request():
    """A token that is withdrawn does not live on with the connection that used it."""
    valid = {b"secret"}
    policy = GuardPolicy(identify=lambda given: given if given in valid else None)
    async with serving(echo, policy=policy) as server, connected(server) as client:
        statuses = []
        for _ in range(3):
            client.send(post(b"hello", "Authorization: Bearer secret"))
            statuses.append((await client.answer()).status)
        valid.clear()
        client.send(post(b"hello", "Authorization: Bearer secret"))
        statuses.append((await client.answer()).status)
        rest = await client.closed()

    assert (statuses, rest) == ([200, 200, 200, 401], b"")


async def test_pipelined_requests_are_answered_in_order():
    """The second request waits for its turn, even if the first takes its time."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(post(b"1") + post(b"2") + post(b"3", "Connection: close"))
        first, slow = await keeper.next()
        waiting = keeper.kept.empty()
        slow.answer(200, b"to " + first.body)
        for _ in range(2):
            request, exchange = await keeper.next()
            exchange.answer(200, b"to " + request.body)
        answers = [(await client.answer()).body for _ in range(3)]
        rest = await client.closed()

    assert waiting
    assert answers == [b"to 1", b"to 2", b"to 3"]
    assert rest == b""


async def test_thousands_of_pipelined_requests_may_wait_behind_a_slow_one():
    """Serving what waits takes no stack: the number of waiting requests has no say in it."""
    keeper = Keeper()

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        keeper(request, exchange) if request.body == b"slow" else exchange.answer(200, request.body)

    async with serving(handle) as server, connected(server) as client:
        client.send(post(b"slow") + post(b"x") * 5000)
        _, slow = await keeper.next()
        slow.answer(200, b"slow")
        answers = [(await client.answer()).body for _ in range(5001)]

    assert answers == [b"slow", *[b"x"] * 5000]


async def count_per_turn(connection: ServerConnection, data: bytes, wire: "Wire", answers: int) -> list[int]:
    """How many answers each turn of the event loop brings until there are ``answers``, from the first byte on."""
    connection.data_received(data)
    turns, counted = [len(wire.written)], len(wire.written)
    while counted < answers:
        await asyncio.sleep(0)
        turns.append(len(wire.written) - counted)
        counted = len(wire.written)
    return turns


async def test_pipelined_requests_are_served_in_turns_with_others():
    """However many arrive at once, a few are parsed and served before other connections have their turn."""
    parsed: list[int] = [0]

    def identify(_token: bytes) -> str:
        parsed[-1] += 1
        return "somebody"

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        exchange.answer(200, request.query)

    wire, policy = Wire(), GuardPolicy(identify=identify)
    connection = ServerConnection(ConnectionSettings({}, handle, RequestGuard(policy), HttpLimits(), Places(10)))
    connection.connection_made(wire)
    requests = [get("Authorization: Bearer x", path=f"/?{n}") for n in range(20_000)]

    turns = await count_per_turn(connection, b"".join(requests), wire, 20_000)

    assert max(turns) <= TURN_REQUESTS
    assert parsed[0] == 20_000
    assert [answer.rpartition(b"\r\n")[2] for answer in wire.written] == [b"%d" % n for n in range(20_000)]


async def test_a_read_of_many_small_requests_is_parsed_in_slices():
    """What cannot be served yet is not even parsed: the first slice of a read, no more."""
    parsed = []
    policy = GuardPolicy(identify=lambda token: parsed.append(token) or "somebody")
    connection = ServerConnection(
        ConnectionSettings({}, answer_not_found, RequestGuard(policy), HttpLimits(), Places(10))
    )
    connection.connection_made(Wire())
    request = get("Authorization: Bearer x")

    connection.data_received(request * 5_000)

    assert len(parsed) <= SLICE_BYTES // len(request) + 1


async def test_answers_are_not_piled_up_for_a_client_that_does_not_read():
    """While the client leaves what was written unread, its next requests wait; they are served when it reads on."""
    wire = Wire()
    connection = ServerConnection(
        ConnectionSettings(
            {}, lambda _, exchange: exchange.answer(200, b"{}"), RequestGuard(GuardPolicy()), HttpLimits(), Places(10)
        )
    )
    connection.connection_made(wire)
    connection.pause_writing()
    connection.data_received(get() * 100)
    for _ in range(50):
        await asyncio.sleep(0)
    unread = len(wire.written)
    connection.resume_writing()
    for _ in range(50):
        await asyncio.sleep(0)

    assert (unread, len(wire.written)) == (0, 100)


async def test_a_refusal_waits_for_the_answers_before_it():
    """Nonsense after a good request is answered after the good request is."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(get() + b"nonsense\r\n\r\n")
        _, exchange = await keeper.next()
        exchange.answer(200, b"{}")
        answers = [await client.answer(), await client.answer()]
        rest = await client.closed()

    assert [answer.status for answer in answers] == [200, 501]
    assert rest == b""


async def test_a_head_request_gets_the_head_only():
    """HEAD is answered with the length the body would have had."""
    async with serving(lambda _, exchange: exchange.answer(200, b"12345")) as server, connected(server) as client:
        client.send(get(method="HEAD") + get("Connection: close"))
        head = await client.answer(to_head=True)
        full = await client.answer()

    assert head.headers[b"content-length"] == b"5"
    assert full.body == b"12345"


async def test_an_answer_that_has_no_body_by_law_has_none():
    """204 carries neither a body nor a length, and the connection goes on."""
    async with serving(lambda _, exchange: exchange.answer(204, b"oops")) as server, connected(server) as client:
        client.send(get() + get("Connection: close"))
        received = await client.closed()

    head = b"HTTP/1.1 204 No Content\r\n"
    assert received == head + b"\r\n" + head + b"connection: close\r\n\r\n"


async def test_a_large_answer_arrives_whole():
    """Bodies beyond what is written in one piece are complete as well."""
    body = bytes(range(256)) * 10_000
    async with (
        serving(lambda _, exchange: exchange.answer(200, body, b"application/x")) as server,
        connected(server) as client,
    ):
        client.send(get())
        answer = await client.answer()

    assert answer.headers[b"content-type"] == b"application/x"
    assert answer.body == body


async def test_a_stream_arrives_piece_by_piece_and_the_connection_is_used_again():
    """Each write is there before the next; after the end the next request is served."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(get())
        _, exchange = await keeper.next()
        exchange.start_stream(200, headers=((b"cache-control", b"no-store"),))
        head = await client.reader.readuntil(b"\r\n\r\n")
        exchange.write(b"one")
        exchange.write(b"")
        first = await client.reader.readexactly(8)
        exchange.write(b"two")
        exchange.end()
        rest = await client.reader.readexactly(13)
        client.send(get())
        _, again = await keeper.next()
        again.answer(200, b"{}")
        answer = await client.answer()

    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"content-type: text/event-stream",
        b"cache-control: no-store",
        b"transfer-encoding: chunked",
        b"",
        b"",
    ]
    assert (first, rest) == (b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n")
    assert (exchange.answered, exchange.streaming, answer.status) == (True, False, 200)


async def test_an_old_client_gets_a_stream_without_chunks():
    """HTTP/1.0 does not know chunks: the stream ends when the connection does."""

    def stream(_: HttpRequest, exchange: Exchange) -> None:
        exchange.start_stream(200)
        exchange.write(b"all")
        exchange.end()

    async with serving(stream) as server, connected(server) as client:
        client.send(get("Connection: keep-alive", version="1.0"))
        received = await client.closed()

    assert received.endswith(b"connection: close\r\n\r\nall")
    assert b"chunked" not in received


async def test_nothing_is_served_behind_a_stream_that_ends_with_its_connection():
    """Requests that wait behind it could not be answered, so their handlers are not asked."""
    keeper, asked = Keeper(), []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        asked.append(request.query)
        if request.query == b"slow":
            keeper(request, exchange)
            return
        exchange.start_stream(200)
        exchange.end()

    async with serving(handle) as server, connected(server) as client:
        old = [get("Connection: keep-alive", path=f"/?{name}", version="1.0") for name in ("slow", "stream", "lost")]
        client.send(b"".join(old))
        _, exchange = await keeper.next()
        exchange.answer(200, b"{}")
        await client.closed()

    assert asked == [b"slow", b"stream"]


async def test_whoever_works_on_an_answer_learns_that_the_client_left():
    """The callback comes once; what is said afterwards goes nowhere."""
    keeper, told = Keeper(), []
    gone = asyncio.Event()
    async with serving(keeper) as server:
        async with connected(server) as client:
            client.send(get())
            _, exchange = await keeper.next()
            exchange.on_disconnect(lambda: (told.append(1), gone.set()))
        await asyncio.wait_for(gone.wait(), 150)
        exchange.answer(200, b"{}")
        exchange.write(b"late")
        exchange.on_disconnect(lambda: told.append(2))

    assert told == [1, 2]
    assert (exchange.disconnected, exchange.answered) == (True, False)


async def test_nobody_is_told_of_a_client_that_leaves_after_its_answer():
    """A complete answer is the end of it."""
    keeper, told = Keeper(), []
    async with serving(keeper) as server:
        async with connected(server) as client:
            client.send(get())
            _, exchange = await keeper.next()
            exchange.on_disconnect(lambda: told.append(1))
            exchange.answer(200, b"{}")
            await client.answer()
        await server.close(1)

    assert told == []


async def test_a_failing_handler_costs_its_own_request_only():
    """The client reads 500, the fault is reported, the next request on the connection is served."""
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        if request.body == b"bad":
            raise ZeroDivisionError
        exchange.answer(200, b"{}")

    async with serving(handle) as server, connected(server) as client:
        client.send(post(b"bad") + post(b"good"))
        answers = [await client.answer(), await client.answer()]

    assert [answer.status for answer in answers] == [500, 200]
    assert answers[0].code == "HTTP_INTERNAL"
    assert [type(error) for error in reported] == [ZeroDivisionError]


async def test_an_exchange_cannot_be_answered_twice():
    """The second answer is a fault of ours and says so; the client sees the first."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(get())
        _, exchange = await keeper.next()
        exchange.answer(200, b"first")
        with pytest.raises(InternalError, match=r"answer\(\) needs an exchange that is open; this one is done"):
            exchange.answer(200, b"second")
        with pytest.raises(InternalError, match=r"write\(\) needs an exchange that is streaming"):
            exchange.write(b"third")
        answer = await client.answer()

    assert answer.body == b"first"


async def test_a_header_cannot_smuggle_another():
    """A line break in a header we send is refused before anything is written."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(get())
        _, exchange = await keeper.next()
        for value in (b"a\r\nset-cookie: b", b"a\nb", b"a\rb"):
            with pytest.raises(InternalError, match="line break"):
                exchange.answer(200, b"{}", headers=((b"x", value),))
        exchange.answer(200, b"{}")
        answer = await client.answer()

    assert set(answer.headers) == {b"content-type", b"content-length"}


OLD = b"POST / HTTP/1.0\r\nHost: localhost\r\n"

REFUSED = {
    "nonsense": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 501),
    "an unknown method": (get(method="FETCH"), 501),
    "trace": (get(method="TRACE"), 405),
    "connect": (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (get("Host: localhost"), 400),
    "two origins": (get("Origin: http://localhost", "Origin: http://localhost"), 400),
    "two authorizations": (get("Authorization: Bearer a", "AUTHORIZATION: Bearer a"), 400),
    "two lengths": (get("Content-Length: 1", "Content-Length: 1", method="POST") + b"x", 400),
    "length and chunks": (get("Content-Length: 1", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n", 400),
    "chunks and length": (get("Transfer-Encoding: chunked", "Content-Length: 1", method="POST") + b"0\r\n\r\n", 400),
    "chunks from an old client": (OLD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "length and chunks from an old client": (
        OLD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "a coding from an old client": (OLD + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "an older version": (b"POST / HTTP/0.9\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "a size that is no number": (chunked(b"x").replace(b"\r\n1\r\n", b"\r\nzz\r\n"), 400),
    "a size with a sign": (chunked(b"x").replace(b"\r\n1\r\n", b"\r\n+1\r\n"), 400),
    "a chunk longer than it says": (chunked(b"xx").replace(b"\r\n2\r\n", b"\r\n1\r\n"), 400),
    "a chunk that ends in a line feed": (chunked(b"x").replace(b"x\r\n", b"x\n"), 400),
    "a size that ends in a line feed": (chunked(b"x").replace(b"\r\n1\r\n", b"\r\n1\n"), 400),
    "a size beyond every number": (chunked(b"x").replace(b"\r\n1\r\n", b"\r\nfffffffffffffffff\r\n"), 400),
    "two codings": (get("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n", 400),
    "chunked twice": (get("Transfer-Encoding: chunked, chunked", method="POST") + b"0\r\n\r\n", 400),
    "a length with a sign": (get("Content-Length: +1", method="POST") + b"x", 400),
    "a coding we do not know": (get("Transfer-Encoding: gzip, chunked", method="POST") + b"0\r\n\r\n", 501),
    "an expectation we do not know": (get("Expect: miracles", method="POST"), 417),
    "a header over two lines": (get("X-A: b", " c"), 400),
    "a space before the colon": (get("X-A : b"), 400),
    "bare line feeds": (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
    "the same header forty times": (get(*["X-A: b"] * 40), 400),
    "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
}


@pytest.mark.parametrize(("data", "status"), REFUSED.values(), ids=REFUSED)
async def test_a_request_that_breaks_the_rules_is_refused_and_the_connection_closed(data: bytes, status: int):
    """The refusal is JSON that can be read; nothing after it is listened to, no handler is asked."""
    asked = []
    async with serving(lambda *call: asked.append(call)) as server, connected(server) as client:
        client.send(data + get())
        answer = await client.answer()
        rest = await client.closed()

    assert answer.status == status
    assert answer.code.startswith("HTTP_")
    assert answer.headers[b"connection"] == b"close"
    assert (rest, asked) == (b"", [])


SMALL = replace(HASTE, head_bytes=2000, body_bytes=2000)

TOO_LARGE = {
    "a long header": (get(f"X-A: {'a' * 3000}"), 431),
    "many headers": (get(*[f"X-{n}: aaaaaaaaaa" for n in range(200)]), 431),
    "a long path": (get(path="/" + "a" * 3000), 431),
    "a header that never ends": (b"GET / HTTP/1.1\r\nX-A: " + b"a" * 3000, 431),
    "a length": (get("Content-Length: 2001", method="POST"), 413),
    "a body": (post(b"x" * 2001), 413),
    "a chunk": (chunked(b"x" * 2001), 413),
    "chunks": (chunked(*[b"x" * 100] * 21), 413),
    "chunks that never end": (chunked(*[b"x" * 100] * 21)[:-5], 413),
}


@pytest.mark.parametrize(("data", "status"), TOO_LARGE.values(), ids=TOO_LARGE)
async def test_more_than_allowed_is_refused(data: bytes, status: int):
    """Headers and bodies beyond their limits get an answer that says so, then the connection ends."""
    async with serving(echo, limits=SMALL) as server, connected(server) as client:
        client.send(data)
        answer = await client.answer()
        rest = await client.closed()

    assert answer.status == status
    assert rest == b""


async def test_as_much_as_allowed_is_served():
    """The limits themselves are still fine, for each of several requests in one read."""

    def measure(request: HttpRequest, exchange: Exchange) -> None:
        exchange.answer(200, b"%d" % len(request.body))

    async with serving(measure, limits=SMALL) as server, connected(server) as client:
        client.send(post(b"x" * 2000) + chunked(*[b"x" * 100] * 20) + get(f"X-A: {'a' * 1900}") * 3)
        answers = [(await client.answer()).body for _ in range(5)]

    assert answers == [b"2000", b"2000", b"0", b"0", b"0"]


async def test_endless_framing_is_not_free():
    """A trailer without end is no content, and is stopped all the same."""
    async with serving(echo, limits=replace(SMALL, body_bytes=10)) as server, connected(server) as client:
        client.send(chunked(b"x")[:-2] + b"X-Trailer: " + b"a" * 1_500_000)
        answer = await client.answer()

    assert answer.status == 413


@pytest.mark.parametrize("data", [post(b"x" * 20_000_000), chunked(*[b"x" * 1_000_000] * 20)], ids=["length", "chunks"])
async def test_a_client_that_sends_far_too_much_can_read_why(data: bytes):
    """The refusal is not lost in a reset, although most of the body was never read."""
    async with serving(echo) as server, connected(server) as client:
        client.send(data)
        await client.writer.drain()
        answer = await client.answer()

    assert answer.code == "HTTP_BODY_TOO_LARGE"


async def test_a_client_that_sends_without_end_is_cut_off():
    """Listening to a refused client has a limit too."""
    async with (
        serving(echo, limits=replace(HASTE, body_bytes=10, linger_bytes=100_000)) as server,
        connected(server) as client,
    ):

        async def send_without_end() -> None:
            client.send(get("Transfer-Encoding: chunked", method="POST"))
            while True:
                client.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
                await client.writer.drain()

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send_without_end(), 150)


async def test_a_refused_client_that_stays_is_let_go():
    """It has time to read the refusal, not more."""
    clock = Clock()
    async with serving(echo, clock=clock) as server, connected(server) as client:
        client.send(b"nonsense\r\n\r\n")
        answer = await client.answer()
        await clock.advance(HASTE.linger_s * 0.9)
        client.send(b"x")
        stayed = server.connections
        await clock.advance(HASTE.linger_s * 0.2)
        await client.closed()

    assert (answer.status, stayed) == (501, 1)


async def test_a_client_may_ask_before_it_sends_a_body():
    """``Expect: 100-continue`` is met, or refused without the body."""
    async with serving(echo, limits=SMALL) as server, connected(server) as client:
        client.send(get("Expect: 100-continue", "Content-Length: 2", method="POST"))
        go_on = await client.reader.readexactly(25)
        client.send(b"ok" + get("Expect: 100-continue", "Content-Length: 9999", method="POST"))
        answers = [await client.answer(), await client.answer()]

    assert go_on == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert [answer.status for answer in answers] == [200, 413]


async def test_the_offer_of_another_protocol_is_ignored():
    """Java's client offers HTTP/2 with its first POST; the POST is served as if it had not."""
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAA", "X-Kept: yes")
    async with serving(echo) as server, connected(server) as client:
        client.send(post(b"first", *offer, path="/?a=b") + post(b"second"))
        answers = [json.loads((await client.answer()).body) for _ in range(2)]

    assert answers == [["POST", "/", "a=b", "first"], ["POST", "/", "", "second"]]


async def test_a_target_may_name_the_whole_address():
    """The absolute form is served by its path; its host is the one that must be allowed."""
    async with serving(echo) as server, connected(server) as client:
        client.send(
            get(path="http://127.0.0.1:80/?a") + get(path="http://localhost") + get(path="http://evil.example/")
        )
        answers = [await client.answer() for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 200, 421]
    assert json.loads(answers[0].body) == ["GET", "/", "a", ""]


SLOW = {
    "no byte at all": (b"", HASTE.head_s, None),
    "half a head": (get()[:20], HASTE.head_s, 408),
    "half a body": (post(b"hello")[:-2], HASTE.body_idle_s, 408),
    "half a chunk": (chunked(b"hello")[:-9], HASTE.body_idle_s, 408),
    "nothing after an answer": (get(), HASTE.keep_alive_s, 200),
}


@pytest.mark.parametrize(("data", "limit_s", "status"), SLOW.values(), ids=SLOW)
async def test_a_client_that_stops_talking_is_let_go(data: bytes, limit_s: float, status: int | None):
    """Every silence has its limit; one in the middle of a request is told."""
    clock = Clock()
    async with serving(echo, clock=clock) as server, connected(server) as client:
        client.send(data)
        closed = asyncio.create_task(client.closed())
        await settled(server)
        await clock.advance(limit_s - 0.1)
        stayed = server.connections
        await clock.advance(0.2)
        received = await closed

    assert (received[9:12], stayed) == (str(status).encode() if status else b"", 1)


async def settled(server: HttpServer) -> None:
    """Until the server has taken what was sent before: it answers one who came after."""
    async with connected(server) as later:
        later.send(get(path="/healthz"))
        await later.answer()


@pytest.mark.parametrize(
    ("start", "limit_s"),
    [
        (b"GET / HTTP/1.1\r\nX-A: ", HASTE.head_s),
        (get("Content-Length: 100000", method="POST"), HASTE.body_total_s),
    ],
    ids=["head", "body"],
)
async def test_dripping_bytes_buys_no_time(start: bytes, limit_s: float):
    """A client that sends a byte now and then is let go like one that sends none."""
    clock = Clock()
    async with serving(echo, clock=clock) as server, connected(server) as client:
        client.send(start)
        for _ in range(20):
            client.send(b"x")
            await settled(server)
            await clock.advance(limit_s / 19)
        answer = await asyncio.wait_for(client.answer(), 150)

    assert answer.status == 408


async def test_work_on_an_answer_has_no_limit_here():
    """While a request is being worked on, silence of the client is as it should be."""
    keeper, clock = Keeper(), Clock()
    async with serving(keeper, clock=clock) as server, connected(server) as client:
        client.send(get())
        _, exchange = await keeper.next()
        await clock.advance(1_000_000)
        exchange.answer(200, b"{}")
        answer = await client.answer()

    assert answer.status == 200


async def test_a_client_is_not_late_while_we_do_not_read():
    """A request whose second half cannot be read yet is not refused for being slow."""
    keeper, clock = Keeper(), Clock()
    async with serving(keeper, clock=clock) as server, connected(server) as client:
        client.send(post(b"1") + post(b"2") + get()[:20])
        _, exchange = await keeper.next()
        await clock.advance(HASTE.head_s + 1)
        exchange.answer(200, b"{}")
        client.send(get()[20:])
        for _ in range(2):
            (await keeper.next())[1].answer(200, b"{}")
        answers = [await client.answer() for _ in range(3)]

    assert [answer.status for answer in answers] == [200] * 3


async def test_a_client_that_does_not_read_is_let_go():
    """What we write is not kept for ever; whoever waits for room to write goes on."""
    keeper, clock, gone = Keeper(), Clock(), asyncio.Event()
    async with serving(keeper, clock=clock) as server, connected(server) as client:
        client.send(get())
        _, exchange = await keeper.next()
        exchange.on_disconnect(gone.set)
        exchange.start_stream(200)
        exchange.write(b"x" * 50_000_000)
        waiting = asyncio.create_task(exchange.drain())
        await clock.advance(HASTE.write_idle_s + 1)
        await asyncio.wait_for(gone.wait(), 150)
        await asyncio.wait_for(waiting, 150)

    assert server.connections == 0


async def test_the_backlog_is_what_the_client_has_yet_to_read():
    """Nothing once it has read all; a client that is gone leaves none."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(get())
        _, exchange = await keeper.next()
        exchange.start_stream(200)
        exchange.write(b"x" * 50_000_000)
        behind = exchange.backlog
        exchange.end()
        await client.answer()

    assert (behind > 25_000_000, exchange.backlog) == (True, 0)


async def test_drain_waits_for_a_slow_reader():
    """A writer that drains keeps pace with the client, and all of it arrives."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(get())
        _, exchange = await keeper.next()
        exchange.start_stream(200)

        async def produce() -> None:
            for _ in range(50):
                exchange.write(b"x" * 1_000_000)
                await exchange.drain()
            exchange.end()

        producing = asyncio.create_task(produce())
        answer = await client.answer()
        await producing

    assert len(answer.body) == 50_000_000


async def taken_place(stack: contextlib.AsyncExitStack, server: HttpServer, keeper: Keeper) -> tuple[Client, Exchange]:
    """A client whose request is being answered."""
    client = await stack.enter_async_context(connected(server))
    client.send(get())
    return client, (await keeper.next())[1]


async def test_too_many_connections_are_told_so():
    """Beyond the limit a client reads 503 while all others are being served; a place that becomes free can be had."""
    keeper = Keeper()
    limits = replace(HASTE, connections=2)
    async with serving(keeper, limits=limits) as server, contextlib.AsyncExitStack() as stack:
        one, exchange = await taken_place(stack, server, keeper)
        await taken_place(stack, server, keeper)
        async with connected(server) as three:
            three.send(get())
            refused = await three.answer()
            await three.closed()
        exchange.answer(200, b"{}")
        await one.answer()
        async with connected(server) as four:
            four.send(get())
            (await keeper.next())[1].answer(200, b"{}")
            served_again = await four.answer()
            gone = await one.closed()

    assert (refused.status, refused.code) == (503, "HTTP_TOO_MANY_CONNECTIONS")
    assert (served_again.status, gone) == (200, b"")


async def test_whoever_sends_is_served_however_many_are_silent():
    """A thousand connections that say nothing take nobody's place; those under way keep theirs."""
    keeper = Keeper()
    limits = replace(HttpLimits(), connections=40)
    async with serving(keeper, limits=limits) as server, connected(server) as early:
        early.send(get())
        _, busy = await keeper.next()
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(200):
                await stack.enter_async_context(connected(server))
            late = await stack.enter_async_context(connected(server))
            late.send(get(path="/healthz"))
            (await keeper.next())[1].answer(200, b"late")
            busy.answer(200, b"early")
            answers = [(await client.answer()).body for client in (late, early)]
            held = server.connections

    assert answers == [b"late", b"early"]
    assert held <= 40


async def test_closing_lets_go_of_idle_clients_at_once():
    """A server with nothing to do does not wait for its grace to pass."""
    async with serving(echo) as server, connected(server) as client:
        client.send(get())
        await client.answer()
        await asyncio.wait_for(server.close(3600), 150)
        rest = await client.closed()

    assert rest == b""


async def test_closing_waits_for_an_answer_under_way():
    """A request that was taken is answered; its client is told that the connection ends."""
    keeper = Keeper()
    async with serving(keeper) as server, connected(server) as client:
        client.send(get() + get())
        _, exchange = await keeper.next()
        closing = asyncio.create_task(server.close(60))
        await asyncio.sleep(0)
        exchange.answer(200, b"{}")
        answer = await client.answer()
        rest = await client.closed()
        await asyncio.wait_for(closing, 150)

    assert answer.headers[b"connection"] == b"close"
    assert (rest, keeper.kept.empty()) == (b"", True)


async def test_closing_serves_the_request_under_way_and_none_after_it():
    """A client in the middle of a request may finish it; what it sends behind that is not listened to."""
    asked = []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        asked.append(request.body)
        exchange.answer(200, b"{}")

    async with serving(handle) as server, connected(server) as client:
        client.send(get("Expect: 100-continue", "Content-Length: 5", method="POST"))
        await client.reader.readuntil(b"\r\n\r\n")
        closing = asyncio.create_task(server.close(60))
        await asyncio.sleep(0)
        client.send(b"first" + post(b"second"))
        answer = await client.answer()
        await asyncio.wait_for(closing, 150)

    assert answer.headers[b"connection"] == b"close"
    assert asked == [b"first"]


async def test_closing_does_not_wait_for_slow_clients_longer_than_its_grace():
    """Half a head, half a body, a stream nobody ends and one nobody reads: all are gone when close returns."""
    keeper = Keeper()
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(keeper))
        clients = [await stack.enter_async_context(connected(server)) for _ in range(4)]
        for client, data in zip(clients, (get()[:20], post(b"hello")[:-2], get(), get()), strict=True):
            client.send(data)
        streams = [(await keeper.next())[1] for _ in range(2)]
        for stream in streams:
            stream.start_stream(200)
        streams[0].write(b"x" * 50_000_000)
        await asyncio.wait_for(server.close(0.1), 150)

        assert server.connections == 0
        assert all(stream.disconnected for stream in streams)


async def test_a_closed_server_takes_no_more_connections():
    """Closing twice is fine; connecting afterwards is refused."""
    async with serving(echo) as server:
        await server.close()
        await server.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)


async def test_a_port_that_is_taken_is_named():
    """The error says which port, and how to get another."""
    async with serving(echo) as server:
        second = HttpServer({}, fallback=answer_not_found)
        with pytest.raises(ConfigError, match=rf"Port {server.port} of 127.0.0.1 is already in use.*--port 0"):
            await second.start("127.0.0.1", server.port)


async def test_an_address_of_another_machine_is_named():
    """An address that is not ours cannot be listened on, and the error says so."""
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1 is not an address of this machine"):
        await HttpServer({}).start("192.0.2.1", 0)


async def test_the_address_can_be_written_into_a_url():
    """IPv6 addresses stand in brackets."""
    server = HttpServer({"/": echo})
    await server.start("::1", 0)
    try:
        reader, writer = await asyncio.open_connection("::1", server.port)
        writer.write(get("Connection: close"))
        answer = await Client(reader, writer).answer()
        writer.close()
    finally:
        await server.close()

    assert server.address == f"[::1]:{server.port}"
    assert answer.status == 200
