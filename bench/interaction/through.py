"""A pytest plugin for the SDK's interaction tests: what their ``connect`` opens goes through toolcrib.

Runs in the suite's environment, from the suite's folder. ``BENCH_LEGS`` is JSON: for each transport of the suite how
toolcrib reaches the test's server and how the test's client reaches toolcrib (``null``: straight to the server, as the
suite does); both sides speak the cell's era. Each cell's outcome becomes a line of JSON in the file ``BENCH_OUTCOMES``.
"""

import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LEGS: dict[str, list[str] | None] = json.loads(os.environ["BENCH_LEGS"])
OUTCOMES = Path(os.environ["BENCH_OUTCOMES"])
TOOLCRIB: list[str] = json.loads(os.environ.get("BENCH_TOOLCRIB", "[]"))
RELAY = Path(__file__).with_name("relay.py")
PATIENCE = 2.5  # the suite's time limits are for one process; here are three, on a machine with other work
DELAY_S = 0.01
ADDRESS = re.compile(r"serving MCP at (http://\S+)/mcp\n")
SETTLED_S = 0.3  # messages on their way between processes: nothing in this loop shows that they have arrived
LONGEST_REASON = 300
SETTINGS = """\
[kb]
enabled = false
[results]
limit = 0
[servers.suite]
transparent = true
unlisted = true
"""  # the documented settings for a gateway in front of one server

Serve = Callable[[Any, Path], AbstractAsyncContextManager[dict[str, Any]]]


class QuietServer(uvicorn.Server):
    """Leaves the signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    line = socket.create_server(("127.0.0.1", 0))
    server = QuietServer(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [line])
        try:
            yield f"http://127.0.0.1:{line.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True


def over_http(*, stateless: bool) -> Serve:
    @asynccontextmanager
    async def serve(server: Any, _home: Path) -> AsyncIterator[dict[str, Any]]:
        app = server.streamable_http_app(stateless_http=stateless)
        async with server.session_manager.run(), listening(app) as url:
            yield {"url": f"{url}/mcp"}

    return serve


@asynccontextmanager
async def over_sse(server: Any, _home: Path) -> AsyncIterator[dict[str, Any]]:
    from tests.interaction._connect import build_sse_app  # the suite's own way to serve it

    app, _ = build_sse_app(server)
    async with listening(app) as url:
        yield {"type": "sse", "url": f"{url}/sse"}


@asynccontextmanager
async def over_stdio(server: Any, home: Path) -> AsyncIterator[dict[str, Any]]:
    """The server stays in the test's process; what toolcrib starts is a pipe to it."""
    path = home / "server.sock"
    lowlevel = server._lowlevel_server if isinstance(server, MCPServer) else server
    listener = await anyio.create_unix_listener(path)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, lambda line: speak(lowlevel, line))
        yield {"command": sys.executable, "args": ["-S", "-E", str(RELAY), str(path)]}
        tasks.cancel_scope.cancel()


async def speak(server: Any, line: anyio.abc.ByteStream) -> None:
    """One connection of a stdio server: a message a line, both ways."""
    arriving, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    async with line, anyio.create_task_group() as tasks:
        tasks.start_soon(receive_lines, line, arriving)
        tasks.start_soon(send_lines, line, leaving)
        await server.run(read, write, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def receive_lines(line: anyio.abc.ByteStream, arriving: Any) -> None:
    rest = b""
    async with arriving:
        async for data in line:
            *messages, rest = (rest + data).split(b"\n")
            for message in messages:
                await arriving.send(SessionMessage(jsonrpc_message_adapter.validate_json(message)))


async def send_lines(line: anyio.abc.ByteStream, leaving: Any) -> None:
    async with leaving:
        async for message in leaving:
            await line.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")


BACKS: dict[str, Serve] = {
    "http": over_http(stateless=False),
    "http-stateless": over_http(stateless=True),
    "sse": over_sse,
    "stdio": over_stdio,
}


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "NO_COLOR": "1"}


@asynccontextmanager
async def running_toolcrib(config: Path, home: Path) -> AsyncIterator[str]:
    """The address of a toolcrib that serves HTTP in a process of its own."""
    argv = [*TOOLCRIB, "serve", "--config", str(config), "--host", "127.0.0.1", "--port", "0", "--no-prefix"]
    log = home / "toolcrib.log"
    with log.open("wb") as out:
        process = await anyio.open_process(argv, env=environment(home), cwd=home, stdout=out, stderr=out)
    try:
        yield await address(process, log)
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()


