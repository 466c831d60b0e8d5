"""Who shares a server: real processes and sessions, a real browser with two clients at once."""

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.fleet import install, servers
from tests.fleet.clients import Place, SdkClient
from tests.fleet.gateway import serving
from tests.fleet.running import accepts_connections, free_port, running

import toolcrib
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.testing import RecordingChannel

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

SERVER = Path(__file__).with_name("remembering_server.py")
ANN, ANN_TOO = Caller("ann", grants=EVERYTHING, session="s1"), Caller("ann", grants=EVERYTHING, session="s2")
BEN = Caller("ben", grants=EVERYTHING, session="s3")


def write_server(home: Path, name: str, **keys: Any) -> Path:
    """A file with one server."""
    path = home / "toolcrib.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    path.write_text("\n".join([f"[servers.{name}]", *lines, ""]))
    return path


@contextlib.asynccontextmanager
async def remembering(kind: str, diary: Path, **config: Any) -> AsyncIterator[toolcrib.Crib]:
    """A Crib with the server that remembers, started by a command or reached at an address."""
    with contextlib.ExitStack() as life:
        if kind == "http":
            port = free_port()
            argv = [sys.executable, str(SERVER), str(diary), str(port)]
            life.enter_context(running(argv, ready=lambda _: accepts_connections(port)))
            entry: dict[str, Any] = {"url": f"http://127.0.0.1:{port}/mcp"}
        else:
            entry = {"command": sys.executable, "args": [str(SERVER), str(diary)]}
        async with toolcrib.open_crib(write_server(diary.parent, "srv", **entry, **config)) as crib:
            await crib.tools(grace_s=60)
            yield crib


async def tell(crib: toolcrib.Crib, caller: Caller, text: str) -> None:
    assert (await crib.call("srv__remember", {"text": text}, caller=caller)).success


async def recalled(crib: toolcrib.Crib, *callers: Caller) -> list[str]:
    return [(await crib.call("srv__recall", caller=caller)).text for caller in callers]


@pytest.mark.parametrize("kind", ["stdio", "http"])
@pytest.mark.parametrize(
    ("share", "seen", "opened"),
    [("all", ["ann"] * 3, 1), ("user", ["ann", "ann", "nothing"], 3), ("session", ["ann", "nothing", "nothing"], 4)],
)
async def test_only_those_who_share_a_server_see_what_the_others_did(kind, share, seen, opened, tmp_path):
    """In a process of it, or in a session with it; one more is there for discovery if not all share it."""
    diary = tmp_path / "diary"
    async with remembering(kind, diary, share=share) as crib:
        await tell(crib, ANN, "ann")

        assert await recalled(crib, ANN, ANN_TOO, BEN) == seen
        assert len(diary.read_text().split()) == opened


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_the_end_of_a_session_ends_what_only_it_used(kind, tmp_path):
    """Its process, or its session with the server; what it had told is gone with it."""
    diary = tmp_path / "diary"
    async with remembering(kind, diary, share="session") as crib:
        await tell(crib, ANN, "ann")
        await tell(crib, BEN, "ben")
        crib.end_session("s1")

        assert await recalled(crib, ANN, BEN) == ["nothing", "ben"]
        lanes = crib.shelves["srv"].source.status().lanes
        assert sorted(lane.caller for lane in lanes) == ["ann", "ben"]


async def test_a_restart_and_a_change_concern_every_lane(tmp_path):
    """No process of before is left."""
    async with remembering("stdio", tmp_path / "diary", share="session") as crib:
        for caller in (ANN, BEN):
            await tell(crib, caller, caller.id)
        await crib.servers.restart("srv")
        restarted = await recalled(crib, ANN, BEN)
        await tell(crib, ANN, "again")
        server = crib.shelves["srv"].config
        await crib.servers.apply({"srv": replace(server, share="user")})

        assert restarted == ["nothing"] * 2
        assert await recalled(crib, ANN, ANN_TOO) == ["nothing"] * 2
        assert [lane.caller for lane in crib.shelves["srv"].source.status().lanes] == ["ann"]
    assert [pid for pid in (tmp_path / "diary").read_text().split() if Path("/proc", pid).exists()] == []


async def test_a_process_that_dies_takes_nobody_elses_along(tmp_path):
    """The next call of its caller starts another."""
    async with remembering("stdio", tmp_path / "diary", share="session") as crib:
        await tell(crib, ANN, "ann")
        await tell(crib, BEN, "ben")
        died = [(await crib.call("srv__die", caller=ANN)).success for _ in range(3)]

        assert await recalled(crib, BEN, ANN) == ["ben", "nothing"]
        assert died == [False] * 3
        assert crib.health().servers["srv"].breaker == "closed"


