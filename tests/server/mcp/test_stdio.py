"""MCP over stdin and stdout: driven by bytes, and as a process whose tools print."""

import asyncio
import contextlib
import json
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.program import Program
from tests.fleet import launcher

from toolcrib.core.access import LOCAL_USER, Caller, Grants
from toolcrib.core.framing import MESSAGE_BYTES
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import Request, Result
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.channel import BACKLOG_MAX
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.server.mcp.stdio import StdioDoor
from toolcrib.sources.native.running import report_progress
from toolcrib.testing import FakeSource, MemoryCrib, memory_crib
from toolcrib.wire import eras

META = {eras.META_VERSION: "2026-07-28", eras.META_CLIENT_CAPABILITIES: {}}
SIGNED = {eras.META_SERVER_INFO: {"name": "toolcrib", "version": "1"}}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t"}}


class Out:
    """Stdout: lines, decoded, in the order they were written."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[dict] = asyncio.Queue()
        self.closed = False
        self.unread = 0
        self.protocol: asyncio.BaseProtocol | None = None

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\n")
        assert data.count(b"\n") == 1
        self.lines.put_nowait(json.loads(data))

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unread

    def close(self) -> None:
        self.closed = True
        self.protocol.connection_lost(None)


class Client:
    """One client on a door."""

    def __init__(self, made: MemoryCrib, caller: Caller = LOCAL_USER) -> None:
        self.made, self.out = made, Out()
        self.door = StdioDoor(McpService(ProfileView(made.crib), ServerIdentity("toolcrib", "1")), caller)
        self.out.protocol = self.door.out
        self.door.out.connection_made(self.out)

    def send(self, *messages: dict) -> None:
        data = b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)
        self.door.data_received(data)

    async def read(self) -> dict:
        message = await asyncio.wait_for(self.out.lines.get(), 150)
        assert message.pop("jsonrpc") == "2.0"
        return message

    async def ask(self, request_id: int, method: str, params: dict | None = None) -> dict:
        self.send({"id": request_id, "method": method, "params": params or {}})
        return await self.read()

    async def hello(self) -> None:
        await self.ask(0, "initialize", HELLO)


@contextlib.asynccontextmanager
async def client_of(*sources: FakeSource, tools=()):
    """A client of a crib that knows its tools already."""
    async with memory_crib(*sources, tools=tools) as made:
        await made.crib.current()
        client = Client(made)
        yield client
        await client.door.close()


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_a_handshake_client_is_served():
    """Hello, list, call, ping."""
    async with client_of(tools=[add]) as client:
        hello = await client.ask(0, "initialize", HELLO)
        client.send({"method": "notifications/initialized"})
        listed = await client.ask(1, "tools/list")
        called = await client.ask("two", "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        pinged = await client.ask(3, "ping")

    assert (hello["id"], hello["result"]["protocolVersion"]) == (0, "2025-06-18")
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["add"]
    assert called == {"id": "two", "result": {"content": [{"type": "text", "text": "3"}]}}
    assert pinged == {"id": 3, "result": {}}


async def test_every_client_is_a_caller_with_a_session_of_its_own():
    """Limited as the door was told; "for this session" means this pair of pipes."""
    source, callers = FakeSource("srv", [Tool("look", security_level=SecurityLevel.READ_ONLY), Tool("work")]), []
    source.answers["look"] = lambda call: callers.append(call.caller) or "done"
    limited = Caller("local", "agent", Grants(SecurityLevel.READ_ONLY))
    async with memory_crib(source) as made:
        await made.crib.current()
        for _ in range(2):
            client = Client(made, limited)
            await client.hello()
            listed = await client.ask(1, "tools/list")
            await client.ask(2, "tools/call", {"name": "srv__look"})
            await client.door.close()

    assert [tool["name"] for tool in listed["result"]["tools"]] == ["srv__look"]
    assert [replace(caller, session="") for caller in callers] == [limited] * 2
    assert len({caller.session for caller in callers} - {""}) == 2


async def test_a_stateless_client_is_served_without_a_word_before():
    """Each request says who asks."""
    async with client_of(tools=[add]) as client:
        found = await client.ask(1, "server/discover", {"_meta": META})
        called = await client.ask(2, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META})

    assert found["result"]["supportedVersions"] == ["2026-07-28"]
    text = {"type": "text", "text": "3"}
    assert called["result"] == {"resultType": "complete", "content": [text], "_meta": SIGNED}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"id": 1, "method": "tools/list"}, -32602),
        ({"id": 1, "method": "initialize", "params": {}}, -32602),
        ({"id": 1, "method": "tools/list", "params": {"_meta": {eras.META_VERSION: "2026-07-28"}}}, -32602),
        ({"id": 1, "method": "tools/list", "params": {"_meta": {**META, eras.META_VERSION: "1"}}}, -32022),
        ({"id": 1, "method": "no/such", "params": {"_meta": META}}, -32601),
        ({"id": None, "method": "ping"}, -32600),
        ({"id": 1}, -32600),
    ],
)
async def test_what_cannot_be_served_is_refused_with_its_code(message, code):
    """And the next request is served as ever."""
    async with client_of() as client:
        client.send(message)
        refused = await client.read()
        pinged = await client.ask(2, "ping")

    assert refused["error"]["code"] == code
    assert pinged == {"id": 2, "result": {}}


@pytest.mark.parametrize(
    "line", [b"hello\n", b"\xff\xfe\n", b"[]\n", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}\n', b"{\n"]
)
async def test_a_broken_line_is_answered_and_the_next_one_read(line):
    """Nothing a client writes ends the conversation."""
    async with client_of() as client:
        client.door.data_received(line)
        refused = await client.read()
        pinged = await client.ask(2, "ping")

    assert (refused["id"], refused["error"]["code"] in (-32700, -32600)) == (None, True)
    assert pinged == {"id": 2, "result": {}}


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_requests_survive_any_way_the_pipe_cuts_them(sizes):
    """However the bytes arrive, the same answers go out."""
    stream = b"".join(
        json.dumps(
            {"jsonrpc": "2.0", "id": number, "method": "ping", "params": {"_": "ü"}}, ensure_ascii=False
        ).encode()
        + b"\r\n"
        for number in range(3)
    )

    async def run() -> list[int]:
        async with client_of() as client:
            rest = stream
            for size in sizes:
                client.door.data_received(rest[:size])
                rest = rest[size:]
            client.door.data_received(rest)
            return sorted([(await client.read())["id"] for _ in range(3)])

    assert asyncio.run(run()) == [0, 1, 2]


async def test_requests_are_worked_on_side_by_side():
    """A slow one does not hold up the next."""
    slow = FakeSource("slow", ["work"])
    slow.calling.hold()
    async with client_of(slow) as client:
        await client.hello()
        client.send({"id": 1, "method": "tools/call", "params": {"name": "slow__work"}})
        await slow.calling.reached.wait()
        pinged = await client.ask(2, "ping")
        slow.calling.release()
        done = await client.read()

    assert (pinged["id"], done["id"]) == (2, 1)


async def test_a_cancelled_request_is_not_answered():
    """Its work stops."""
    slow = FakeSource("slow", ["work"])
    slow.calling.hold()
    async with client_of(slow) as client:
        await client.hello()
        client.send({"id": 1, "method": "tools/call", "params": {"name": "slow__work"}})
        await slow.calling.reached.wait()
        client.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
        pinged = await client.ask(2, "ping")

    assert pinged["id"] == 2
    assert [event.fields["code"] for event in client.made.events if event.name == "call.finished"] == ["TOOL_CANCELLED"]


@pytest.mark.parametrize("request_id", [[1], {"a": 1}, None, True, 1.5, 99, "nobody"])
async def test_a_cancellation_of_nothing_is_ignored(request_id):
    """Whatever it names."""
    async with client_of() as client:
        client.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})

        assert await client.ask(1, "ping") == {"id": 1, "result": {}}


async def test_a_request_cancelled_in_the_same_breath_leaves_nothing_behind():
    """The door still ends when its client leaves."""
    async with client_of(FakeSource("srv", ["work"])) as client:
        await client.hello()
        client.send(
            {"id": 1, "method": "tools/call", "params": {"name": "srv__work"}},
            {"method": "notifications/cancelled", "params": {"requestId": 1}},
        )
        await asyncio.sleep(0)
        client.door.connection_lost(None)

        await asyncio.wait_for(client.door.ended.wait(), 150)


async def test_an_id_in_use_is_refused():
    """Two answers under one id would help nobody."""
    slow = FakeSource("slow", ["work"])
    slow.calling.hold()
    async with client_of(slow) as client:
        await client.hello()
        client.send({"id": 1, "method": "tools/call", "params": {"name": "slow__work"}})
        await slow.calling.reached.wait()
        refused = await client.ask(1, "ping")
        slow.calling.release()
        done = await client.read()

    assert (refused["error"]["code"], done["result"]["content"]) == (-32600, [{"type": "text", "text": "work ran"}])


async def test_progress_carries_the_clients_own_token():
    """Not the one under which the server tells it."""
    source = FakeSource("srv", ["work"])

    def work(call: Request) -> str:
        for params in (b'{"progressToken":77,"progress":0.5,"own":1}', b"[]", b'{"progress":1e999}'):
            call.channel.notify("notifications/progress", params)
        return "done"

    source.answers["work"] = work
    async with client_of(source) as client:
        await client.hello()
        params = {"name": "srv__work", "_meta": {"progressToken": "mine"}}
        told = await client.ask(1, "tools/call", params)
        done = await client.read()
        silent = await client.ask(2, "tools/call", {"name": "srv__work"})

    assert told == {
        "method": "notifications/progress",
        "params": {"progressToken": "mine", "progress": 0.5, "own": 1},
    }
    assert (done["id"], silent["id"]) == (1, 2)


async def test_what_a_native_function_reports_reaches_a_client_that_asked_for_it():
    """From the thread it runs in, before its result."""

    def count() -> int:
        report_progress(1, 2, "half")
        return 2

    async with client_of(tools=[count]) as client:
        await client.hello()
        told = await client.ask(1, "tools/call", {"name": "count", "_meta": {"progressToken": "mine"}})
        done = await client.read()
        silent = await client.ask(2, "tools/call", {"name": "count"})

    assert told["params"] == {"progressToken": "mine", "progress": 1.0, "total": 2.0, "message": "half"}
    assert (done["id"], silent["id"]) == (1, 2)


async def test_a_client_is_asked_in_the_middle_of_a_call():
    """Its answer, or its refusal, goes to the tool."""
    source = FakeSource("srv", ["work"])

    async def work(call: Request) -> str:
        answer = await call.channel.ask("elicitation/create", b'{"message":"Sure?"}')
        return json.loads(answer)["action"]

    source.answers["work"] = work
    async with client_of(source) as client:
        await client.hello()
        question = await client.ask(1, "tools/call", {"name": "srv__work"})
        client.send({"id": "unknown", "result": {}}, {"id": question["id"], "result": {"action": "accept"}})
        accepted = await client.read()
        question = await client.ask(2, "tools/call", {"name": "srv__work"})
        client.send({"id": question["id"], "error": {"code": -1, "message": "refused"}})
        refused = await client.read()

    assert (question["method"], question["params"]) == ("elicitation/create", {"message": "Sure?"})
    assert accepted["result"]["content"] == [{"type": "text", "text": "accept"}]
    assert refused["error"] == {"code": -1, "message": "refused"}


async def test_a_session_is_told_of_changed_tools():
    """One that has shaken hands; a stranger is not."""
    async with client_of(tools=[add]) as client:
        client.made.native.unregister("add")
        await client.hello()
        client.made.native.register(add)

        assert await client.read() == {"method": "notifications/tools/list_changed"}
        assert client.out.lines.empty()


async def test_a_subscriber_is_acknowledged_and_told_until_it_leaves():
    """Each frame names its subscription."""
    async with client_of(tools=[add]) as client:
        params = {"notifications": {"toolsListChanged": True, "other": True}, "_meta": META}
        acknowledged = await client.ask("sub", "subscriptions/listen", params)
        client.made.native.unregister("add")
        changed = await client.read()
        client.send({"method": "notifications/cancelled", "params": {"requestId": "sub"}})
        client.made.native.register(add)
        quiet = client.out.lines.empty()

    meta = {eras.META_SUBSCRIPTION: "sub"}
    assert acknowledged == {
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": {"toolsListChanged": True}, "_meta": meta},
    }
    assert changed == {"method": "notifications/tools/list_changed", "params": {"_meta": meta}}
    assert quiet


async def test_subscribers_are_seen_off_when_the_door_closes():
    """Each gets its result, whether or not there was anything to tell; one that cancelled gets none."""
    async with client_of(tools=[add]) as client:
        for request_id, wanted in (("keen", True), ("deaf", False), ("gone", True)):
            params = {"notifications": {"toolsListChanged": wanted}, "_meta": META}
            await client.ask(request_id, "subscriptions/listen", params)
        client.send({"method": "notifications/cancelled", "params": {"requestId": "gone"}})
        client.made.native.unregister("add")
        changed = await client.read()
        await client.door.close()
        ended = [await client.read(), await client.read()]

    assert changed["params"] == {"_meta": {eras.META_SUBSCRIPTION: "keen"}}
    assert ended == [
        {"id": name, "result": {"resultType": "complete", "_meta": {eras.META_SUBSCRIPTION: name}}}
        for name in ("keen", "deaf")
    ]
    assert client.out.lines.empty()


async def test_a_client_that_is_far_behind_gets_answers_only():
    """Notifications are dropped, and of all changes it hears once, when it reads again."""
    source = FakeSource("srv", ["work"])

    def work(call: Request) -> str:
        call.channel.notify("notifications/progress", b'{"progress":0.5}')
        call.channel.notify("notifications/message", b'{"level":"info","data":1}')
        return "done"

    source.answers["work"] = work
    async with client_of(source, tools=[add]) as client:
        await client.hello()
        client.out.unread = BACKLOG_MAX + 1
        client.made.native.unregister("add")
        client.made.native.register(add)
        answered = await client.ask(1, "tools/call", {"name": "srv__work", "_meta": {"progressToken": "mine"}})
        quiet = client.out.lines.empty()
        client.out.unread = 0
        client.door.out.resume_writing()
        client.door.out.resume_writing()
        changed = await client.read()

    assert (answered["id"], quiet) == (1, True)
    assert (changed["method"], client.out.lines.empty()) == ("notifications/tools/list_changed", True)


async def test_a_closed_door_is_told_of_no_changes():
    """The crib forgets it."""
    async with client_of(tools=[add]) as client:
        await client.hello()
        await client.door.close()
        client.out.closed = False
        client.made.native.unregister("add")

        assert client.out.lines.empty()


async def test_a_stateless_initialize_is_no_method():
    """As over HTTP: the era that carries its version in each request shakes no hands."""
    async with client_of() as client:
        answered = await client.ask(1, "initialize", {**HELLO, "_meta": META})

    assert (answered["id"], answered["error"]["code"]) == (1, -32601)


async def test_a_line_that_is_too_long_is_answered_without_an_id():
    """The client learns of it, and the next line is served."""
    async with client_of() as client:
        client.door.data_received(b"x" * (MESSAGE_BYTES + 1))
        refused = await client.read()
        client.door.data_received(b"\n")
        pinged = await client.ask(2, "ping")

    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert pinged == {"id": 2, "result": {}}


async def test_a_question_fails_when_the_client_leaves():
    """The call that asked goes on without the answer, and the door ends."""
    source = FakeSource("srv", ["work"])

    async def work(call: Request) -> str:
        return (await call.channel.ask("elicitation/create", b"{}")).decode()

    source.answers["work"] = work
    async with client_of(source) as client:
        await client.hello()
        await client.ask(1, "tools/call", {"name": "srv__work"})
        client.door.connection_lost(None)
        answered = await client.read()
        await asyncio.wait_for(client.door.ended.wait(), 150)

    assert answered["result"]["isError"]
    assert answered["result"]["_meta"]["toolcrib/error"]["code"] == "TOOL_CANCELLED"


async def test_a_result_that_cannot_be_written_is_still_answered():
    """A tool may return anything; the client never waits for nothing."""
    source = FakeSource("srv", [Tool("work")])
    source.answers["work"] = Result({"content": [], "_meta": {"odd": object()}})
    async with client_of(source) as client:
        await client.hello()
        answered = await client.ask(1, "tools/call", {"name": "srv__work"})

    assert (answered["id"], answered["error"]["code"]) == (1, -32603)


async def test_a_client_that_leaves_still_gets_what_it_asked_for():
    """Then the door ends."""
    slow = FakeSource("slow", ["work"])
    slow.calling.hold()
    async with client_of(slow) as client:
        await client.hello()
        client.send({"id": 1, "method": "tools/call", "params": {"name": "slow__work"}})
        await slow.calling.reached.wait()
        client.door.connection_lost(None)
        waiting = not client.door.ended.is_set()
        slow.calling.release()
        done = await client.read()
        await asyncio.wait_for(client.door.ended.wait(), 150)

    assert (waiting, done["id"]) == (True, 1)


SERVER = textwrap.dedent(
    '''
    import asyncio, os, subprocess, sys
    from toolcrib import open_crib
    from toolcrib.crib.window import ProfileView
    from toolcrib.server.mcp.service import McpService, ServerIdentity
    from toolcrib.server.mcp.stdio import serve_stdio

    def chatty() -> str:
        """Prints in every way there is."""
        print("printed", flush=True)
        os.write(1, b"written\\n")
        subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
        return "done" + sys.stdin.read()

    def leaves() -> None:
        sys.exit(3)

    async def main():
        async with open_crib({"mcpServers": {}}, tools=[chatty, leaves]) as crib:
            await serve_stdio(McpService(ProfileView(crib), ServerIdentity()), asyncio.Event())

    print("before anything", file=sys.stderr)
    asyncio.run(main())
    '''
)


def test_stdout_carries_the_protocol_and_nothing_else():
    """Whatever a tool prints goes to stderr, what it reads is empty, and one that exits ends only itself."""
    requests = [
        {"id": 0, "method": "initialize", "params": HELLO},
        {"id": 1, "method": "tools/call", "params": {"name": "chatty"}},
        {"id": 2, "method": "tools/call", "params": {"name": "leaves"}},
    ]
    stdin = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests)

    done = launcher.run([sys.executable, "-c", SERVER], stdin=stdin, timeout_s=150)

    answers = {message["id"]: message["result"] for message in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["content"] == [{"type": "text", "text": "done"}]
    assert answers[2]["content"] == [{"type": "text", "text": "leaves failed: SystemExit: 3"}]
    assert done.stderr.splitlines() == ["before anything", "printed", "written", "by a child"]


BIG = """
from toolcrib import tool

@tool
def big() -> str:
    return "x" * 3_000_000
"""


def test_a_slow_client_gets_all_of_its_last_answer(tmp_path):
    """It closed stdin and takes its time with 3 MB: far more than a pipe holds."""
    program = Program(tmp_path)
    program.project.mkdir()
    (program.project / "big.py").write_text(BIG)
    program.config.write_text('native = ["big"]\nresults = {limit = 0}\n')
    program.env["PYTHONPATH"] = str(program.project)
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "big", "_meta": META}}
    process = program.start("stdio", "--alone", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.close()
    first = process.stdout.read(1)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)

    answered = json.loads(first + process.stdout.read())

    assert (process.wait(150), len(answered["result"]["content"][0]["text"])) == (0, 3_000_000)
