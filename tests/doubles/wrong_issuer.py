"""A server behind OAuth and its authorization servers, in this process, which can be told to do anything wrong.

What a certified provider does right is tested with one (``tests/fleet/oauth``); no such provider lies. Everything is at
one port: the MCP server at ``/mcp``, the authorization servers at paths of their own (``/one``, ``/two``).
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One request, as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))

    @property
    def bearer(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def basic(self) -> str:
        """The name and the secret of a client that sent them as a header."""
        return base64.b64decode(self.headers.get("authorization", "").removeprefix("Basic ")).decode()


@dataclass(frozen=True)
class Told:
    """One answer."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        lines = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**lines, **self.headers}.items())
        return f"HTTP/1.1 {self.status} x\r\n{head}\r\n".encode() + body


Answer = Callable[[Asked], Told | Awaitable[Told]]


class WrongIssuer:
    """Right in everything until a test puts something else in ``answers``, by path."""

    def __init__(self) -> None:
        self.origin = ""
        self.asked: list[Asked] = []
        self.answers: dict[str, Answer | Told] = {}
        self.issuers = ["one"]
        """By whom the server lets people in."""
        self.metadata: Json = {}
        """What the metadata of the authorization servers say beside the usual."""
        self.tokens: Json = {}
        """What token answers say beside the usual; ``None`` leaves a field out."""
        self.registered: Json = {}
        self.scopes_needed: dict[str, str] = {}
        """What a tool needs, and whoever has it."""
        self.good: dict[str, str] = {}
        """The access tokens that count, with their scopes."""
        self._count = 0

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def issuer(self, name: str = "one") -> str:
        return f"{self.origin}/{name}"

    def seen(self, path: str) -> list[Asked]:
        """The requests to one path."""
        return [each for each in self.asked if each.path == path]

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["WrongIssuer"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            asked = await self._read(reader)
            self.asked.append(asked)
            found = self.answers.get(asked.path, self._usual)
            told = found(asked) if callable(found) else found
            writer.write((told if isinstance(told, Told) else await told).encoded())
            await writer.drain()
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        return Asked(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))

    def _usual(self, asked: Asked) -> Told:
        if asked.path == "/mcp":
            return self.serve(asked)
        if asked.path == "/.well-known/oauth-protected-resource/mcp":
            return Told({"resource": self.url, "authorization_servers": [self.issuer(name) for name in self.issuers]})
        where, _, what = asked.path.removeprefix("/.well-known/oauth-authorization-server").strip("/").partition("/")
        if asked.path.startswith("/.well-known/oauth-authorization-server/"):
            return Told(self.about(where))
        match what:
            case "token":
                return self.give(asked)
            case "register":
                self._count += 1
                known = {"client_id": f"{where}-client-{self._count}", **json.loads(asked.body), **self.registered}
                return Told(known, 201)
            case _:
                return Told(status=404)

    def about(self, name: str) -> Json:
        """The metadata of an authorization server."""
        at = self.issuer(name)
        return {
            "issuer": at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "registration_endpoint": f"{at}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def give(self, asked: Asked) -> Told:
        """New tokens, for whatever was asked with."""
        self._count += 1
        token = f"access-{asked.path.split('/')[1]}-{self._count}"
        scope = self.tokens.get("scope", asked.form.get("scope", "read"))
        self.good[token] = scope or ""
        said = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": scope}
        said |= {"refresh_token": f"refresh-{self._count}", **self.tokens}
        return Told({name: value for name, value in said.items() if value is not None})

    def refuse(self, status: int = 401, more: str = "") -> Told:
        """A challenge."""
        metadata = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
        return Told({}, status, {"www-authenticate": f'Bearer resource_metadata="{metadata}"{more}'})

    def serve(self, asked: Asked) -> Told:
        """The MCP server."""
        if asked.bearer not in self.good:
            return self.refuse(more=', error="invalid_token"' if asked.bearer else "")
        if asked.method != "POST":
            return Told(status=405)
        message = json.loads(asked.body)
        if "id" not in message:
            return Told(status=202)
        base = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                info = {"name": "wrong", "version": "1"}
                found: Json = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "write")]
                found = {"tools": tools}
            case "tools/call":
                needed = self.scopes_needed.get(message["params"]["name"], "")
                if needed not in ("", *self.good[asked.bearer].split()):
                    return self.refuse(403, f', error="insufficient_scope", scope="{needed}"')
                found = {
                    "content": [{"type": "text", "text": asked.bearer.upper()}]
                }  # as it is, nobody would repeat it
            case _:
                return Told({**base, "error": {"code": -32601, "message": "unknown method"}})
        return Told({**base, "result": found})
