"""Where ``toolcrib stdio`` joins a running toolcrib: a Unix socket that only its owner reaches.

The first line says what the client was started with. Who asks for something that this process does not serve (another
configuration, another value of a variable that the configuration refers to) is refused with the reason, and serves its
client itself. What is granted is never more than this process grants to callers without a token.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import msgspec

from toolcrib.config.environment import is_server_variable
from toolcrib.config.references import variables_of
from toolcrib.config.rules import stricter_setting
from toolcrib.config.sections import AccessConfig
from toolcrib.config.tables import SETTINGS
from toolcrib.config.values import Mismatch
from toolcrib.core.access import Caller
from toolcrib.core.events import Emit, Event, Stay
from toolcrib.project.project import Project
from toolcrib.server.identity.authentication import local_caller
from toolcrib.server.mcp.joined import JoinedDoor, ToPipe
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.stores.run_files import digest
from toolcrib.version import VERSION

HELLO_BYTES = 1024 * 1024
HELLO_S = 10.0
DRAIN_S = 5.0
"""How long calls of joined clients may take to end when this process does."""
CLIENTS_MAX = 256


class JoinRequest(msgspec.Struct, frozen=True):
    """What a ``toolcrib stdio`` was started with."""

    config: str
    user: str = ""
    is_chosen: bool = False
    profile: str = ""
    is_agent: bool = False
    level: str | None = None
    only: tuple[str, ...] | None = None
    expose: str | None = None
    env: Mapping[str, str] = {}
    """A digest of each variable's value, by the secret of the run file."""
    is_again: bool = False


class JoinAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to it."""

    joined: bool = False
    refused: str = ""
    """Why not, in words that follow ``because``."""
    is_ending: bool = False
    """Whether another one may be asked in a moment."""


@dataclass(frozen=True, slots=True)
class JoinTerms:
    """What holds for whoever joins, beside the configuration."""

    is_agent: bool = False
    profile: str = ""


class Joins:
    """The clients that joined this process."""

    def __init__(self, project: Project, terms: JoinTerms, emit: Emit) -> None:
        self._project, self._terms, self._emit = project, terms, emit
        self._services: dict[tuple[str, str], McpService] = {}
        self._server: asyncio.AbstractServer | None = None
        self._path: Path | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self.doors: set[JoinedDoor] = set()
        self.secret = ""
        """That of the run file, once it is written."""
        self.is_ending = False
        self.on_empty: Callable[[], None] = lambda: None
        """Called when the last client has left."""

    async def open(self, path: Path) -> None:
        """Begin to listen; only this user can connect, by the mode of the file and of its directory."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(before)
        self._path = path
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Greeter(self), sock=listener)

    def stays(self) -> list[Stay]:
        """The clients that are here."""
        return [door.stay() for door in self.doors]

    def answer(self, line: bytes) -> tuple[JoinAnswer, JoinedDoor | None]:
        """Whether somebody joins, and the door for them."""
        try:
            hello = msgspec.json.decode(line, type=JoinRequest)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return JoinAnswer(refused="it does not speak the same language; restart it"), None
        if self.is_ending:
            return JoinAnswer(refused="it is about to stop", is_ending=True), None
        if len(self.doors) >= CLIENTS_MAX:
            return JoinAnswer(refused=f"it has {CLIENTS_MAX} clients"), None
        refused = next(self._objections(hello), None)
        if refused is not None:
            return JoinAnswer(refused=refused), None
        door = JoinedDoor(self._service(hello), self._caller(hello), is_again=hello.is_again, on_end=self._see_off)
        self.doors.add(door)
        return JoinAnswer(joined=True), door

    def _objections(self, hello: JoinRequest) -> Iterator[str]:
        """Why a client cannot be served here as it would be alone."""
        loaded, env = self._project.loaded, self._project.around.env
        if (hello.config, hello.user, hello.is_chosen) != (
            str(self._project.file.resolve()),
            str(loaded.user or ""),
            loaded.is_chosen,
        ):
            yield "it serves another configuration"
        if hello.profile and hello.profile not in self._project.windows.names:
            yield f"it has no profile {hello.profile!r}"
        with suppress(Mismatch):
            _access(loaded.config.access, hello)
            if hello.expose:
                SETTINGS["expose.mode"].read(hello.expose)
            yield from self._differences(hello, env)
            return
        yield "it does not know one of the options"

    def _differences(self, hello: JoinRequest, env: Mapping[str, str]) -> Iterator[str]:
        """Variables that mean something else there; one the client does not have means nothing to it."""
        here = self._project.around.variables
        for name in sorted(variables_of(self._project.config)):
            theirs, meant = hello.env.get(name), here.get(name, "")
            same = {meant, "" if meant == here.secret(name) else meant}  # an empty one means the secret that is kept
            if theirs is not None and theirs not in {digest(self.secret, name, value) for value in same}:
                yield f"{name} has another value there"
        for name in sorted({*hello.env, *env}):
            if is_server_variable(name, self._project.config.servers) and hello.env.get(name) != (
                digest(self.secret, name, env[name]) if name in env else None
            ):
                yield f"{name} has another value there"

    def _caller(self, hello: JoinRequest) -> Caller:
        access = _access(self._project.config.access, hello)
        return local_caller(access, is_agent=hello.is_agent or self._terms.is_agent)

    def _service(self, hello: JoinRequest) -> McpService:
        """What the client is shown; clients that are shown the same share it."""
        shown = hello.profile or self._terms.profile, hello.expose or ""
        if shown not in self._services:
            window = self._project.windows.need(*shown)
            self._services[shown] = McpService(window, ServerIdentity(version=VERSION))
        return self._services[shown]

    def _see_off(self, door: JoinedDoor) -> None:
        if door not in self.doors:
            return
        self.doors.discard(door)
        task = asyncio.get_running_loop().create_task(door.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        if not self.doors:
            self.on_empty()

    async def close(self, *, is_followed: bool) -> None:
        """Take nobody else, let everybody finish what is under way, then end them."""
        self.is_ending = True
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            _remove(self._path)
        doors = list(self.doors)
        for door in doors:
            door.say(ToPipe(bye=True, again=is_followed))
        waits = [asyncio.ensure_future(door.finished()) for door in doors]
        if waits:
            self._emit(Event("serve.draining", "info", {"seconds": DRAIN_S}))
            await asyncio.wait(waits, timeout=DRAIN_S)
            for wait in waits:
                wait.cancel()
        for door in list(self.doors):
            self._see_off(door)
        await asyncio.gather(*self._ending, return_exceptions=True)


def _access(access: AccessConfig, hello: JoinRequest) -> AccessConfig:
    """What is granted: the stricter of what holds here and what the client was started with."""
    said = {"level": hello.level, "tools": hello.only}
    given = {
        name: stricter_setting(
            f"access.{name}",
            getattr(access, name),
            SETTINGS[f"access.{name}"].read(list(value) if isinstance(value, tuple) else value),
        )
        for name, value in said.items()
        if value is not None
    }
    return replace(access, **given)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    if path.parent.name.startswith("toolcrib-"):  # made for this one socket
        with suppress(OSError):
            path.parent.rmdir()


class _Greeter(asyncio.Protocol):
    """Reads the first line of a connection, then leaves it to a door."""

    def __init__(self, joins: Joins) -> None:
        self._joins = joins
        self._kept = bytearray()
        self._transport: asyncio.Transport | None = None
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Look who it is: where the kernel tells, nobody but this user."""
        self._transport = cast("asyncio.Transport", transport)
        peer = _peer_uid(transport.get_extra_info("socket"))
        if peer is not None and peer != os.geteuid():
            self._transport.abort()
            return
        self._late = asyncio.get_running_loop().call_later(HELLO_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever it was has left."""
        del exc
        if self._late is not None:
            self._late.cancel()

    def data_received(self, data: bytes) -> None:
        """Take bytes up to the end of the first line."""
        transport = self._transport
        assert transport is not None
        self._kept += data
        line, newline, rest = bytes(self._kept).partition(b"\n")
        if not newline:
            if len(self._kept) > HELLO_BYTES:
                transport.abort()
            return
        if self._late is not None:
            self._late.cancel()
        welcome, door = self._joins.answer(line)
        transport.write(msgspec.json.encode(welcome) + b"\n")
        if door is None:
            transport.close()
            return
        transport.set_protocol(door)
        door.take_over(transport)
        if rest:
            door.data_received(rest)


def _peer_uid(connection: socket.socket | None) -> int | None:
    if connection is None or not hasattr(socket, "SO_PEERCRED"):
        return None
    return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
