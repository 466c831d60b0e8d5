"""A server that keeps what it is told in its process, or in its session: ``python remembering_server.py DIARY [PORT]``.

Each process, or with a port each session, is noted in the diary.
"""

import json
import os
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": name, "inputSchema": TEXT} for name in ("remember", "recall", "die")]


def note(words: str) -> None:
    """In one write, because several processes share the diary."""
    diary = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(diary, f"{words}\n".encode())
    os.close(diary)


def answer(method: str, params: dict, memory: dict) -> dict:
    if method == "initialize":
        info = {"name": "remembering", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if params["name"] == "die":
        os._exit(3)
    if params["name"] == "remember":
        memory["text"] = params["arguments"]["text"]
    return {"content": [{"type": "text", "text": memory.get("text", "nothing")}]}


def reply(request: dict, memory: dict) -> bytes:
    known = request["method"] in ("initialize", "tools/list", "tools/call")
    outcome = (
        {"result": answer(request["method"], request.get("params") or {}, memory)}
        if known
        else {"error": {"code": -32601, "message": "Method not found"}}
    )
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}).encode()


def over_pipes() -> None:
    note(str(os.getpid()))
    memory: dict = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            sys.stdout.write(reply(request, memory).decode() + "\n")
            sys.stdout.flush()


SESSIONS: dict[str, dict] = {}


class Handler(BaseHTTPRequestHandler):
    """Streamable HTTP with sessions, answered with plain JSON."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers.get("mcp-session-id", "")
        if request["method"] == "initialize":
            session = uuid.uuid4().hex
            SESSIONS[session] = {}
            note(session)
        elif session not in SESSIONS and request["method"] != "server/discover":
            self._send(404, b"")
            return
        if "id" in request:
            self._send(200, reply(request, SESSIONS.get(session, {})), session)
        else:
            self._send(202, b"")

    def do_DELETE(self) -> None:
        SESSIONS.pop(self.headers.get("mcp-session-id", ""), None)
        note("ended")
        self._send(204, b"")

    def do_GET(self) -> None:
        self._send(405, b"")

    def _send(self, status: int, body: bytes, session: str = "") -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


if len(sys.argv) > 2:
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
else:
    over_pipes()
