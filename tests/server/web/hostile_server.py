"""A server that says hostile things of itself, in every place a page shows."""

import json
import sys

EVIL = '</code><script>alert(1)</script><img src=x onerror=alert(2)>" onmouseover="alert(3)'
TOOL = {"name": "echo", "title": EVIL, "description": EVIL, "inputSchema": {"type": "object", "description": EVIL}}


def answer(request: dict) -> dict:
    if request["method"] == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": EVIL, "version": EVIL},
        }
    if request["method"] == "tools/list":
        return {"tools": [TOOL]}
    return {"content": [{"type": "text", "text": EVIL}], "isError": True}


sys.stderr.write(f"{EVIL}\n")
sys.stderr.flush()
if sys.argv[1:] == ["die"]:
    sys.exit(EVIL)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        reply = {"jsonrpc": "2.0", "id": asked["id"]}
        known = asked["method"] in ("initialize", "tools/list", "tools/call")
        reply |= {"result": answer(asked)} if known else {"error": {"code": -32601, "message": EVIL}}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