async def test_a_client_with_a_thousand_sessions_gets_a_handful_of_processes(tmp_path):
    """And is told when to try again; another caller is served all the same."""
    diary = tmp_path / "diary"
    async with remembering("stdio", diary, share="session") as crib:
        callers = [Caller("eve", grants=EVERYTHING, session=f"e{number}") for number in range(1000)]
        results = await asyncio.gather(*(crib.call("srv__recall", caller=caller) for caller in callers))
        await tell(crib, BEN, "ben")

        refused = {result.error.code for result in results if result.error is not None}
        assert (sum(result.success for result in results), refused) == (6, {"TOOL_RATE_LIMITED"})
        assert len(diary.read_text().split()) == 1 + 6 + 1


class Asked(RecordingChannel):
    """A client that can be asked, and hears of progress."""

    def __init__(self) -> None:
        answers = {"elicitation/create": {"action": "decline"}}
        super().__init__(answers, capabilities={"elicitation": {"form": {}}}, wants_progress=True)
        self.is_running = asyncio.Event()

    def notify(self, method: str, params: bytes) -> None:
        super().notify(method, params)
        self.is_running.set()


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_question_reaches_the_one_it_is_for_however_many_use_the_server(kind, fleet, tmp_path):
    """Over a pipe nobody is asked while two share it; then it is known that it asks, and each has a process.

    Over HTTP the question comes on the stream of its call.
    """
    with servers.everything_over_http() if kind == "http" else contextlib.nullcontext(servers.everything()) as server:
        path = servers.write_config(tmp_path / "servers.json", {"srv": server})
        for round_ in ("first", "second"):
            async with toolcrib.open_crib(path) as crib:
                await crib.tools(grace_s=60)
                ann, ben = Asked(), Asked()
                working = asyncio.create_task(
                    crib.call(
                        "srv__trigger-long-running-operation", {"duration": 60, "steps": 600}, caller=BEN, channel=ben
                    )
                )
                await ben.is_running.wait()
                await crib.call("srv__trigger-elicitation-request", caller=ANN, channel=ann)
                working.cancel()
                share = crib.shelves["srv"].source.status().share

            is_blind = (kind, round_) == ("stdio", "first")
            assert ([method for method, _ in ann.asked], ben.asked) == ([] if is_blind else ["elicitation/create"], [])
            # Over HTTP it may ask for roots between the calls of two callers.
            assert share in ({"session"} if kind == "stdio" else {"all", "session"})


class Pages(BaseHTTPRequestHandler):
    """``/NAME`` is a page of that title; ``/meet/NAME`` is one once two were asked for."""

    both = threading.Barrier(2, timeout=150)

    def do_GET(self) -> None:
        if self.path.startswith("/meet/"):
            self.both.wait()
        name = self.path.rpartition("/")[2]
        body = f"<!doctype html><title>{name}</title><h1>{name}</h1>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def pages() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def browser_config(home: Path, **config: str) -> Path:
    """A file with Playwright's own server, and the real browser of this machine."""
    install.ensure()
    script = install.FLEET / "npm-browser" / "node_modules" / "@playwright" / "mcp" / "cli.js"
    options = ["--headless", "--isolated", "--no-sandbox", "--executable-path", install.browser() or ""]
    args = [str(script), *options]
    return write_server(home, "browser", command=str(install.node()), args=args, call_timeout="150s", **config)


def go(url: str) -> dict[str, Any]:
    return {"op": "call", "tool": "browser__browser_navigate", "arguments": {"url": url}, "timeout_s": 150}


LOOK = {
    "op": "call",
    "tool": "browser__browser_evaluate",
    "arguments": {"function": "() => `title: ${document.title}.`"},
    "timeout_s": 150,
}


def shown(conversation: dict[str, Any]) -> str:
    """What a client saw last."""
    return conversation["outcomes"][-1]["result"]["content"][0]["text"]


def test_two_clients_at_once_have_a_page_each(pages, tmp_path):
    """Of a browser that nobody had to say is not to be shared; both are open at the same time."""
    with serving(browser_config(tmp_path)) as (url, _), ThreadPoolExecutor(2) as threads:
        place = Place(tmp_path, url=url)
        clients = {"ann": SdkClient(1, "legacy"), "ben": SdkClient(2, "legacy")}
        talks = {
            name: threads.submit(client.converse, place, [go(f"{pages}/meet/{name}"), LOOK])
            for name, client in clients.items()
        }
        seen = {name: shown(talk.result()) for name, talk in talks.items()}

    assert {name: f"title: {name}." in text for name, text in seen.items()} == {"ann": True, "ben": True}


@pytest.mark.parametrize(("share", "is_seen"), [("all", True), ("session", False)])
def test_a_page_is_left_for_the_next_client_only_where_all_share_the_browser(share, is_seen, pages, tmp_path):
    """So that is what `share` is for."""
    with serving(browser_config(tmp_path, share=share)) as (url, _):
        place, client = Place(tmp_path, url=url), SdkClient(2, "legacy")
        client.converse(place, [go(f"{pages}/private")])
        seen = shown(client.converse(place, [LOOK]))

    assert ("title: private." in seen) == is_seen
