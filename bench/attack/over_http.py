"""Attacks on the HTTP front: broken, smuggled and mutated requests, wrong hosts and origins, wrong tokens."""

import base64
import json
import random
from collections.abc import Iterator

from bench.attack.cases import Case, Finding, judge
from bench.attack.target import Target
from bench.attack.wire import MCP_HEADERS, call_body, exchange, request

LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
PATHS = (
    "/", "/mcp", "/mcp/", "/mcp/none", "/health", "/healthz", "/readyz", "/metrics", "/api/v1/tools",
    "/api/v1/servers", "/api/v1/tokens", "/api/v1/audit", "/api/v1/projects", "/api/v1/../tokens",
    "/%2e%2e/etc/passwd", "/static/../x", "//mcp", "/mcp%00", "/mcp?x=" + "a" * 2000, "*",
    "http://evil.example/mcp", "/api/v1/calls", "/api/v1/openapi.json", "/servers", "/tools", "/settings",
    "/tokens", "/sign-in?code=AAAA", "/audit", "/approvals", "/kb", "/connect",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", "P\x00ST")
HEADS = (
    b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n",
    b"Content-Length: +4\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: 4, 4\r\n",
    b"Transfer-Encoding: xchunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n",
    b" Transfer-Encoding: chunked\r\n",
    b"X: a\r\n b\r\n",
    b"X: \x00\r\n",
    b"X: a\nInjected: b\r\n",
    b"Host: evil.example\r\n",
    b"Host: 127.0.0.1\r\nHost: evil.example\r\n",
    b"Expect: 200-maybe\r\n",
    b"Upgrade: websocket\r\nConnection: upgrade\r\n",
    b"X-Forwarded-For: 10.0.0.1\r\nForwarded: for=127.0.0.1;host=evil\r\n",
    b"Cookie: " + b"a=b; " * 4000 + b"\r\n",
    b"".join(b"X-%d: y\r\n" % number for number in range(400)),
    b"Authorization: Basic " + base64.b64encode(b"owner:owner") + b"\r\n",
)
VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.10", b"http/1.1", b"")
BODIES = (b"", b"0\r\n\r\n", b"5\r\nab", b"zz\r\n", b"4\r\nabcd\r\n0\r\nX: y\r\n\r\nGET /tokens HTTP/1.1\r\n\r\n", LIST)


def broken_requests(_: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Every kind of broken head with every version and body, then random bytes changed in proper requests."""
    fixed = [
        b"POST /mcp " + version + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + head + b"\r\n" + body
        for version in VERSIONS
        for head in HEADS
        for body in BODIES
    ]
    fixed += [f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for method in METHODS for path in PATHS]
    proper = [request("POST", "/mcp", MCP_HEADERS, LIST), request("GET", "/api/v1/tools", {})]
    while len(fixed) < count:
        fixed.append(mutated(chosen.choice(proper), chosen))
    return (sending(data) for data in fixed[:count])


def mutated(data: bytes, chosen: random.Random) -> bytes:
    """The bytes with a few of them changed, doubled, moved or left out."""
    changed = bytearray(data)
    for _ in range(chosen.randint(1, 6)):
        place = chosen.randrange(len(changed))
        match chosen.randrange(4):
            case 0:
                changed[place] = chosen.randrange(256)
            case 1:
                del changed[place : place + chosen.randint(1, 8)]
            case 2:
                changed[place:place] = chosen.choice((b"\r\n", b"\x00", b"\xff\xfe", b"{", b"9" * 50, b": "))
            case _:
                changed[place:place] = changed[place : place + chosen.randint(1, 20)]
        if not changed:
            return b"\x00"
    return bytes(changed)


def sending(data: bytes) -> Case:
    """Whoever sends this without a token gets no success and no secret."""

    async def case(target: Target) -> Finding:
        return judge(target, await exchange(target.port, data, ends=True))

    return case


def wrong_tokens(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Tokens made of good ones: shortened, lengthened, mutated, of other kinds, and JWTs nobody signed."""
    good = list(target.tokens.values())

    def one() -> str:
        token = chosen.choice(good)
        match chosen.randrange(5):
            case 0:
                return token[: chosen.randrange(len(token))]
            case 1:
                return token + chosen.choice("AaZ9-_. =")
            case 2:
                place = chosen.randrange(len(token))
                other = chosen.choice([letter for letter in "abcXYZ019" if letter != token[place]])
                return token[:place] + other + token[place + 1 :]
            case 3:
                return token.swapcase()
            case _:
                head = {"alg": chosen.choice(["none", "HS256", "RS256"]), "typ": "JWT"}
                parts = [head, {"sub": "owner", "exp": 4102444800, "iss": "x", "aud": "toolcrib"}]
                coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
                return ".".join([*coded, chosen.choice(["", "AAAA"])])

    for _ in range(count):
        yield with_token(one(), good)


def with_token(token: str, good: list[str]) -> Case:
    """Nobody who comes with it may call a tool."""

    async def case(target: Target) -> Finding:
        headers = {**MCP_HEADERS, "authorization": f"Bearer {token}"}
        body = call_body("good_0__echo", {"text": "hi"})
        reply = await exchange(target.port, request("POST", "/mcp", headers, body))
        return judge(target, reply, refused=token not in good)

    return case


def foreign_pages(_: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Requests as a page of another site would make them, and names that only look like this machine."""
    hosts = [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::ffff:1.2.3.4]", "0", "127.1",
        "2130706433", "127.0.0.1:1", "localhost:99999", "127.0.0.1@evil.example", "evil.localhost.example",
        "LOCALHOST.", "xn--e1a",
    ]  # fmt: skip
    origins = [
        "http://evil.example",
        "null",
        "http://127.0.0.1:1",
        "https://localhost",
        "http://127.0.0.1.evil.example",
        "",
    ]
    for number in range(count):
        host, origin = hosts[number % len(hosts)], chosen.choice(origins)
        path = chosen.choice(PATHS)
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\n"
        kind = chosen.choice(["text/plain", "application/json", "application/x-www-form-urlencoded"])
        head += f"Content-Type: {kind}\r\n"
        data = head.encode() + b"Content-Length: %d\r\n\r\n" % len(LIST) + LIST
        yield refusing(data)


def refusing(data: bytes) -> Case:
    """No page of another site gets an answer it could use."""

    async def case(target: Target) -> Finding:
        reply = await exchange(target.port, data, ends=True)
        if b"access-control-allow-origin: *" in reply.raw.lower():
            return f"passed: {reply.raw[:200]!r}"
        return judge(target, reply, refused=True)

    return case
