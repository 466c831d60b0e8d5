"""Bytes to the gateway and back, within a limit of time."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

LIMIT_S = 60.0
"""What takes longer hangs; nothing here is asked to take more than a second."""


@dataclass(frozen=True)
class Reply:
    """What came back: a status (0 when the connection was closed without one) and all bytes."""

    status: int
    raw: bytes

    @property
    def body(self) -> bytes:
        """What follows the head."""
        return self.raw.partition(b"\r\n\r\n")[2]

    @property
    def document(self) -> Any:
        """The body as JSON, also from a stream of one event; ``None`` if it is none."""
        text = self.body
        if text.startswith((b"event:", b"data:", b"id:", b":")):
            lines = [line[5:] for line in text.splitlines() if line.startswith(b"data:")]
            text = lines[-1] if lines else b""
        try:
            return json.loads(text)
        except ValueError:
            return None


class Hung(Exception):
    """No answer, and the connection was not closed either."""


async def exchange(port: int, data: bytes, *, ends: bool = False) -> Reply:
    """Send bytes on a connection of their own and read until the other side closes it; ``ends`` tells it that no more
    will come, which what is cut short needs and calls take for a caller who left."""
    try:
        async with asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(data)
                if ends:
                    writer.write_eof()
                raw = await reader.read(1 << 26)
                while more := await reader.read(1 << 20):
                    raw += more
            finally:
                writer.close()
    except TimeoutError:
        raise Hung(repr(data[:200])) from None
    except (ConnectionError, OSError):
        return Reply(0, b"")
    return Reply(_status(raw), raw)


def _status(raw: bytes) -> int:
    parts = raw[:16].split(b" ")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A proper HTTP/1.1 request that asks for the connection to be closed."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


MCP_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
ERA = "2026-07-28"


def call_body(name: str, arguments: Any, id_: Any = 1) -> bytes:
    """A ``tools/call`` of a stateless client."""
    return stateless_body("tools/call", {"name": name, "arguments": arguments}, id_)


def stateless_body(method: str, params: dict[str, Any], id_: Any = 1) -> bytes:
    """Any request of a stateless client."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": ERA,
        "io.modelcontextprotocol/clientInfo": {"name": "attack", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": {**params, "_meta": meta}}).encode()


async def call_tool(port: int, token: str, name: str, arguments: Any) -> Reply:
    """Call a tool over MCP."""
    return await ask(port, token, "tools/call", {"name": name, "arguments": arguments}, name)


async def ask(port: int, token: str, method: str, params: dict[str, Any], name: str = "") -> Reply:
    """Ask for anything over MCP; ``name`` is what a header repeats."""
    headers = {
        **MCP_HEADERS,
        "authorization": f"Bearer {token}",
        "mcp-protocol-version": ERA,
        "mcp-method": method,
        **({"mcp-name": name.encode("ascii", "ignore").decode().replace("\n", "").replace("\r", "")} if name else {}),
    }
    return await exchange(port, request("POST", "/mcp", headers, stateless_body(method, params)))
