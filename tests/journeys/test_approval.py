"""Approval through the real doors: a client in another process is asked, answers, and the tool runs or does not."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.fleet import launcher
from tests.fleet.gateway import TOOLCRIB, serving
from tests.fleet.running import homely

TURNCOAT = Path(__file__).resolve().parents[1] / "hostile" / "turncoat.py"
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "t", "version": "1"},
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
RESPONSES = {
    "once": ({"action": "accept", "content": {"answer": "once"}}, True),
    "session": ({"action": "accept", "content": {"answer": "session"}}, True),
    "always": ({"action": "accept", "content": {"answer": "always"}}, True),
    "no": ({"action": "accept", "content": {"answer": "no"}}, False),
    "decline": ({"action": "decline"}, False),
    "cancel": ({"action": "cancel"}, False),
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """One server whose one tool needs a person's word."""
    (tmp_path / "face.json").write_text(json.dumps([{"name": "work", "inputSchema": {"type": "object"}}]))
    argv = ["-I", "-S", str(TURNCOAT), str(tmp_path / "face.json")]
    path = tmp_path / "toolcrib.toml"
    path.write_text(f'[security]\npolicy = "ask"\n[servers.srv]\ncommand = {sys.executable!r}\nargs = {argv!r}\n')
    return path


class Pipe:
    """A client on the pipes of ``toolcrib stdio``."""

    def __init__(self, config: Path) -> None:
        self.process = launcher.popen(
            [*TOOLCRIB, "stdio", "--alone", "--config", str(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=homely(config.parent),
            cwd=config.parent,
        )

    def send(self, **message: object) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def read(self, request_id: object = None) -> dict:
        """The answer to a request of ours, or the next request to us."""
        for line in self.process.stdout:
            message = json.loads(line)
            if "id" in message and ("method" in message if request_id is None else message["id"] == request_id):
                return message
        raise AssertionError("toolcrib ended")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(150)
        self.process.stdout.close()


@pytest.fixture
def pipe(config: Path) -> Iterator[Pipe]:
    made = Pipe(config)
    yield made
    made.close()


def outcome(result: dict) -> str:
    return result["content"][0]["text"]


@pytest.mark.parametrize("choice", RESPONSES)
def test_over_stdio_a_handshake_client_is_asked_in_the_middle_of_the_call(pipe, config, choice):
    """With the tool and its arguments; what was allowed always stands in the lock."""
    response, runs = RESPONSES[choice]
    pipe.send(id=1, method="initialize", params=HELLO)
    pipe.read(1)
    pipe.send(method="notifications/initialized")
    pipe.send(id=2, method="tools/call", params={"name": "srv__work", "arguments": {"n": 7}})
    question = pipe.read()
    pipe.send(id=question["id"], result=response)
    result = pipe.read(2)["result"]
    pipe.close()

    assert question["method"] == "elicitation/create"
    assert 'srv__work (level: write) with "n": 7' in question["params"]["message"]
    assert (outcome(result) == "work") is runs
    assert result.get("isError", False) is not runs
    assert ('"approvals"' in (config.parent / "toolcrib.lock").read_text()) is (choice == "always")


@pytest.mark.parametrize("choice", ["once", "no"])
def test_a_call_through_another_tool_asks_the_same_question(config, choice):
    """In both eras: the question names the real tool, and the answer counts for it."""
    config.write_text(config.read_text() + '[expose]\nmode = "search"\n')
    response, runs = RESPONSES[choice]
    params = {"name": "tools_call", "arguments": {"name": "srv__work", "arguments": {"n": 7}}}
    pipe = Pipe(config)
    pipe.send(id=1, method="initialize", params=HELLO)
    pipe.read(1)
    pipe.send(id=2, method="tools/call", params=params)
    question = pipe.read()
    pipe.send(id=question["id"], result=response)
    result = pipe.read(2)["result"]
    pipe.send(id=3, method="tools/call", params={**params, "_meta": META})
    asked = pipe.read(3)["result"]
    back = {"requestState": asked["requestState"], "inputResponses": dict.fromkeys(asked["inputRequests"], response)}
    pipe.send(id=4, method="tools/call", params={**params, "_meta": META, **back})
    again = pipe.read(4)["result"]
    pipe.close()

    assert 'srv__work (level: write) with "n": 7' in question["params"]["message"]
    assert asked["resultType"] == "input_required"
    assert [outcome(each) == "work" for each in (result, again)] == [runs, runs]


@pytest.mark.parametrize("choice", RESPONSES)
def test_over_stdio_a_stateless_client_gets_a_result_that_asks_back(pipe, choice):
    """And calls again with the answer; the same answer again is refused."""
    response, runs = RESPONSES[choice]
    params = {"name": "srv__work", "arguments": {"n": 7}, "_meta": META}
    pipe.send(id=1, method="tools/call", params=params)
    asked = pipe.read(1)["result"]
    back = {"requestState": asked["requestState"], "inputResponses": dict.fromkeys(asked["inputRequests"], response)}
    pipe.send(id=2, method="tools/call", params={**params, **back})
    result = pipe.read(2)["result"]
    pipe.send(id=3, method="tools/call", params={**params, **back})
    replayed = pipe.read(3)["result"]

    assert asked["resultType"] == "input_required"
    assert (outcome(result) == "work") is runs
    assert "not valid" in outcome(replayed)


class Web:
    """A client of the HTTP door."""

    def __init__(self, url: str) -> None:
        self.place = urlsplit(url)
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(self, message: dict, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=150)
        body = json.dumps({"jsonrpc": "2.0", **message})
        connection.request("POST", self.place.path, body, {**self.headers, **headers})
        return connection.getresponse()


def events_of(response: http.client.HTTPResponse) -> Iterator[dict]:
    """The messages of an event stream, or the one of a plain answer."""
    if "json" in response.getheader("Content-Type", ""):
        yield json.loads(response.read())
        return
    for line in response:
        if line.startswith(b"data:") and line[5:].strip():
            yield json.loads(line[5:])


def call_over_http(web: Web, response: dict) -> tuple[dict, dict]:
    """The question a handshake client is asked, and the result of its call."""
    greeting = web.post({"id": 1, "method": "initialize", "params": HELLO})
    session = {"Mcp-Session-Id": greeting.getheader("Mcp-Session-Id"), "MCP-Protocol-Version": "2025-06-18"}
    list(events_of(greeting))
    web.post({"method": "notifications/initialized"}, **session).read()
    calling = web.post(
        {"id": 2, "method": "tools/call", "params": {"name": "srv__work", "arguments": {"n": 7}}}, **session
    )
    messages = (message for message in events_of(calling) if "id" in message)
    question = next(messages)
    web.post({"id": question["id"], "result": response}, **session).read()
    return question, next(messages)["result"]


def test_over_http_both_eras_are_asked_and_each_answer_counts(config):
    """One gateway, every answer; those that last come last."""
    with serving(config) as (url, _):
        web = Web(url)
        for response, runs in [RESPONSES[name] for name in ("no", "decline", "cancel", "once")]:
            question, result = call_over_http(web, response)
            assert "srv__work" in question["params"]["message"]
            assert (outcome(result) == "work") is runs

        params = {"name": "srv__work", "arguments": {"n": 7}, "_meta": META}
        modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "srv__work"}

        def call(request_id: int, **more: object) -> dict:
            request = {"id": request_id, "method": "tools/call", "params": {**params, **more}}
            return next(message for message in events_of(web.post(request, **modern)) if "id" in message)["result"]

        def back(asked: dict, response: dict) -> dict:
            return {"requestState": asked["requestState"], "inputResponses": {"toolcrib_approval": response}}

        asked = call(3)
        assert "not valid" in outcome(call(4, **back(asked, RESPONSES["always"][0]), arguments={"n": 8}))
        assert outcome(call(5, **back(asked, RESPONSES["once"][0]))) == "work"
        assert "not valid" in outcome(call(6, **back(asked, RESPONSES["once"][0])))
        assert "declined" in outcome(call(7, **back(call(8), RESPONSES["decline"][0])))
        assert outcome(call(9, **back(call(10), RESPONSES["always"][0]))) == "work"
        assert outcome(call(11, arguments={"n": 9})) == "work"