async def address(process: Any, log: Path) -> str:
    """Where it says it listens."""
    while (found := ADDRESS.search(log.read_text())) is None:
        if process.returncode is not None:
            raise RuntimeError(f"toolcrib ended: {log.read_text()[-500:]}")
        await anyio.sleep(DELAY_S)
    return found[1]


@asynccontextmanager
async def transport_to(front: str, config: Path, home: Path) -> AsyncIterator[Any]:
    if front == "stdio":
        command, *argv = [*TOOLCRIB, "stdio", "--alone", "--config", str(config), "--no-prefix"]
        with (home / "toolcrib.log").open("w") as log:
            server = StdioServerParameters(command=command, args=argv, env=environment(home), cwd=home)
            yield stdio_client(server, errlog=log)
        return
    async with running_toolcrib(config, home) as url:
        yield streamable_http_client(f"{url}/mcp") if front == "http" else sse_client(f"{url}/sse")


def connect_through(back: str, front: str) -> Callable[..., AbstractAsyncContextManager[Client]]:
    @asynccontextmanager
    async def connect(server: Any, *, spec_version: str, **options: Any) -> AsyncIterator[Client]:
        with tempfile.TemporaryDirectory(prefix="interaction-") as folder:
            home = Path(folder)
            async with BACKS[back](server, home) as entry:
                config = home / "toolcrib.toml"
                # Strings and lists of them are written the same way in JSON and in TOML.
                is_modern = spec_version in MODERN_PROTOCOL_VERSIONS
                settings = entry | {"era": "stateless" if is_modern else "handshake"}  # the SDK's servers speak both
                config.write_text(SETTINGS + "".join(f"{key} = {json.dumps(settings[key])}\n" for key in settings))
                mode = spec_version if is_modern else "legacy"
                async with (
                    transport_to(front, config, home) as transport,
                    Client(transport, mode=mode, **options) as client,
                ):
                    with told_as_assertions():
                        yield client

    return connect


@contextmanager
def told_as_assertions() -> Iterator[None]:
    """What pytest raises for a failure is no ``Exception``: it would take the module's event loop along."""
    try:
        yield
    except pytest.fail.Exception as failure:
        raise AssertionError(str(failure)) from None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the cells that connect, on the transports that are asked for; replace how they do."""
    kept = [item for item in items if leg_of(item) in LEGS]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
    factories: dict[str, Any] = sys.modules["tests.interaction.conftest"]._FACTORIES
    for transport, leg in LEGS.items():
        if leg is not None:
            factories[transport] = connect_through(*leg)
    if any(LEGS.values()):
        give_time()


def leg_of(item: pytest.Item) -> str:
    """The transport of a cell; empty for a test that does not connect, or only where it wants."""
    call = getattr(item, "callspec", None)
    return call.params["connect"][0] if call is not None and "connect" in call.params else ""


def give_time() -> None:
    """The suite's limits and its idea of when all is quiet, for more than one process."""
    fail_after, wait_all_tasks_blocked = anyio.fail_after, anyio.wait_all_tasks_blocked

    def patient(delay: float | None, *args: Any, **kwargs: Any) -> Any:
        return fail_after(None if delay is None else delay * PATIENCE, *args, **kwargs)

    async def settled() -> None:
        await anyio.sleep(SETTLED_S)
        await wait_all_tasks_blocked()

    anyio.fail_after, anyio.wait_all_tasks_blocked = patient, settled


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        note(item, report, call)
    return report


def note(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[Any]) -> None:
    reason = " ".join(str(innermost(call.excinfo.value)).split()) if call.excinfo else ""
    outcome = {
        "cell": item.nodeid.removeprefix("tests/interaction/"),
        "transport": leg_of(item),
        "version": item.callspec.params["connect"][1],  # type: ignore[attr-defined]
        "when": report.when,
        "outcome": report.outcome,
        "reason": reason[:LONGEST_REASON],
        "seconds": round(call.duration, 2),
    }
    with OUTCOMES.open("a") as out:
        out.write(json.dumps(outcome) + "\n")


def innermost(error: BaseException) -> BaseException:
    return innermost(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
