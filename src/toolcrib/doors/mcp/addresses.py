"""MCP over HTTP at several addresses: ``/mcp`` and one below it for each profile, with a door of its own."""

from collections.abc import Iterator

from toolcrib.core.access import Caller
from toolcrib.core.stay import Stay
from toolcrib.doors.mcp.http import HttpDoor, IsCurrent
from toolcrib.doors.mcp.roaming import Roaming
from toolcrib.doors.mcp.service import McpService, ServerIdentity
from toolcrib.transports.http_server import Exchange, Request, error_body
from toolcrib.window import Window, Windows

PATH = "/mcp"
_BELOW = f"{PATH}/".encode()


def is_mcp(path: bytes) -> bool:
    """Whether an address belongs to an MCP door."""
    return path == PATH.encode() or path.startswith(_BELOW)


class Addresses:
    """Finds the door of a request; the door of a profile is made for its first client."""

    def __init__(
        self,
        windows: Windows,
        identity: ServerIdentity,
        caller: Caller,
        is_current: IsCurrent,
        roaming: Roaming | None = None,
    ) -> None:
        self._windows, self._identity = windows, identity
        self._caller, self._is_current, self._roaming = caller, is_current, roaming
        self._doors: dict[str, HttpDoor] = {}

    def open(self, window: Window) -> HttpDoor:
        """A door that shows what this window shows, kept by the name of its profile."""
        door = self._doors.get(window.name)
        if door is None:
            mcp = McpService(window.crib, self._identity, window)
            home = self._roaming.at(f"profile/{window.name}") if self._roaming is not None else None
            door = self._doors[window.name] = HttpDoor(mcp, self._caller, self._is_current, home)
        return door

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Take a request below ``/mcp``."""
        name = request.path.removeprefix(_BELOW).decode("latin-1")
        window = self._windows.get(name) if name else None
        if window is None:
            known = ", ".join(self._windows.names) or "none"
            exchange.answer(404, error_body("HTTP_NOT_FOUND", f"There is no such profile. Profiles: {known}."))
            return
        self.open(window).handle(request, exchange)

    def _all(self) -> Iterator[HttpDoor]:
        yield from self._doors.values()

    def stays(self) -> list[Stay]:
        """The clients that are here, whatever they are shown."""
        return [stay for door in self._all() for stay in door.stays()]

    def end_streams(self) -> None:
        """End the standing streams in good order."""
        for door in self._all():
            door.end_streams()

    async def close(self) -> None:
        """End the doors, then what still runs behind them."""
        for door in self._all():
            await door.close()
