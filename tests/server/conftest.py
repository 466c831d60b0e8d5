"""A real HTTP server around routes, and a client that sends what it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.events import drop
from toolcrib.server.identity.sign_in import PublicAddress, SignIns, Tokens
from toolcrib.server.router import Entering, Router, RouteSpec
from toolcrib.transports.http.client import HttpPool
from toolcrib.transports.http.server import GuardPolicy, HttpRequest, HttpServer

OWNER = Caller("owner@page", "local", EVERYTHING)
LOCAL = Caller("local", "local", EVERYTHING)
GUEST = Caller("token:guest", "token", EVERYTHING)
OWNER_TOKEN = "the-owners-token"
GUEST_TOKEN = "the-token-of-a-guest"


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Doorman:
    """Knows the guest's token until it is revoked."""

    clock: Clock = field(default_factory=Clock)
    is_revoked: bool = False
    owner_token: str = OWNER_TOKEN

    def identify(self, presented: bytes) -> Caller | None:
        if presented == self.owner_token.encode():
            return OWNER
        return GUEST if presented == GUEST_TOKEN.encode() and not self.is_revoked else None

    def sign_ins(self) -> SignIns:
        def is_current(caller: Caller) -> bool:
            return caller is not GUEST or not self.is_revoked

        tokens = Tokens(self.identify, is_current, is_current)
        return SignIns(OWNER, lambda: self.owner_token, tokens, self.clock)


def request_to(host: str, cookie: str = "", method: bytes = b"GET") -> HttpRequest:
    """What a browser at ``host`` sends."""
    headers = {b"host": host.encode(), b"user-agent": b"Mozilla/5.0 (X11; Linux) Firefox/150.0"}
    if cookie:
        headers[b"cookie"] = cookie.encode()
    return HttpRequest(method, b"/", headers, ("127.0.0.1", 1))


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Browser:
    """Sends requests to one server."""

    def __init__(self, server: HttpServer) -> None:
        self.address = server.address
        self._pool = HttpPool(f"http://{server.address}")

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        sent = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
        response = await self._pool.request(method, path.encode(), sent, body)
        told = {name.decode(): value.decode() for name, value in response.headers}
        return Reply(response.status, told, response.body)

    async def close(self) -> None:
        await self._pool.close()


Serve = Callable[..., Any]


@pytest.fixture
def doorman() -> Doorman:
    return Doorman()


@pytest.fixture
def serve(doorman: Doorman) -> Serve:
    """Routes behind a real server, with or without a usual caller."""

    @asynccontextmanager
    async def serving(routes: list[RouteSpec], usual: Caller | None = LOCAL) -> AsyncIterator[Browser]:
        sign_ins = doorman.sign_ins()
        router = Router(routes, Entering(sign_ins, doorman.identify, usual), drop)
        server = HttpServer({}, fallback=router.handle, policy=GuardPolicy())
        await server.start("127.0.0.1", 0)
        sign_ins.open(PublicAddress(f"http://{server.address}"))
        browser = Browser(server)
        try:
            yield browser
        finally:
            await browser.close()
            await router.close()
            await server.close(1)
            await asyncio.sleep(0)

    return serving
