"""Small MCP servers with believable tools: ``python demo_server.py FACE``, a file with the list of tools it shows.

Standard library only. A tool named in ``ANSWERS`` gives that answer, one named in ``FAILURES`` fails, and one that
``indexes`` never ends by itself; any other gives its arguments back. What it offers besides tools stands in the file
``FACE.more``.
"""

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FAILURES = {"delete_branch": "The branch release/2.4 is protected; ask an admin of the repository."}
NEVER_ENDS = {"index_folder"}
ANSWERS = {
    "search_issues": "#412 Login fails on Safari\n#398 Export drops the last row\n#377 Dark mode for charts",
    "free_slots": "Tue 10:00-11:30, Wed 14:00-15:00, Thu 09:00-12:00",
    "read_file": "# Release notes\n\n- Faster start\n- Fewer surprises\n",
    "forecast": "Mostly dry, 14 degrees, light wind from the west.",
}


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def greet(_params: Json) -> Json:
    info = {"name": Path(sys.argv[1]).stem, "version": "1.4.0"}
    offered = {"tools": {}} | {key: {} for key in ("resources", "prompts") if key in more()}
    return {"protocolVersion": "2025-06-18", "capabilities": offered, "serverInfo": info}


def more() -> Json:
    path = Path(f"{sys.argv[1]}.more")
    return json.loads(path.read_text()) if path.exists() else {}


def read(params: Json) -> Json:
    text = f"# {params['uri'].rpartition('/')[2]}\n\nWe release on Tuesdays. Two people look at every change.\n"
    return {"contents": [{"uri": params["uri"], "mimeType": "text/markdown", "text": text}]}


def get(params: Json) -> Json:
    said = (
        f"Review pull request {params.get('arguments', {}).get('pull', '')}. Name what could break, and how to test it."
    )
    return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}


def show(_params: Json) -> Json:
    return {"tools": json.loads(Path(sys.argv[1]).read_text())}


def call(params: Json) -> Json | None:
    name = params["name"]
    if name in NEVER_ENDS:
        return None
    text = FAILURES.get(name) or ANSWERS.get(name) or json.dumps(params.get("arguments", {}), indent=2)
    return {"content": [{"type": "text", "text": text}], "isError": name in FAILURES}


METHODS = {
    "initialize": greet,
    "tools/list": show,
    "tools/call": call,
    "ping": lambda _params: {},
    "resources/list": lambda _params: {"resources": more()["resources"]},
    "resources/templates/list": lambda _params: {"resourceTemplates": more().get("templates", [])},
    "resources/read": read,
    "prompts/list": lambda _params: {"prompts": more()["prompts"]},
    "prompts/get": get,
}


def answer(message: Json) -> None:
    method = METHODS.get(message["method"])
    if method is None:
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    elif (result := method(message.get("params", {}))) is not None:
        send({"id": message["id"], "result": result})


def main() -> None:
    sys.stderr.write(f"{Path(sys.argv[1]).stem}: ready\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer(message)


if __name__ == "__main__":
    main()
