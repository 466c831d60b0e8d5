"""Texts that toolcrib reads from files, broken in every way; run by the interpreter that has toolcrib.

``python files_at_rest.py COUNT SEED`` prints a line of JSON: how many were tried, and what went wrong.
"""

import json
import random
import sys

from toolcrib.config.lock import read_lock
from toolcrib.config.parse import parse
from toolcrib.core.errors import ToolcribError

TOML = """\
native = ["math:sqrt"]
[security]
policy = "ask"
[security.policies]
"files__*" = "deny"
[servers.files]
command = "npx"
args = ["-y", "server", "${HOME}"]
env = { KEY = "${KEY:-x}" }
[servers.web]
url = "https://example.org/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }
"""
MCP = '{"mcpServers": {"a": {"command": "x", "args": ["1"], "env": {"K": "v"}}, "b": {"url": "https://h/x"}}}'
LOCK = '{"version": 1, "servers": {"a": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}}}'


def mutated(text: str, chosen: random.Random) -> str:
    """The text with some of it changed, doubled or left out."""
    for _ in range(chosen.randint(1, 8)):
        place = chosen.randrange(len(text)) if text else 0
        length = chosen.randint(1, 12)
        piece = chosen.choice(
            ["\x00", "[[", "]]", '"', "'''", "=", "\n", "{", "}", "${", "9" * 400, "\u202e", "true", "1e999"]
        )
        match chosen.randrange(3):
            case 0:
                text = text[:place] + text[place + length :]
            case 1:
                text = text[:place] + piece + text[place:]
            case _:
                text = text[:place] + text[place : place + length] * 2 + text[place:]
    return text


def main() -> None:
    """Try all of them."""
    count, chosen = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    faults = []
    for number in range(count):
        name, text, read = (("t.toml", TOML, parse), ("mcp.json", MCP, parse), ("toolcrib.lock", LOCK, read_lock))[
            number % 3
        ]
        broken = mutated(text, chosen)
        try:
            read(broken, name)
        except ToolcribError:
            continue
        except Exception as error:
            faults.append(f"{name}: {type(error).__name__}: {error}"[:200])
    print(json.dumps({"tried": count, "faults": faults}))


if __name__ == "__main__":
    main()
