"""A running gateway whose disk fills up: a real ``toolcrib serve`` at home on a file system of three megabytes.

With each amount of room left: reads go on, what must be recorded is refused in words, health says so, and when there is
room again everything goes on. After the program was killed, all that was acknowledged is there.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fleet.running import Running, homely, running

from bench.faults.trials import Tally
from toolcrib.core.access import Grants
from toolcrib.core.errors import ToolcribError
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import in_order
from toolcrib.stores.audit.verify import verify

LEFT = tuple(range(0, 72 * 1024, 4096))
"""Bytes that are left when the disk is filled."""
CALLS = 40
WAIT_S = 60.0
_SERVING = re.compile(r"serving MCP at http://127\.0\.0\.1:(\d+)/")
_SERVER = """
import json, sys
def say(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": name == "look"}}
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        info = {"name": "w", "version": "1"}
        say(asked["id"], {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif asked["method"] == "tools/list":
        say(asked["id"], {"tools": [tool("look"), tool("save")]})
    elif "id" in asked:
        say(asked["id"], {"content": [{"type": "text", "text": "done"}]})
"""


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of its own; whoever may not mount one is told so."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(directory)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(
            f"No small disk can be mounted, so that it could fill up: {done.stderr.strip()}. Run as root."
        )
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@dataclass
class Gateway:
    """What runs, and what it acknowledged."""

    disk: Path
    port: int = 0
    saved: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    refusals: int = 0
    degraded: int = 0
    """How often health said so right after a refusal. Not each time: the log may find room within its own file."""
    tally: Tally = field(default_factory=Tally)

    @property
    def home(self) -> Path:
        return self.disk / "home"

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "toolcrib"

    def fill(self, left: int) -> None:
        """Take all room but this."""
        (self.disk / "fill").unlink(missing_ok=True)
        room = os.statvfs(self.disk)
        with (self.disk / "fill").open("wb", buffering=0) as file:
            file.write(bytes(max(0, room.f_bavail * room.f_frsize - left)))

    def make_room(self) -> None:
        (self.disk / "fill").unlink()

    def ask(self, method: str, path: str) -> dict[str, object]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            body = b'{"arguments": {}}' if method == "POST" else None
            connection.request(method, path, body, {"Content-Type": "application/json"})
            return dict(json.loads(connection.getresponse().read()))
        finally:
            connection.close()

    def call(self, tool: str) -> dict[str, object]:
        self.tally.tried += 1
        return self.ask("POST", f"/api/v1/tools/w__{tool}/call")

    def save(self) -> bool:
        """Whether something was recorded and done; a refusal says what to do."""
        answer = self.call("save")
        if answer.get("success"):
            self.saved.append(str(answer["executionId"]))
            return True
        if answer.get("code") != "TOOL_UNAVAILABLE" or "Make room" not in str(answer.get("detail")):
            self.tally.unnamed.append(f"a save was refused without a way out: {answer}")
        return False

    def make_token(self) -> None:
        self.tally.tried += 1
        name = f"t{len(self.tokens)}-{self.tally.tried}"
        try:
            TokenFile(self.state / "tokens-of-others.json", time.time).create(NewToken(name, Grants("write")))
        except ToolcribError as error:
            if not error.hint:
                self.tally.unnamed.append(f"a token was refused without a way out: {error}")
        else:
            self.tokens.append(name)

    def try_left(self, left: int) -> None:
        """Fill the disk, use it until it refuses, make room, and see that it goes on."""
        self.fill(left)
        self.make_token()
        for _ in range(CALLS):
            was_saved = self.save()
            if not self.call("look").get("success"):
                self.tally.stuck.append(f"{left} bytes left: nothing can be read")
            if not was_saved:
                self.refusals += 1
                self.degraded += self.ask("GET", "/healthz")["status"] == "degraded"
        self.make_room()
        until = time.monotonic() + WAIT_S
        while not self.save() or self.ask("GET", "/healthz")["status"] != "healthy":
            if time.monotonic() > until:
                self.tally.stuck.append(f"{left} bytes left: there is room again, but it does not go on")
                return
            time.sleep(0.05)

    def look(self) -> None:
        """What is there after the program was killed."""
        with AuditFile(self.state / "audit.db").reading() as log:
            begun = {entry.execution_id for entry in in_order(log) if entry.event == "call.begun"}
            fault = verify(log).fault
        kept = {token.name for token in TokenFile(self.state / "tokens-of-others.json", time.time).read()}
        self.tally.lost += [
            f"save {one} was acknowledged and is not recorded" for one in self.saved if one not in begun
        ]
        self.tally.lost += [f"token {one} was acknowledged and is not there" for one in self.tokens if one not in kept]
        self.tally.lost += [fault.words] if fault else []
        if not self.refusals or not self.degraded:
            self.tally.unnamed.append(f"{self.refusals} saves refused, and health said so {self.degraded} times")


def try_gateway(directory: Path) -> Tally:
    """All of it."""
    with small_disk(directory):
        gateway = Gateway(directory)
        gateway.home.mkdir()
        config = gateway.home / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"w": {"command": sys.executable, "args": ["-c", _SERVER]}}}))
        argv = [sys.executable, "-m", "toolcrib", "serve", "--config", str(config), "--port", "0"]
        with running(argv, ready=_announces, env=homely(gateway.home), cwd=gateway.home) as program:
            gateway.port = int(_SERVING.findall(program.output())[0])
            gateway.save()
            for left in LEFT:
                gateway.try_left(left)
            os.killpg(program.process.pid, signal.SIGKILL)
        gateway.look()
        return gateway.tally


def _announces(program: Running) -> bool:
    return _SERVING.search(program.output()) is not None
