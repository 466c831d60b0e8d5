"""MCP with the tools of one server alone, at an address of its own; the same calls and rules behind it."""

from dataclasses import replace

from toolcrib.config.exposing import ProfileConfig
from toolcrib.core.access import NATIVE, Caller, matches
from toolcrib.core.stay import Stay
from toolcrib.crib import Crib
from toolcrib.doors.mcp.http import HttpDoor, IsCurrent, always
from toolcrib.doors.mcp.roaming import Roaming
from toolcrib.doors.mcp.service import McpService, ServerIdentity
from toolcrib.transports.http_server import Exchange, Request, answer_not_found
from toolcrib.window import Settings, Window

PATH = "/agents/servers/"


class ServerDoors:
    """One door for each server that somebody has asked for: a window on its tools, by the names they have there."""

    def __init__(
        self,
        crib: Crib,
        identity: ServerIdentity,
        caller: Caller,
        is_current: IsCurrent = always,
        roaming: Roaming | None = None,
    ) -> None:
        """``caller`` makes the requests that nobody was asked to prove."""
        self._crib, self._identity = crib, identity
        self._caller, self._is_current, self._roaming = caller, is_current, roaming
        self._doors: dict[str, HttpDoor] = {}

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Take one HTTP request; servers the caller may not reach are as good as none."""
        name = request.path.decode("latin-1").removeprefix(PATH).removesuffix("/")
        caller = request.identity if isinstance(request.identity, Caller) else self._caller
        is_there = name in self._crib.shelves or name == NATIVE
        if not is_there or not matches(name, caller.grants.servers):
            answer_not_found(request, exchange)
            return
        self._door(name).handle(request, exchange)

    def _door(self, name: str) -> HttpDoor:
        if name not in self._doors:
            shown = Window(self._crib, Settings(profile=ProfileConfig(servers=(name,), is_plain=True)), name)
            mcp = McpService(self._crib, replace(self._identity, name=name), shown)
            home = self._roaming.at(f"server/{name}") if self._roaming is not None else None
            self._doors[name] = HttpDoor(mcp, self._caller, self._is_current, home)
        return self._doors[name]

    def stays(self) -> list[Stay]:
        """The clients that are here."""
        return [stay for door in self._doors.values() for stay in door.stays()]

    def end_streams(self) -> None:
        """End the standing streams in good order."""
        for door in self._doors.values():
            door.end_streams()

    async def close(self) -> None:
        """End the streams, then what still runs."""
        for door in self._doors.values():
            await door.close()
