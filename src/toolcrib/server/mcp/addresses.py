"""MCP over HTTP at several addresses: ``/mcp`` and one below it for each profile, with a door of its own; and the same
with ``/sse`` and ``/messages`` for clients of the first HTTP transport."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from toolcrib.config.sections import ProfileConfig
from toolcrib.core.access import NATIVE, Caller, matches
from toolcrib.core.events import Stay
from toolcrib.crib.crib import Crib
from toolcrib.crib.window import Profiles, ProfileSettings, ProfileView
from toolcrib.server.mcp.http import HttpDoor, IsCurrent, always
from toolcrib.server.mcp.roaming import Roaming
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.server.mcp.sse import MESSAGES_PATH, STREAM_PATH, SseDoor
from toolcrib.transports.http.server import Exchange, Handler, HttpRequest, answer_not_found, error_body

PATH = "/mcp"
_ROOTS = tuple(path.encode() for path in (PATH, STREAM_PATH, MESSAGES_PATH))
_BELOW = tuple(root + b"/" for root in _ROOTS)


def is_mcp(path: bytes) -> bool:
    """Whether an address belongs to an MCP door."""
    return path in _ROOTS or path.startswith(_BELOW)


class Addresses:
    """Finds the door of a request; the door of a profile is made for its first client."""

    def __init__(
        self,
        windows: Profiles,
        identity: ServerIdentity,
        caller: Caller,
        is_current: IsCurrent,
        roaming: Roaming | None = None,
    ) -> None:
        self._windows, self._identity = windows, identity
        self._caller, self._is_current, self._roaming = caller, is_current, roaming
        self._doors: dict[tuple[type[HttpDoor], str], HttpDoor] = {}

    def open(self, window: ProfileView, kind: type[HttpDoor] = HttpDoor) -> HttpDoor:
        """A door that shows what this window shows, kept by the name of its profile."""
        door = self._doors.get((kind, window.name))
        if door is None:
            mcp = McpService(window, self._identity)
            address = f"profile/{window.name}" if kind is HttpDoor else f"sse/{window.name}"
            home = self._roaming.at(address) if self._roaming is not None else None
            door = self._doors[kind, window.name] = kind(mcp, self._caller, self._is_current, home)
        return door

    def at_root(self, window: ProfileView) -> Mapping[str, Handler]:
        """The handlers of the addresses without a profile's name, which show this window."""

        def handle_sse(request: HttpRequest, exchange: Exchange) -> None:
            self.open(window, SseDoor).handle(request, exchange)

        return {PATH: self.open(window).handle, STREAM_PATH: handle_sse, MESSAGES_PATH: handle_sse}

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        """Take a request below ``/mcp``, ``/sse`` or ``/messages``."""
        _, root, name = request.path.decode("latin-1").split("/", 2)
        window = self._windows.get(name) if name else None
        if window is None:
            known = ", ".join(self._windows.names) or "none"
            exchange.answer(404, error_body("HTTP_NOT_FOUND", f"There is no such profile. Profiles: {known}."))
            return
        self.open(window, HttpDoor if f"/{root}" == PATH else SseDoor).handle(request, exchange)

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


SERVER_PATH = "/agents/servers/"


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

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        """Take one HTTP request; servers the caller may not reach are as good as none."""
        name = request.path.decode("latin-1").removeprefix(SERVER_PATH).removesuffix("/")
        caller = request.identity if isinstance(request.identity, Caller) else self._caller
        is_there = name in self._crib.shelves or name == NATIVE
        if not is_there or not matches(name, caller.grants.servers):
            answer_not_found(request, exchange)
            return
        self._door(name).handle(request, exchange)

    def _door(self, name: str) -> HttpDoor:
        if name not in self._doors:
            shown = ProfileView(
                self._crib, ProfileSettings(profile=ProfileConfig(servers=(name,), is_plain=True)), name
            )
            mcp = McpService(shown, replace(self._identity, name=name))
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
