"""Several `toolcrib serve` with one configuration and one PostgreSQL, behind a plain balancer: one gateway."""

import contextlib
import http.client
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.fleet import launcher
from tests.fleet.balancer import Balancer, balancing
from tests.fleet.clients import Place, SdkClient
from tests.fleet.engines import Postgres, a_postgres
from tests.fleet.gateway import TOOLCRIB, serving
from tests.fleet.running import Running, homely, until

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

TINY = Path(__file__).parent.parent / "cli" / "tiny_server.py"
TOKEN = "a-token-that-is-long-enough"
CONFIG = """
native = ["naps"]

[store]
url = "{store}"

[serve]
drain = "2s"

[kb]
enabled = false

[servers.tiny]
command = "{python}"
args = ["{tiny}", "{diary}"]

[servers.tiny.tools.paint]
policy = "ask"
"""
NAPS = """
import asyncio
import toolcrib

@toolcrib.tool(security_level="read_only")
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"

@toolcrib.tool(security_level="read_only")
async def recite() -> str:
    return "\\n".join(f"line {number}" for number in range(40_000))
"""


@dataclass
class Fleet:
    """The replicas, and the balancer before them."""

    home: Path
    urls: list[str]
    programs: list[Running]
    balancer: Balancer

    @property
    def ports(self) -> list[int]:
        return [int(url.rpartition(":")[2].partition("/")[0]) for url in self.urls]

    def place(self) -> Place:
        return Place(self.home, url=self.balancer.url)


@contextlib.contextmanager
def fleet_of(number: int, store: str, home: Path, *options: str) -> Iterator[Fleet]:
    config = home / "toolcrib.toml"
    config.write_text(CONFIG.format(store=store, python=sys.executable, tiny=TINY, diary=home / "diary"))
    (home / "naps.py").write_text(NAPS)
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(serving(config, "--replica", f"r{one}", *options)) for one in range(number)]
        urls, programs = [url for url, _ in started], [program for _, program in started]
        stack.callback(interrupt, programs)
        yield Fleet(home, urls, programs, stack.enter_context(balancing(urls)))


