"""A small, well-behaved stdio MCP server: ``python tiny_server.py DIARY``; starts and calls are noted in the diary."""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ECHO: Json = {
    "name": "echo",
    "description": "Give the arguments back.\nAs JSON.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "what to say"},
            "times": {"type": "integer", "default": 1},
            "extra": {"type": "object"},
        },
        "required": ["text"],
    },
    "annotations": {"readOnlyHint": True},
}
TOOLS = [ECHO, *({"name": name, "inputSchema": {"type": "object"}} for name in ("fail", "hang", "paint", "picture"))]


def note(words: str) -> None:
    with Path(sys.argv[1]).open("a") as diary:
        diary.write(f"{words}\n")


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, *, failed: bool = False) -> Json:
    return {"content": [{"type": "text", "text": words}], "isError": failed}


def call(params: Json) -> Json | None:
    name = params["name"]
    note(f"called {name}")
    if name == "hang":
        return None
    if name == "picture":
        data = base64.b64encode(b"x" * 12_000).decode()
        return {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}
    if name == "paint":
        return text("\x1b]0;owned\x07red \x1b[31mwords\x1b[0m \x9b2J end")
    return text("it went wrong", failed=True) if name == "fail" else text(json.dumps(params["arguments"]))


def answer(request: Json) -> Json | None:
    if request["method"] == "initialize":
        info = {"name": "tiny", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if request["method"] == "tools/list":
        return {"tools": TOOLS}
    return call(request["params"])


def main() -> None:
    note("started")
    for name in ("WORD", "SECRET_WORD"):
        if name in os.environ:
            note(f"{name} is {os.environ[name]}")
    sys.stderr.write("tiny: at your service\n")
    sys.stderr.flush()
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] not in ("initialize", "tools/list", "tools/call"):
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        elif (result := answer(request)) is not None:
            send({"id": request["id"], "result": result})


main()
