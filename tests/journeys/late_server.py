"""A server that takes its time to start: it answers nothing before a file is there. ``python late_server.py FILE``"""

import json
import sys
import time
from pathlib import Path

ANSWERS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "late"}},
    "tools/list": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "worked"}]},
}

while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    known = ANSWERS.get(message["method"])
    said = {"error": {"code": -32601, "message": "Method not found"}} if known is None else {"result": known}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
