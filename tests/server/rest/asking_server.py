"""A stdio MCP server of the handshake era that asks before it drops anything: ``python asking_server.py [METHOD]``."""

import json
import sys
from typing import Any

FORM = {
    "message": "Really drop it?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Its name", "minLength": 3},
            "sure": {"type": "boolean"},
            "how": {"type": "string", "enum": ["now", "later"], "enumNames": ["Now", "Later"]},
        },
        "required": ["name"],
    },
}
ASKED = {
    "elicitation/create": FORM,
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Shall I?"}}],
        "maxTokens": 5,
    },
    "roots/list": {},
}
METHOD = sys.argv[1] if len(sys.argv) > 1 else "elicitation/create"
TOOLS = [{"name": "drop", "inputSchema": {"type": "object"}}]


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], can_ask: bool) -> dict[str, Any] | None:
    match request["method"]:
        case "initialize":
            info = {"name": "asking", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS if can_ask else []}
        case "tools/call":
            say({"id": "ask", "method": METHOD, "params": ASKED[METHOD]})
            return None
    return {}


def main() -> None:
    call_id, can_ask, told = None, False, ""
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/initialized" and METHOD == "roots/list":
            say({"id": "first", "method": METHOD})
        elif message.get("id") == "first":
            told = json.dumps(message.get("result"))
        elif message.get("id") == "ask":
            said = told or json.dumps(message.get("result") or message.get("error"), sort_keys=True)
            say({"id": call_id, "result": {"content": [{"type": "text", "text": said}]}})
        elif message.get("method") == "server/discover":
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        elif "id" in message and "method" in message:
            if message["method"] == "initialize":
                can_ask = "elicitation" in message["params"]["capabilities"]
            call_id = message["id"]
            result = answer(message, can_ask)
            if result is not None:
                say({"id": call_id, "result": result})


if __name__ == "__main__":
    main()
