"""A stdio MCP server whose results not every reader can read: ``python unreadable_server.py``."""

import json
import sys

RESULTS = {
    "said_twice": b'{"content":[{"type":"text","text":"fine"}],"isError":true,"isError":false}',
    "huge_number": b'{"content":[],"structuredContent":{"n":1e999}}',
    "many_digits": b'{"content":[],"structuredContent":{"n":%b}}' % (b"7" * 200_000),
    "too_deep": b'{"content":[],"structuredContent":{"n":%b}}' % (b"[" * 300 + b"]" * 300),
    "half_a_pair": b'{"content":[{"type":"text","text":"\\ud800"}]}',
    "no_text": b'{"content":[{"type":"text","text":"\xff"}]}',
    "no_number": b'{"content":[],"structuredContent":{"n":NaN}}',
}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer = b"{}"
        if message["method"] == "initialize":
            info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            answer = json.dumps({**info, "serverInfo": {"name": "unreadable", "version": "1"}}).encode()
        elif message["method"] == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in RESULTS]
            answer = json.dumps({"tools": tools}).encode()
        elif message["method"] == "tools/call":
            answer = RESULTS[message["params"]["name"]]
        head = json.dumps({"jsonrpc": "2.0", "id": message["id"]})[:-1].encode()
        sys.stdout.buffer.write(head + b',"result":' + answer + b"}\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