def interrupt(programs: list[Running]) -> None:
    """End them without draining."""
    for program in programs:
        if program.process.poll() is None:
            program.process.send_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def three(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_of(3, postgres.fresh_database(), tmp_path_factory.mktemp("three")) as made:
        yield made


def send(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=150)
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    named = {name.replace("_", "-"): value for name, value in headers.items() if value}
    connection.request(method, path, None if body is None else json.dumps(body), usual | named)
    answer = connection.getresponse()
    try:
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


class Session:
    """A handshake-era client, written out: each request over a connection of its own."""

    def __init__(self, port: int) -> None:
        self.port, self.id = port, ""
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        status, headers, _ = self.post({"id": 0, "method": "initialize", "params": hello})
        assert status == 200
        self.id = headers["mcp-session-id"]

    def post(self, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return send(self.port, "POST", "/mcp", {"jsonrpc": "2.0", **message}, mcp_session_id=self.id)

    def call(self, tool: str, **arguments: object) -> str:
        params = {"name": tool, "arguments": arguments}
        status, _, body = self.post({"id": 1, "method": "tools/call", "params": params})
        assert status == 200, body
        return said(body)


def said(body: bytes) -> str:
    """The text of a result, plain or at the end of a stream."""
    text = body.decode()
    lines = [line.partition(":")[2] for line in text.splitlines() if line.startswith("data:")]
    return str(json.loads(lines[-1] if lines else text)["result"]["content"][0]["text"])


def call_stateless(port: int, tool: str, token: str = "", **arguments: object) -> str:
    version = "2026-07-28"
    meta = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    status, _, body = send(
        port,
        "POST",
        "/mcp",
        message,
        mcp_protocol_version=version,
        mcp_method="tools/call",
        mcp_name=tool,
        authorization=f"Bearer {token}" if token else "",
    )
    assert status == 200, body
    return said(body)


CALLS = [{"op": "list"}, *({"op": "call", "tool": "tiny__echo", "arguments": {"text": str(n)}} for n in range(6))]


@pytest.mark.parametrize("mode", ["legacy", "modern"])
def test_a_client_of_either_era_works_behind_a_plain_balancer(fleet, three, mode):
    """Its requests go to all replicas in turn, and it does not notice."""
    before = dict(three.balancer.served)

    outcomes = SdkClient(2, mode).converse(three.place(), CALLS)["outcomes"]

    texts = [json.loads(outcome["result"]["content"][0]["text"])["text"] for outcome in outcomes[1:]]
    assert texts == ["0", "1", "2", "3", "4", "5"]
    assert all(three.balancer.served[port] > before.get(port, 0) for port in three.ports)


def test_each_replica_says_who_it_is_and_how_what_it_shares_is_doing(three):
    """For balancers and for people."""
    told = [json.loads(send(port, "GET", "/readyz")[2]) for port in three.ports]

    assert [one["replica"] for one in told] == ["r0", "r1", "r2"]
    assert all(one["parts"]["store"] == one["parts"]["coordination"] == "ok" for one in told)


def test_a_session_that_ended_at_one_replica_is_unknown_at_all(three):
    session = Session(three.ports[0])
    ended = send(three.ports[1], "DELETE", "/mcp", mcp_session_id=session.id)[0]
    session.port = three.ports[2]
    late = session.post({"id": 1, "method": "ping"})[0]
    session.port = three.ports[0]
    until(lambda: session.post({"id": 1, "method": "ping"})[0] == 404, deadline_s=150, what="ended at home")

    assert (ended, late) == (204, 404)


def test_a_large_result_is_read_on_at_another_replica(three):
    """Its preview names a handle, and the balancer does not know where that is from."""
    preview = call_stateless(three.ports[0], "recite")
    handle = re.search(r"r_[a-z2-7]{26}", preview)
    assert handle is not None, preview

    parts = [call_stateless(port, "result_read", handle=handle[0], line=15_000, count=1) for port in three.ports]

    assert all(part.startswith("Lines 15000 to 15000 of 40000.") for part in parts), parts


def test_clients_go_on_when_a_replica_drains_and_when_one_is_killed(fleet, postgres, tmp_path):
    """Draining loses no call, also none that takes a while; a kill loses what was under way there, no session."""
    with fleet_of(3, postgres.fresh_database(), tmp_path) as three:
        sessions = [Session(port) for port in three.ports]
        for session in sessions:
            session.port = three.balancer.port
        lost, made, over = [], [0], threading.Event()

        def keep_calling() -> None:
            while not over.is_set():
                try:
                    assert call_stateless(three.balancer.port, "nap", seconds=0.2) == "rested"
                    made[0] += 1
                except Exception as error:  # every way to lose a call counts
                    lost.append(repr(error))

        callers = [threading.Thread(target=keep_calling) for _ in range(3)]
        for caller in callers:
            caller.start()
        until(lambda: made[0] > 6, deadline_s=150, what="calls through the balancer")
        three.programs[0].process.send_signal(signal.SIGTERM)
        code = three.programs[0].process.wait(150)
        over.set()
        for caller in callers:
            caller.join(150)
        texts = [session.call("tiny__echo", text="after the drain") for session in sessions]

        assert (code, lost) == (0, [])
        assert [json.loads(text)["text"] for text in texts] == ["after the drain"] * 3

        os.kill(three.programs[1].process.pid, signal.SIGKILL)
        three.programs[1].process.wait(150)
        texts = [session.call("tiny__echo", text="after the kill") for session in sessions for _ in range(2)]

        assert [json.loads(text)["text"] for text in texts] == ["after the kill"] * 6


def token_for_an_agent(fleet: Fleet) -> str:
    argv = [*TOOLCRIB, "tokens", "create", "worker", "--agent", "--level", "system"]
    config = ["--config", str(fleet.home / "toolcrib.toml")]
    made = launcher.run([*argv, *config], stdin="", timeout_s=150, env=homely(fleet.home), cwd=fleet.home)
    return str(made.stdout.split()[0])


def test_a_person_at_one_replica_answers_for_a_call_at_another(postgres, tmp_path):
    """The question is seen at both, and gone from both."""
    with fleet_of(2, postgres.fresh_database(), tmp_path, "--token", TOKEN) as two:
        waits, looks = two.ports
        agent, owner = token_for_an_agent(two), {"authorization": f"Bearer {TOKEN}"}

        def questions(port: int) -> list[dict[str, Any]]:
            return list(json.loads(send(port, "GET", "/api/v1/approvals", **owner)[2])["questions"])

        assert questions(looks) == []
        results: list[str] = []
        caller = threading.Thread(target=lambda: results.append(call_stateless(waits, "tiny__paint", agent)))
        caller.start()
        until(lambda: bool(questions(looks)), deadline_s=150, what="the question at the other replica")
        (question,) = questions(looks)
        status = send(looks, "POST", f"/api/v1/approvals/{question['id']}", {"answer": "once"}, **owner)[0]
        caller.join(150)

        assert (question["tool"], status) == ("tiny__paint", 200)
        assert "red" in results[0]
        assert (questions(waits), questions(looks)) == ([], [])


def test_while_the_database_is_away_no_session_is_said_to_have_ended(tmp_path):
    """Whoever needs it is told to come back; calls that do not, go on; when it is back, nobody must be started anew."""
    with a_postgres() as engine, fleet_of(2, engine.fresh_database(), tmp_path) as two:
        session = Session(two.ports[0])
        call_stateless(two.ports[1], "nap", seconds=0)
        engine.stop()
        at_home = session.post({"id": 1, "method": "ping"})[0]
        session.port = two.ports[1]
        elsewhere, headers, _ = session.post({"id": 1, "method": "ping"})
        stateless = call_stateless(two.ports[1], "nap", seconds=0)

        def part() -> tuple[int, str]:
            status, _, body = send(two.ports[1], "GET", "/readyz")
            return status, str(json.loads(body)["parts"]["store"])

        until(lambda: part()[1] != "ok", deadline_s=150, what="the store told to be away")
        told = part()
        engine.start()
        until(
            lambda: session.post({"id": 1, "method": "ping"})[0] == 200, deadline_s=150, what="the session at another"
        )
        until(lambda: part()[1] == "ok", deadline_s=150, what="the store told to be back")

        assert (at_home, elsewhere, headers["retry-after"], stateless) == (200, 503, "1", "rested")
        assert told[0] == 200
