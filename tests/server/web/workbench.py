"""What the tests of the daily work share: a project with tools of every kind, agents that call, streams that tell."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.program import Program
from tests.server.web.site import Visitor, opened

HERE = Path(__file__).parent
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def furnish(program: Program, *tables: str, native: str = "stand_ins") -> Program:
    """Give a project the native tools of the tests."""
    program.env["PYTHONPATH"] = str(HERE)
    program.config.write_text("\n\n".join([f'native = ["{native}"]', "[connect]\nattempts = 1", *tables]) + "\n")
    return program


@dataclass
class Bench:
    """A toolcrib that serves the native tools of the tests, with its owner at the page."""

    program: Program
    owner: Visitor
    guest_token: str

    def guest(self) -> Visitor:
        """A browser that is signed in with a token that may only read."""
        visitor = Visitor(self.owner.port)
        assert visitor.sign_in(self.guest_token).status == 303
        visitor.get("/tools")
        return visitor

    def agent(self, tool: str, **arguments: Any) -> "Agent":
        """A program that carries the owner's token and calls a tool."""
        token = (self.program.home / "state" / "toolcrib" / "token").read_text().strip()
        return Agent(self.owner.port, token, tool, arguments).start()


@contextmanager
def open_bench(home: Path, *tables: str, native: str = "stand_ins") -> Iterator[Bench]:
    program = Program(home)
    program.project.mkdir(parents=True, exist_ok=True)
    furnish(program, *tables, native=native)
    token = program.json("tokens", "create", "guest", "--level", "read_only")["token"]
    with opened(program) as owner:
        owner.get("/tools")
        yield Bench(program, owner, token)


@dataclass
class Agent:
    """Somebody else who calls a tool over MCP, in a thread of its own."""

    port: int
    token: str
    tool: str
    arguments: dict[str, Any]
    answer: dict[str, Any] = field(default_factory=dict)

    def start(self) -> "Agent":
        self.thread = threading.Thread(target=self._call, daemon=True)
        self.thread.start()
        return self

    def _call(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=150)
        params = {"name": self.tool, "arguments": self.arguments, "_meta": META}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": self.tool,
            "authorization": f"Bearer {self.token}",
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        connection.request("POST", "/mcp", body, headers)
        text = connection.getresponse().read().decode()
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("data: ", "{"))]
        told = json.loads(lines[-1])
        self.answer = told.get("result", told)

    def result(self) -> dict[str, Any]:
        self.thread.join(150)
        assert not self.thread.is_alive()
        return self.answer


class Stream:
    """Server-sent events, read one by one."""

    def __init__(self, visitor: Visitor, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", visitor.port, timeout=150)
        self._connection.request("GET", path, headers={"host": visitor.host, "cookie": visitor.cookie})
        self.response = self._connection.getresponse()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self.response:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def wait_for_start(self) -> None:
        """Until it is known that it listens."""
        while self.response.readline() not in (b": toolcrib\n", b""):
            pass

    def close(self) -> None:
        self._connection.close()


@contextmanager
def listening(visitor: Visitor, path: str) -> Iterator[Stream]:
    stream = Stream(visitor, path)
    try:
        if stream.response.status == 200:
            stream.wait_for_start()
        yield stream
    finally:
        stream.close()
