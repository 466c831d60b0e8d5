"""How a command finds the toolcrib that serves its project, and what whoever else listens there learns: nothing."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from toolcrib.core.access import EVERYTHING, OWNER_ID, Caller
from toolcrib.core.errors import PermissionDenied, SourceUnavailable
from toolcrib.server.identity.run_proof import KEPT_S, PREFIX, RunProof
from toolcrib.server.remote import Remote, open_remote
from toolcrib.stores.paths import Environment
from toolcrib.stores.run_files import OwnRunFile, RunFiles, RunOffer
from toolcrib.transports.http.guard import GuardPolicy
from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer

OWNER = Caller(OWNER_ID, "token", EVERYTHING)
TOKEN = "the-owners-own-token"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a token, at work in a project."""
    for name, folder in (("HOME", ""), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("TOOLCRIB_TOKEN", TOKEN)
    enter(monkeypatch, tmp_path / "project")
    return tmp_path


def enter(monkeypatch: pytest.MonkeyPatch, project: Path) -> Path:
    project.mkdir(exist_ok=True)
    (project / "toolcrib.toml").touch()
    monkeypatch.chdir(project)
    return project / "toolcrib.toml"


def find(address: str | None = None) -> Remote:
    return open_remote(address, None, Environment())


def runs() -> RunFiles:
    return RunFiles(os.environ)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Crib:
    """Enough of a serving toolcrib: it proves itself, and says who asks."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.proof = RunProof(OWNER, self.clock)
        self.bearers: list[bytes] = []
        policy = GuardPolicy(identify=self.identify, open_paths=frozenset({"/prove"}))
        self.server = HttpServer({"/prove": self.proof.handle, "/who": self.who}, policy=policy)

    def identify(self, presented: bytes) -> Caller | None:
        self.bearers.append(presented)
        return self.proof.identify(presented) if presented.startswith(PREFIX) else None

    def who(self, request: HttpRequest, exchange: Exchange) -> None:
        exchange.answer(200, msgspec.json.encode({"caller": request.identity.id, "at": self.server.port}))


@asynccontextmanager
async def serving(config: Path) -> AsyncIterator[tuple[Crib, OwnRunFile]]:
    crib = Crib()
    await crib.server.start("127.0.0.1", 0)
    run = runs().write(RunOffer(crib.server.local_url, config.resolve(), "1"))
    crib.proof.open(run.entry)
    try:
        yield crib, run
    finally:
        run.remove()
        await crib.server.close(0)


@asynccontextmanager
async def stranger(answer: bytes = b"") -> AsyncIterator[tuple[int, bytearray]]:
    """Somebody else on a port, who writes down every byte that comes."""
    received = bytearray()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            received.extend(data)
            writer.write(answer or b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], received
    finally:
        server.close()


async def ask(remote: Remote) -> dict[str, object]:
    try:
        return await remote.send("GET", "/who")
    finally:
        await remote.close()


async def test_a_command_is_the_owner_without_sending_a_token(home: Path):
    async with serving(home / "project" / "toolcrib.toml") as (crib, run):
        told = await ask(find())

    assert told == {"caller": OWNER_ID, "at": crib.server.port}
    assert all(TOKEN.encode() not in bearer and run.entry.secret.encode() not in bearer for bearer in crib.bearers)


async def test_two_projects_find_their_own(home: Path, monkeypatch: pytest.MonkeyPatch):
    one, two = home / "project" / "toolcrib.toml", home / "other" / "toolcrib.toml"
    async with serving(one) as (first, _), serving(two) as (second, _):
        found = [(await ask(find()))["at"]]
        enter(monkeypatch, home / "other")
        found.append((await ask(find()))["at"])

    assert found == [first.server.port, second.server.port]


async def test_without_a_run_file_nobody_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever listens on the configured port."""
    async with stranger() as (port, received):
        monkeypatch.setenv("TOOLCRIB_PORT", str(port))
        with pytest.raises(SourceUnavailable, match="No toolcrib serves"):
            find()

    assert received == b""


async def test_a_stranger_on_the_port_of_a_run_file_learns_nothing(home: Path):
    """Neither token nor secret nor a code that would be worth something; nothing is asked of it."""
    async with stranger() as (port, received):
        run = runs().write(RunOffer(f"http://127.0.0.1:{port}", home / "project" / "toolcrib.toml", "1"))
        with pytest.raises(SourceUnavailable, match="nothing was sent"):
            await ask(find())

    assert received.startswith(b"GET /prove?number=")
    assert received.count(b"\r\n\r\n") == 1
    assert b"authorization" not in received.lower()
    assert TOKEN.encode() not in received
    assert run.entry.secret.encode() not in received


async def test_a_proof_fetched_from_the_real_one_proves_nothing_elsewhere(home: Path):
    """A stranger that passes the question on gets the code of another address."""
    async with serving(home / "project" / "toolcrib.toml") as (crib, run), stranger() as (port, _):
        elsewhere = run.entry._replace(url=f"http://127.0.0.1:{port}")

        assert run.entry.code("server", "1") != elsewhere.code("server", "1")
        assert crib.proof.identify(f"run.1500-1.{elsewhere.code('client', '1500-1')}".encode()) is None


async def test_the_token_goes_where_the_user_says(home: Path):
    """An address that was given by hand is trusted; one of a run file proves itself all the same."""
    async with stranger() as (port, received), serving(home / "project" / "toolcrib.toml") as (crib, _):
        await ask(find(f"http://127.0.0.1:{port}/mcp"))
        told = await ask(find(f"{crib.server.local_url}/mcp"))

    assert f"authorization: Bearer {TOKEN}".encode() in received
    assert told["caller"] == OWNER_ID
    assert TOKEN.encode() not in b"".join(crib.bearers)


async def test_what_was_proven_is_forgotten_and_proven_again(home: Path):
    """A command that waits for hours goes on."""
    async with serving(home / "project" / "toolcrib.toml") as (crib, _):
        remote = find()
        await remote.send("GET", "/who")
        crib.clock.now += KEPT_S + 1
        told = await ask(remote)

    assert told["caller"] == OWNER_ID
    assert len(set(crib.bearers)) == 2


async def test_a_wrong_code_is_nobodys(home: Path):
    async with serving(home / "project" / "toolcrib.toml") as (crib, run):
        wrong = run.entry._replace(secret="0" * 64)
        run.path.write_bytes(msgspec.json.encode(wrong._asdict()))
        with pytest.raises(SourceUnavailable, match="nothing was sent"):
            await ask(find())
        remote = Remote(crib.server.local_url, Fixed("run.1.2"))
        with pytest.raises(PermissionDenied, match="401"):
            await ask(remote)


class Fixed:
    def __init__(self, bearer: str) -> None:
        self._bearer = bearer

    async def bearer(self, pool: object) -> str:
        return self._bearer


@pytest.mark.parametrize("end", ["", "-1", "0", "999", "1601", "9" * 40, "\u00b2"])
async def test_a_number_counts_for_a_while_only(home: Path, end: str):
    """Not before it was given, not after it ended, not for longer than one is given."""
    async with serving(home / "project" / "toolcrib.toml") as (crib, run):
        number = f"{end}-x"
        presented = f"run.{number}.{run.entry.code('client', number)}".encode("latin-1")
        good = f"run.1600-x.{run.entry.code('client', '1600-x')}".encode()

        assert crib.proof.identify(good) is OWNER
        assert crib.proof.identify(presented) is None
