"""``writes_stdio.py FILE``: a server with a tool that reads and one that writes a line to FILE before it answers.

One line per run of ``write``: whoever reads the file afterwards sees what ran twice, and what was never run.
"""

import os
import sys

import orjson
from answers import SERVER

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
TOOLS = [{"name": name, "inputSchema": SCHEMA} for name in ("lookup", "write")]


def answer(message: dict[str, object], journal: int) -> bytes | None:
    """The reply to a request; None to a notification."""
    if "id" not in message:
        return None
    params: dict[str, dict[str, str]] = message.get("params") or {}  # type: ignore[assignment]
    if message["method"] == "initialize":
        version = params.get("protocolVersion")
        result: object = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": SERVER}
    elif message["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif message["method"] == "tools/call":
        text = params["arguments"]["message"]
        if params["name"] == "write":  # type: ignore[comparison-overlap]
            os.write(journal, f"{text}\n".encode())
        result = {"content": [{"type": "text", "text": text}], "isError": False}
    else:
        error = {"code": -32601, "message": "Method not found"}
        return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
    return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


def serve(journal: int) -> None:
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            reply = answer(orjson.loads(line), journal) if line else None
            if reply is not None:
                os.write(1, reply + b"\n")


serve(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
