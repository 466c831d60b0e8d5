"""What the Claude Agent SDK starts: Claude Code's part of their talk over stdin and stdout, without a model.

It makes the calls of a turn at once, as Claude Code does, and says what came back as the result of the query.
"""

import json
import sys
from pathlib import Path
from typing import Any

CALLS = [
    ("meet", {"name": "Ann"}),
    ("meet", {"name": "Bob"}),
    ("fail", {"why": "no luck"}),
    ("picture", {}),
    ("desk_awkward", {"config": "a", "self": "b"}),
    ("nowhere", {}),
]
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "claude-code", "version": "1"}}


def install_claude_code(folder: Path, python: str = sys.executable) -> Path:
    """A program ``claude`` in the folder that does what this file says."""
    program = folder / "claude"
    program.write_text(f'#!/bin/sh\nexec "{python}" "{Path(__file__).resolve()}" "$@"\n')
    program.chmod(0o755)
    return program


def server_name() -> str:
    """The first of the servers the SDK says are in its own process."""
    configured = json.loads(sys.argv[sys.argv.index("--mcp-config") + 1])
    return next(iter(configured["mcpServers"]))


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def heard(kind: str) -> dict[str, Any]:
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == kind:
            return message
    raise SystemExit(0)


def send(number: int, method: str, params: dict[str, Any]) -> None:
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    asked = {"subtype": "mcp_message", "server_name": server_name(), "message": request}
    say({"type": "control_request", "request_id": f"r{number}", "request": asked})


def answers(count: int) -> dict[int, Any]:
    came = [heard("control_response")["response"]["response"]["mcp_response"] for _ in range(count)]
    return {answer["id"]: answer.get("result", answer.get("error")) for answer in came}


def main() -> None:
    first = heard("control_request")
    say(
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": first["request_id"], "response": {}},
        }
    )
    heard("user")
    send(0, "initialize", HELLO)
    answers(1)
    send(1, "tools/list", {})
    listed = answers(1)[1]["tools"]
    for number, (name, arguments) in enumerate(CALLS, 2):
        send(number, "tools/call", {"name": name, "arguments": arguments})
    results = answers(len(CALLS))
    told = {"listed": listed, "results": [results[number] for number in range(2, len(CALLS) + 2)]}
    times = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1}
    say(
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "session_id": "s",
            "result": json.dumps(told),
            **times,
        }
    )
    sys.stdin.read()


if __name__ == "__main__":
    main()
