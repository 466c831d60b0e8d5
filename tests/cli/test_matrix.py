"""One rule for everybody: levels of callers × levels of tools × doors, the same answers through each."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.cli.program import Program

import toolcrib as library
from toolcrib.core.access import EVERYTHING, NOTHING, Caller, Grants
from toolcrib.stores.paths import Environment

TURNCOAT = Path(__file__).resolve().parents[1] / "hostile" / "turncoat.py"
TOOLS = {"read_only": "get_thing", "write": "set_thing", "admin": "drop_thing", "system": "run_command"}
LEVELS = list(TOOLS)
ABSENT = "box__no_such_thing"
OPEN, SHUT = "success", "TOOL_PERMISSION_DENIED"

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

Answers = tuple[list[str], dict[str, tuple[str, str]]]
"""What is listed, and for each call how it ended and what was said."""


@pytest.fixture
def box(toolcrib: Program) -> Program:
    """toolcrib over a server with one tool of each level."""
    face = toolcrib.home / "face.json"
    face.write_text(json.dumps([{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS.values()]))
    argv = json.dumps(["-I", "-S", str(TURNCOAT), str(face)])
    toolcrib.write(f"[results]\nlimit = 0\n[servers.box]\ncommand = {json.dumps(sys.executable)}\nargs = {argv}")
    return toolcrib


def wanted() -> list[str]:
    return [*(f"box__{name}" for name in TOOLS.values()), ABSENT]


def outcome(answer: dict) -> tuple[str, str]:
    """How a ``tools/call`` ended, and the words."""
    if "error" in answer:
        return answer["error"].get("data", {}).get("code", "?"), answer["error"]["message"]
    result = answer["result"]
    text = result["content"][0]["text"] if result["content"] else ""
    return (result["_meta"]["toolcrib/error"]["code"], text) if result.get("isError") else (OPEN, text)


def request(number: int, method: str, params: dict) -> dict:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def through_http(serving, token: str | None, *, modern: bool) -> Answers:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if not modern:
        answer = serving.request("POST", "/mcp", request(1, "initialize", HELLO), **headers)
        headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        answer.read()

    def send(method: str, params: dict) -> dict:
        sent = dict(headers)
        if modern:
            params = params | {"_meta": META}
            sent |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
            sent |= {"mcp-name": params["name"]} if "name" in params else {}
        return json.loads(serving.request("POST", "/mcp", request(2, method, params), **sent).read())

    listed = [tool["name"] for tool in send("tools/list", {})["result"]["tools"]]
    return listed, {name: outcome(send("tools/call", {"name": name, "arguments": {}})) for name in wanted()}


def through_stdio(program: Program, *flags: str) -> Answers:
    lines = [request(1, "initialize", HELLO), request(2, "tools/list", {})]
    lines += [request(n, "tools/call", {"name": name, "arguments": {}}) for n, name in enumerate(wanted(), 3)]
    result = program.run("stdio", "--alone", *flags, stdin="".join(json.dumps(line) + "\n" for line in lines))
    answers = {answer.get("id"): answer for answer in map(json.loads, result.stdout.splitlines())}
    listed = [tool["name"] for tool in answers[2]["result"]["tools"]]
    return listed, {name: outcome(answers[n]) for n, name in enumerate(wanted(), 3)}


def through_library(program: Program, grants: Grants) -> Answers:
    async def ask() -> Answers:
        around = Environment(program.project, program.variables())
        async with library.open_crib(program.config, surroundings=around) as crib:
            caller = Caller("somebody", "token", grants)
            listed = [tool.name for tool in await crib.tools(caller=caller)]
            results = {name: await crib.call(name, caller=caller) for name in wanted()}
        return listed, {
            name: (result.error.code if result.error else OPEN, result.text) for name, result in results.items()
        }

    return asyncio.run(ask())


def expected(level: str | None) -> tuple[list[str], dict[str, str]]:
    reach = LEVELS.index(level) + 1 if level else 0
    open_names = [f"box__{TOOLS[name]}" for name in LEVELS[:reach]]
    absent = "TOOL_NOT_FOUND" if level == "system" else SHUT
    calls = {f"box__{name}": OPEN if f"box__{name}" in open_names else SHUT for name in TOOLS.values()}
    return sorted(open_names), calls | {ABSENT: absent}


def check(level: str | None, answers: Answers) -> None:
    listed, calls = answers
    names, outcomes = expected(level)
    assert listed == names
    assert {name: code for name, (code, _) in calls.items()} == outcomes
    refusals = {text for code, text in calls.values() if code == SHUT}
    assert len(refusals) <= 1, "a tool that is hidden and one that does not exist are refused in the same words"
    assert not any(name in text for text in refusals for name in TOOLS.values())


def test_every_door_gives_the_same_answers(box):
    """Deny by default; what is listed is what can be called; a refusal tells nothing about what there is."""
    tokens = {level: box.json("tokens", "create", level, "--level", level)["token"] for level in LEVELS}
    nothing = box.json("tokens", "create", "nothing", "--level", "system", "--server", "other")["token"]
    with box.serving("serve") as serving:
        for level, token in tokens.items():
            for modern in (False, True):
                check(level, through_http(serving, token, modern=modern))
        for modern in (False, True):
            check(None, through_http(serving, nothing, modern=modern))
    for level in LEVELS:
        check(level, through_stdio(box, "--level", level))
        check(level, through_library(box, EVERYTHING if level == "system" else Grants(library.SecurityLevel(level))))
    check(None, through_library(box, NOTHING))


def test_what_is_denied_or_held_is_neither_listed_nor_run_through_any_door(box):
    """By the configuration, or because it changed since it was accepted."""
    box.run("ls")
    (box.home / "face.json").write_text(
        json.dumps(
            [
                {"name": name, "inputSchema": {"type": "object"}, "description": "new!" if name == "get_thing" else ""}
                for name in TOOLS.values()
            ]
        )
    )
    box.write(*box.config.read_text().split("\n\n")[1:], '[security.policies]\n"*__set_*" = "deny"')
    box.run("servers", "refresh")
    shown = ["box__drop_thing", "box__run_command"]
    with box.serving("serve") as serving:
        found = [through_http(serving, None, modern=modern) for modern in (False, True)]
    found += [through_stdio(box), through_library(box, EVERYTHING)]
    called = [box.run("call", f"box__{name}").returncode for name in TOOLS.values()]

    for listed, calls in found:
        assert listed == shown
        assert [calls[f"box__{name}"][0] for name in TOOLS.values()] == [SHUT, SHUT, OPEN, OPEN]
        assert "toolcrib diff box__get_thing" in calls["box__get_thing"][1]
    assert called == [6, 6, 0, 0]


def test_metrics_name_no_tool_to_who_may_not_know_of_it(box):
    """They are for the owner, and for tokens that were made for that."""
    limited = box.json("tokens", "create", "limited", "--level", "read_only")["token"]
    watcher = box.json("tokens", "create", "watcher", "--capability", "metrics")["token"]
    with box.serving("serve") as serving:
        owner = (box.home / "state" / "toolcrib" / "token").read_text().strip()
        found = [
            serving.request("GET", "/metrics", authorization=f"Bearer {token}").status
            for token in (limited, watcher, owner)
        ]

    assert found == [403, 200, 200]


def test_a_damaged_lock_stops_everything_instead_of_accepting_everything(box):
    """One merge marker must not open the quarantine."""
    box.run("ls")
    lock = box.project / "toolcrib.lock"
    lock.write_text("<<<<<<< ours\n" + lock.read_text())

    called = box.run("call", "box__get_thing")

    assert called.returncode == 1
    assert "Mend it, or move it away" in called.stderr
    assert lock.read_text().startswith("<<<<<<<")


def test_a_policy_that_has_no_effect_is_no_success(box):
    """What is stronger is named."""
    text = box.config.read_text() + '[servers.box.tools.get_thing]\npolicy = "deny"\n'
    user = box.home / ".config" / "toolcrib"
    user.mkdir(parents=True)
    (user / "toolcrib.toml").write_text(text.replace("[connect]\nattempts = 1\n", ""))
    box.config.write_text('[security]\npolicy = "allow"\n')

    tool = box.run("policy", "box__get_thing", "allow")
    server = box.run("policy", "box", "deny")

    assert (tool.returncode, server.returncode) == (1, 0)
    assert "box__get_thing still is deny" in tool.stderr
    assert '"box__*" = "deny"' in box.config.read_text()
