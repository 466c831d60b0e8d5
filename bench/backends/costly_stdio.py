"""``costly_stdio.py``: a server whose tools have costly schemas and give large results; standard library only.

Each tool's answer is the value of its case, whatever it is asked: see ``bench/workers/costly.py``.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "workers"))

from costly import CASES


def listed() -> list[dict[str, object]]:
    tools: list[dict[str, object]] = [{"name": "plain", "inputSchema": {"type": "object"}}]
    for name, case in CASES.items():
        schema = {"type": "object", "properties": {"value": case.schema}}
        tools.append({"name": f"{name}_in", "inputSchema": schema})
        tools.append({"name": f"{name}_out", "inputSchema": {"type": "object"}, "outputSchema": schema})
    return tools


def result(params: dict[str, object]) -> object:
    case = CASES.get(str(params["name"]).removesuffix("_out"))
    if case is None:
        return {"content": [{"type": "text", "text": "ok"}]}
    return {"content": [], "structuredContent": {"value": case.value()}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer: object = {}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "costly", "version": "1"}
        answer = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/list":
        answer = {"tools": listed()}
    elif message["method"] == "tools/call":
        answer = result(message["params"])
    else:
        error = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
