"""``toolcrib stdio`` as a pipe to the toolcrib of its project: one process per server, whoever comes."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.program import Program
from tests.fleet.running import until

from toolcrib.stores.run_files import RunFile, RunFiles, process_began

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


class Client:
    """A client of the handshake era on the pipes of a program."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.notices: list[dict[str, Any]] = []
        self._ids = iter(range(1, 1000))

    def send(self, method: str, **params: Any) -> int:
        number = next(self._ids)
        self.write({"id": number, "method": method, "params": params})
        return number

    def write(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def answer_to(self, number: int) -> dict[str, Any]:
        while True:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read().decode()
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message
            self.notices.append(message)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self.answer_to(self.send(method, **params))

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=name, arguments=arguments)["result"]

    def greet(self) -> "Client":
        info = {"name": "test", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        self.write({"method": "notifications/initialized"})
        return self

    def leave(self) -> int:
        self.process.stdin.close()
        return self.process.wait(150)


def running(program: Program) -> list[RunFile]:
    return RunFiles(program.variables()).read()


def is_gone(run: RunFile) -> bool:
    return process_began(run.pid) != run.began


@contextlib.contextmanager
def clients(program: Program, *words: str) -> Iterator[Any]:
    """Starts clients; when all have left, so has the toolcrib they shared."""
    started: list[Client] = []

    def start(*more: str, **env: str) -> Client:
        before, program.env = program.env, {**program.env, **env}
        started.append(Client(program.start("stdio", *words, *more, **PIPES)))
        program.env = before
        return started[-1]

    try:
        yield start
    finally:
        for client in started:
            client.process.kill()
            client.process.wait()
            for stream in (client.process.stdin, client.process.stdout, client.process.stderr):
                stream.close()
        for run in running(program):
            with contextlib.suppress(ProcessLookupError):
                os.kill(run.pid, signal.SIGTERM)
        until(lambda: not running(program), deadline_s=150, what="the end of what was shared")


@pytest.fixture
def shared(toolcrib: Program) -> Program:
    """A project whose toolcrib ends with its last client."""
    toolcrib.write('[serve]\nlinger = "0s"', toolcrib.tiny())
    return toolcrib


def test_clients_share_one_process_of_each_server_which_ends_after_the_last_of_them(shared: Program):
    """The second client starts nothing; when both have left, nothing is left."""
    with clients(shared) as start:
        first, second = start().greet(), start().greet()
        said = [client.call("tiny__echo", text=word) for client, word in ((first, "one"), (second, "two"))]
        (run,) = running(shared)
        left = [first.leave(), second.leave()]
        until(lambda: is_gone(run), deadline_s=150, what="the end of the shared one")

    assert [json.loads(result["content"][0]["text"])["text"] for result in said] == ["one", "two"]
    assert (shared.starts, left, run.is_background) == (1, [0, 0], True)
    assert not Path(run.socket).exists()
    assert Path(run.log).stat().st_mode & 0o077 == 0


def test_clients_that_come_at_once_start_one_toolcrib(shared: Program):
    with clients(shared) as start:
        every = [start() for _ in range(4)]
        for client in every:
            client.greet()
        runs = running(shared)

        assert len(runs) == 1
        assert {client.call("tiny__echo", text="x")["isError"] for client in every} == {False}
        assert shared.starts == 1


def test_a_client_joins_what_somebody_serves_already(shared: Program):
    with shared.serving("serve") as serving, clients(shared) as start:
        start().greet().call("tiny__echo", text="x")
        (run,) = running(shared)

        assert (run.pid, run.is_background, shared.starts) == (serving.process.pid, False, 1)


def test_alone_means_alone(shared: Program):
    with clients(shared, "--alone") as start:
        for client in (start().greet(), start().greet()):
            client.call("tiny__echo", text="x")

        assert (running(shared), shared.starts) == ([], 2)


def test_clients_go_on_when_the_running_one_is_killed_and_nothing_runs_twice(shared: Program):
    """What may do harm twice is answered with "outcome unknown"; what was only read is asked again; news of changes."""
    with clients(shared) as start:
        first, second = start().greet(), start().greet()
        first.call("tiny__echo", text="before")
        hanging = first.send("tools/call", name="tiny__hang", arguments={})
        until(lambda: shared.has_noted("called hang"), deadline_s=150, what="the call")
        (run,) = running(shared)

        os.kill(run.pid, signal.SIGKILL)
        unknown = first.answer_to(hanging)["result"]
        again = [client.call("tiny__echo", text="after") for client in (first, second)]
        (other,) = running(shared)

    assert unknown["_meta"]["toolcrib/error"]["details"] == {"outcome": "unknown"}
    assert unknown["isError"]
    assert [result["isError"] for result in again] == [False, False]
    assert other.pid != run.pid
    assert shared.diary.read_text().count("called hang") == 1
    told = {notice["method"] for client in (first, second) for notice in client.notices}
    assert "notifications/tools/list_changed" in told


def over_http(program: Program, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """What the one that runs answers the owner; its address is in its run file."""
    (run,) = running(program)
    token = (program.home / "state/toolcrib/token").read_text().strip()
    connection = http.client.HTTPConnection(run.url.removeprefix("http://"), timeout=150)
    sent = {"content-type": "application/json", "accept": "application/json", "authorization": f"Bearer {token}"}
    connection.request(method, path, None if body is None else json.dumps(body), {**sent, **headers})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def call_over_http(program: Program, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a call by a client that needs no session."""
    client = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "web", "version": "1"}, "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in client.items()}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return over_http(program, "POST", "/mcp", asked, **headers)["result"]


def test_clients_over_stdio_and_http_share_processes_and_one_live_view(shared: Program):
    """One process per server, all calls in one list; killed, another one takes over, and the same holds there."""
    with clients(shared) as start:
        first, second = start().greet(), start().greet()
        said = [
            first.call("tiny__echo", text="one"),
            second.call("tiny__echo", text="two"),
            call_over_http(shared, "tiny__echo", text="three"),
        ]
        hanging = second.send("tools/call", name="tiny__hang", arguments={})
        until(lambda: shared.has_noted("called hang"), deadline_s=150, what="the call")
        live = over_http(shared, "GET", "/api/v1/calls")["calls"]
        (run,) = running(shared)
        starts = shared.starts

        os.kill(run.pid, signal.SIGKILL)
        lost = second.answer_to(hanging)["result"]
        again = [first.call("tiny__echo", text="four"), call_over_http(shared, "tiny__echo", text="five")]
        later = over_http(shared, "GET", "/api/v1/calls")["calls"]

    assert [result["isError"] for result in (*said, *again)] == [False] * 5
    assert [(call["tool"], call["outcome"]) for call in live] == [("tiny__hang", ""), *[("tiny__echo", "success")] * 3]
    assert [call["tool"] for call in later] == ["tiny__echo"] * 2
    assert lost["_meta"]["toolcrib/error"]["details"] == {"outcome": "unknown"}
    assert (starts, shared.starts, shared.diary.read_text().count("called hang")) == (1, 2, 1)


def test_what_one_client_may_and_is_shown_holds_for_it_alone(shared: Program):
    """The stricter of its own options and those of the running one."""
    with shared.serving("serve", "--level", "write"), clients(shared) as start:
        narrow, searching, usual = (
            start("--only", "tiny__echo"),
            start("--expose", "search"),
            start("--level", "system"),
        )
        names = [
            [tool["name"] for tool in client.greet().ask("tools/list")["result"]["tools"]]
            for client in (narrow, searching, usual)
        ]

        assert shared.starts == 1
    assert [name for name in names[0] if name.startswith("tiny")] == ["tiny__echo"]
    assert not any(name.startswith("tiny") for name in names[1])
    assert {"tiny__echo", "tiny__fail"} <= set(names[2])


@pytest.mark.parametrize("words", [["--no-prefix"], ["--workspace", "."]])
def test_what_changes_what_is_served_needs_a_process_of_its_own(shared: Program, words: list[str]):
    with clients(shared) as start:
        client = start(*words).greet()

        assert running(shared) == []
        client.leave()
        assert f"{words[0]} changes what is served" in client.process.stderr.read().decode()


def test_another_value_of_a_variable_that_counts_needs_a_process_of_its_own(toolcrib: Program):
    """Whoever lacks the variable, or has the same, joins."""
    toolcrib.write('[serve]\nlinger = "0s"', toolcrib.tiny(more='env = { WORD = "${SECRET_WORD}" }'))
    with clients(toolcrib) as start:
        start(SECRET_WORD="one").greet().call("tiny__echo", text="x")
        for env in ({"SECRET_WORD": "one"}, {}):
            start(**env).greet()
        assert toolcrib.starts == 1
        other = start(SECRET_WORD="two").greet()
        other.call("tiny__echo", text="x")

        assert (len(running(toolcrib)), toolcrib.starts) == (1, 2)
        other.leave()
        complaint = other.process.stderr.read().decode()
    assert "SECRET_WORD has another value there" in complaint
    assert "two" not in complaint.replace("has another", "")


def test_a_kept_secret_is_the_value_of_who_lacks_the_variable_and_differs_from_another_ones(toolcrib: Program):
    """An empty variable means what is kept; a variable with the same value joins."""
    toolcrib.write('[serve]\nlinger = "0s"', toolcrib.tiny(more='env = { WORD = "${SECRET_WORD}" }'))
    toolcrib.run("secrets", "set", "SECRET_WORD", stdin="kept-word")
    with clients(toolcrib) as start:
        start().greet().call("tiny__echo", text="x")
        for env in ({"SECRET_WORD": ""}, {"SECRET_WORD": "kept-word"}):
            start(**env).greet()
        assert toolcrib.starts == 1
        assert toolcrib.has_noted("WORD is kept-word")
        other = start(SECRET_WORD="another-word").greet()
        other.call("tiny__echo", text="x")

        assert (len(running(toolcrib)), toolcrib.starts) == (1, 2)
        assert toolcrib.has_noted("WORD is another-word")


def test_a_state_directory_that_cannot_be_written_is_no_obstacle(shared: Program):
    state = shared.home / "state"
    state.write_text("not a directory")

    with clients(shared) as start:
        client = start().greet()
        assert client.call("tiny__echo", text="x")["isError"] is False
        client.leave()
        assert "a process of its own, because" in client.process.stderr.read().decode()
        state.unlink()


def test_a_broken_configuration_is_told_on_stderr_with_nothing_left_behind(toolcrib: Program):
    toolcrib.config.write_text("oops =\n")

    result = toolcrib.run("stdio", stdin="")

    assert (result.returncode, result.stdout) == (1, "")
    assert f"{toolcrib.config}:1" in result.stderr
    assert running(toolcrib) == []


def test_a_signal_ends_the_pipe_and_the_calls_of_its_client(shared: Program):
    with clients(shared) as start:
        first, second = start().greet(), start().greet()
        first.send("tools/call", name="tiny__hang", arguments={})
        until(lambda: shared.has_noted("called hang"), deadline_s=150, what="the call")

        first.process.send_signal(signal.SIGTERM)

        assert first.process.wait(150) == 0
        assert second.call("tiny__echo", text="x")["isError"] is False
        (run,) = running(shared)
        second.leave()
        until(lambda: is_gone(run), deadline_s=150, what="the end of the call, and of who waited for it")
