"""A server that says what it was told of a call: ``python tracing_server.py`` on stdio; ``--http`` prints its port."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOLS = [{"name": "look", "inputSchema": {"type": "object"}}]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "tracing"}}


def answer(message: dict[str, Any], header: str) -> dict[str, Any]:
    params = message.get("params", {})
    said = {"meta": params.get("_meta", {}), "header": header}
    known = {
        "initialize": HELLO,
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [{"type": "text", "text": "looked"}], "structuredContent": said},
    }
    if message["method"] not in known:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": known[message["method"]]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_asked = "id" in message
        body = json.dumps(answer(message, self.headers.get("traceparent", ""))).encode() if is_asked else b""
        self.send_response(200 if is_asked else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002
        """Nobody reads it."""


def main() -> None:
    if "--http" in sys.argv:
        listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(listener.server_port, flush=True)
        listener.serve_forever()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            print(json.dumps(answer(message, "")), flush=True)


if __name__ == "__main__":
    main()
