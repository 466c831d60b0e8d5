"""A stdio MCP server whose every result is too large: ``python large_server.py``."""

import base64
import hashlib
import json
import sys
from typing import Any

Json = dict[str, Any]

TEXT = "".join(f"{number:06} Größe 😀 {hashlib.sha256(b'%d' % number).hexdigest()}\n" for number in range(62_000))
ROWS = [{"id": number, "name": hashlib.sha256(b"%d" % number).hexdigest()} for number in range(36_000)]
PICTURE = bytes(range(256)) * 4000


def schema(properties: Json, **more: Any) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


ROW = schema({"id": {"type": "integer"}, "name": {"type": "string"}})
TABLE = {"rows": {"type": "array", "items": ROW}}
OUTPUT: dict[str, Json | None] = {
    "text": None,
    "data": None,
    "table": schema(TABLE),
    "strict_table": schema(TABLE, additionalProperties=False),
    "words": schema({"words": {"type": "string"}}, additionalProperties=False),
    "picture": None,
    "failure": schema({"words": {"type": "string"}}),
}


def tools() -> list[Json]:
    plain = {"inputSchema": {"type": "object"}}
    return [{"name": name, **plain, **({"outputSchema": output} if output else {})} for name, output in OUTPUT.items()]


def result(name: str) -> Json:
    if name == "text":
        return said(TEXT)
    if name == "failure":
        return {**said(TEXT), "isError": True}
    if name == "picture":
        data = base64.b64encode(PICTURE).decode()
        return {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}
    if name == "words":
        return {**said(TEXT), "structuredContent": {"words": TEXT}}
    structured = {"rows": ROWS}
    return said(json.dumps(structured)) | ({} if name == "data" else {"structuredContent": structured})


def said(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def answer(request: Json) -> Json:
    if request["method"] == "initialize":
        info = {"name": "large", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    return {"tools": tools()} if request["method"] == "tools/list" else result(request["params"]["name"])


KNOWN = ("initialize", "tools/list", "tools/call")


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        refused = {"error": {"code": -32601, "message": "Method not found"}}
        told = {"result": answer(request)} if request["method"] in KNOWN else refused
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
