"""MCP with the tools of one server alone, at an address of its own; the same catalogue, calls and rules behind it."""

from dataclasses import replace

from toolcrib.core.access import NATIVE, NOTHING, Caller, matches
from toolcrib.core.stay import Stay
from toolcrib.doors.mcp.http import HttpDoor, IsCurrent, always
from toolcrib.doors.mcp.service import McpService
from toolcrib.transports.http_server import Exchange, Request, answer_not_found

PATH = "/agents/servers/"
CALLERS_MAX = 10_000


class ServerDoors:
    """One door for each server that somebody has asked for."""

    def __init__(self, mcp: McpService, caller: Caller, is_current: IsCurrent = always) -> None:
        """``caller`` makes the requests that nobody was asked to prove."""
        self._mcp, self._caller, self._is_current = mcp, caller, is_current
        self._doors: dict[str, HttpDoor] = {}
        self._narrow: dict[tuple[Caller, str], Caller] = {}
        self._whole: dict[Caller, Caller] = {}

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Take one HTTP request; servers the caller may not reach are as good as none."""
        name = request.path.decode("latin-1").removeprefix(PATH).removesuffix("/")
        caller = request.identity if isinstance(request.identity, Caller) else self._caller
        if not self._is_there(name) or not matches(name, caller.grants.servers):
            answer_not_found(request, exchange)
            return
        request.identity = self._within(caller, name)
        self._door(name).handle(request, exchange)

    def _is_there(self, name: str) -> bool:
        crib = self._mcp.crib
        return name in crib.shelves or name == NATIVE

    def _door(self, name: str) -> HttpDoor:
        if name not in self._doors:
            mcp = McpService(self._mcp.crib, replace(self._mcp.identity, name=name), name)
            self._doors[name] = HttpDoor(mcp, replace(self._caller, grants=NOTHING), self._may_stay)
        return self._doors[name]

    def _within(self, caller: Caller, name: str) -> Caller:
        """The caller, with the reach of this address."""
        known = self._narrow.get((caller, name))
        if known is not None:
            return known
        if len(self._narrow) >= CALLERS_MAX:
            self._narrow = {key: narrow for key, narrow in self._narrow.items() if self._is_current(key[0])}
            self._whole = {narrow: key[0] for key, narrow in self._narrow.items()}
        narrow = replace(caller, grants=replace(caller.grants, servers=(name,)))
        self._narrow[caller, name], self._whole[narrow] = narrow, caller
        return narrow

    def _may_stay(self, caller: Caller) -> bool:
        whole = self._whole.get(replace(caller, session=""))
        return whole is not None and self._is_current(whole)

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
