"""A stdio MCP server that notes every call it carries out: ``python counting_server.py DIARY``."""

import json
import os
import sys

TOOLS = [
    {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"]},
    }
    for name, description in (("note", "Note a mark."), ("rare", "Note a mark, but seldom."))
]


def note(words: str) -> None:
    """In one write, so that the servers of several replicas can share the diary."""
    diary = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(diary, f"{words}\n".encode())
    os.close(diary)


def answer(request: dict) -> dict:
    params = request.get("params") or {}
    if request["method"] == "initialize":
        info = {"name": "counting", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if request["method"] == "tools/list":
        return {"tools": TOOLS}
    note(f"{params['name']} {params['arguments']['mark']}")
    return {"content": [{"type": "text", "text": params["arguments"]["mark"]}]}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] in ("initialize", "tools/list", "tools/call"):
            reply["result"] = answer(request)
        else:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


main()
