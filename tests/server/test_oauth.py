"""The built-in authorization server over HTTP, from discovery to a call, and everything that must not get through."""

import asyncio
import base64
import hashlib
import http.client
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import pytest

import toolcrib
from toolcrib.server.serve import Serving
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
            sent |= {b"cookie": self.cookie.encode(), b"origin": b"https://tools.example"}
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

    async def consent(self, page: Answer, **changes: str) -> Answer:
        text = page.body.decode()
        request = re.search(r'name="request" value="([^"]*)"', text)
        fields = {"csrf": CSRF.search(text)[1], "request": unescape(request[1]), "level": "write", "answer": "allow"}
        return await self.person.post("/oauth/authorize", fields | changes)

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
        return (await self.redeem(await self.code(**changes))).json

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
async def served(tmp_path, **settings: Any) -> AsyncIterator[Serving]:
    serve = {"oauth": "builtin", "public_url": PUBLIC, **settings}
    around = Environment(tmp_path, {"HOME": str(tmp_path)})
    written = "".join(f'{name} = "{value}"\n' for name, value in serve.items())
    config = tmp_path / "toolcrib.toml"
    config.write_text(f'[serve]\n{written}\n[profiles.small]\ntools = ["greet"]\n')
    opened = toolcrib.open_crib(config, tools=[greet], surroundings=around)
    async with opened as crib, toolcrib.serve(crib, port=0, token=TOKEN) as serving:
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
