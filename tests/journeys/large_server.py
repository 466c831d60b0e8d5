"""A stdio MCP server whose every result is too large: ``python large_server.py [LINES]``, of fewer lines if asked."""

import base64
import hashlib
import json
import sys
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

LINES = [f"{number:06} Größe 😀 {hashlib.sha256(b'%d' % number).hexdigest()}\n" for number in range(52_000)]
PICTURE = bytes(range(256)) * 4000


@dataclass(frozen=True)
class Content:
    """What is in the results: a text of some lines, and a table."""

    text: str
    rows: list[Json]


def content_of(lines: int) -> Content:
    rows = [{"id": number, "name": line.split()[-1]} for number, line in enumerate(LINES[: lines * 3 // 5])]
    return Content("".join(LINES[:lines]), rows)


LARGE = len(LINES)


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


def result(name: str, content: Content) -> Json:
    if name == "text":
        return said(content.text)
    if name == "failure":
        return {**said(content.text), "isError": True}
    if name == "picture":
        data = base64.b64encode(PICTURE).decode()
        return {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}
    if name == "words":
        return {**said(content.text), "structuredContent": {"words": content.text}}
    structured = {"rows": content.rows}
    return said(json.dumps(structured)) | ({} if name == "data" else {"structuredContent": structured})


def said(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def answer(request: Json, content: Content) -> Json:
    if request["method"] == "initialize":
        info = {"name": "large", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    return {"tools": tools()} if request["method"] == "tools/list" else result(request["params"]["name"], content)


KNOWN = ("initialize", "tools/list", "tools/call")


def main(lines: int = LARGE) -> None:
    content = content_of(lines)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        refused = {"error": {"code": -32601, "message": "Method not found"}}
        told = {"result": answer(request, content)} if request["method"] in KNOWN else refused
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
