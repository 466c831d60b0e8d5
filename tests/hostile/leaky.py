"""An MCP server that repeats its secrets wherever it can: ``python leaky.py SECRET...`` over stdio, or as a handler."""

import base64
import json
import sys
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]
TOOLS = ("tell", "fail", "refuse", "ask", "die")


def forms(secrets: list[str]) -> str:
    """All secrets, as they are and encoded."""
    return " ".join(form for secret in secrets for form in encoded(secret))


def encoded(secret: str) -> list[str]:
    data = secret.encode()
    return [
        secret,
        quote(secret, safe=""),
        json.dumps(secret),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(b"x:" + data).decode(),
        data.hex(),
    ]


def text(words: str) -> list[Json]:
    return [{"type": "text", "text": words}]


def said_before(method: str, params: Json, words: str) -> list[Json]:
    """What is sent while a call is under way."""
    if method != "tools/call":
        return []
    token = params.get("_meta", {}).get("progressToken")
    told = [{"method": "notifications/message", "params": {"level": "info", "data": {"words": words}}}]
    if token is not None:
        progress = {"progressToken": token, "progress": 1, "message": words}
        told.append({"method": "notifications/progress", "params": progress})
    if params["name"] == "ask":
        schema = {"type": "object", "properties": {"a": {"type": "string", "description": words}}}
        asked = {"message": words, "requestedSchema": schema}
        told.append({"id": "q1", "method": "elicitation/create", "params": asked})
    return told


def answer(method: str, params: Json, words: str) -> Json:
    """The result or the error of a request."""
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": "leaky", "version": words, "title": words}
        capabilities = {"tools": {}, "logging": {}}
        return {
            "result": {
                "protocolVersion": version,
                "serverInfo": info,
                "capabilities": capabilities,
                "instructions": words,
            }
        }
    if method == "tools/list":
        return {"result": {"tools": [tool(name, words) for name in TOOLS]}}
    if method != "tools/call":
        return {"error": {"code": -32601, "message": f"no {method}: {words}"}}
    if params["name"] == "refuse":
        return {"error": {"code": -32000, "message": f"refused with {words}", "data": {words: [words]}}}
    failed = params["name"] == "fail"
    result = {"content": text(words), "structuredContent": {"words": words, words: 1}, "isError": failed}
    return {"result": {**result, "_meta": {"note": words}}}


def tool(name: str, words: str) -> Json:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": words, "default": words}}}
    hints = {"readOnlyHint": True, "title": words}
    return {"name": name, "description": f"{name}: {words}", "inputSchema": schema, "annotations": hints}


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    words = forms(sys.argv[1:])
    print(f"starting with {words}", file=sys.stderr, flush=True)
    print(f"noise with {words}", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if "id" not in message or method is None:
            continue
        if params.get("name") == "die":
            sys.exit(f"dying of {words}")
        for told in said_before(method, params, words):
            send(told)
        send({"id": message["id"], **answer(method, params, words)})


if __name__ == "__main__":
    main()
