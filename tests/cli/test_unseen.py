"""What nobody can see never reaches whoever reads the output, wherever a server puts it."""

import json
import sys
import unicodedata

import pytest

from toolcrib.cli.logs import as_json
from toolcrib.core.events import Event
from toolcrib.schema.text import unseen_characters

CLASSES = "".join(
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in {"Cc", "Cf"} and chr(code) not in "\n\r\t"
)
UNSEEN = CLASSES + "\u034f\u115f\u3164\uffa0\ufe0f\U000e0100\ue000"
EMOJI = "1️⃣ 👨‍👩‍👧 🇩🇪 ❤️ 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"

POISONED = """\
import json, sys

UNSEEN, EMOJI = json.loads(sys.argv[1])
BAD = "seen" + UNSEEN + "\\x1b[2J\\x1b]0;owned\\x07"

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}, **more}

TOOLS = [
    tool("fine", title="title " + BAD, description=EMOJI + " " + BAD, annotations={"title": BAD}),
    tool("choices", inputSchema={"type": "object", "properties": {"a": {"enum": [BAD], "default": BAD}}}),
    tool("na\\u200bme"),
    tool("properties", inputSchema={"type": "object", "properties": {BAD: {}}}),
]
sys.stderr.write(BAD + "\\n")
print(BAD)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        info = {"name": BAD, "version": BAD}
        send(id=asked["id"], result={"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info,
                                     "instructions": BAD})
    elif asked["method"] == "tools/list":
        send(id=asked["id"], result={"tools": TOOLS})
    elif "id" in asked:
        send(id=asked["id"], error={"code": -32000, "message": BAD})
"""


@pytest.fixture
def poisoned(toolcrib):
    """A project whose only server hides something in everything it says."""
    script = toolcrib.home / "poisoned.py"
    script.write_text(POISONED)
    args = json.dumps([str(script), json.dumps([UNSEEN, EMOJI])])
    toolcrib.write(f"[servers.bad]\ncommand = {json.dumps(sys.executable)}\nargs = {args}")
    return toolcrib


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("ls", "--json"),
        ("show", "bad__fine"),
        ("show", "bad__choices", "--json"),
        ("why", "bad__properties"),
        ("doctor",),
        ("doctor", "--json"),
        ("call", "bad__fine"),
        ("servers", "logs", "bad"),
    ],
    ids=" ".join,
)
def test_no_command_prints_what_cannot_be_seen(poisoned, command):
    """Not in names, titles, texts, choices, defaults, annotations, errors or what it wrote to stderr."""
    result = poisoned.run(*command)

    assert unseen_characters(result.stdout + result.stderr) == []


def test_a_listing_reaches_a_client_clean_and_with_its_emoji(poisoned):
    """The two harmless tools are there, the two with hidden names are not, and key caps and flags are whole."""
    poisoned.run("doctor")
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}

    result = poisoned.run("stdio", "--alone", stdin=json.dumps(asked) + "\n")

    tools = json.loads(result.stdout)["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["bad__choices", "bad__fine", "result_read"]
    assert unseen_characters(json.dumps(tools, ensure_ascii=False)) == []
    assert tools[1]["description"] == f"{EMOJI} seen"


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.parametrize("char", [*UNSEEN[:8], "\x1b", "\x9b", "\u202e", "\u200b", "\U000e0041"], ids=ascii)
def test_a_log_line_for_programs_is_one_line_without_them(char):
    """The value comes back from the JSON; the line itself holds nothing a terminal would obey."""
    line = as_json(Event("x", fields={"error": f"a{char}b"}), "trace")

    assert unseen_characters(line) == []
    assert json.loads(line)["error"] == f"a{char}b"
