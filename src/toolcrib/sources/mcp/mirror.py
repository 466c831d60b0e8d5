"""A transparent server and its clients: each side is shown the other as it is.

A client's session has a lane of its own there, opened under the client's own name and capabilities. Its requests keep
their ids and progress tokens, its notifications reach the server, and what the server says unasked reaches the client.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from toolcrib.core.access import Caller
from toolcrib.core.errors import RateLimited
from toolcrib.core.kinds import Share
from toolcrib.core.requests import BackChannel, Request
from toolcrib.core.source import ClientSide, Lane, ServerSide
from toolcrib.sources.mcp.lanes import Lanes
from toolcrib.sources.mcp.link import OWN_IDS, ServerRequest
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.wire import eras, messages
from toolcrib.wire.jsonrpc import RequestId, encode

LISTEN = "subscriptions/listen"
LISTENING_MAX = 1024
LIST_KEPT_S = 5.0
SERVED_MAX = 10_000
_object = msgspec.json.Decoder(dict[str, Any])


class ClientMirror:
    """The clients of one transparent server, by their sessions."""

    def __init__(self, server: str, offer: ClientIdentity, main: Supervisor) -> None:
        self._server, self._offer, self._main = server, offer, main
        self._lanes: Lanes | None = None
        self._clients: dict[str, ClientSide] = {}
        self._listening = 0
        self._listed_at = float("-inf")
        self._served: set[tuple[str, str, str]] = set()
        """Who was shown which list since the server was last asked for it."""

    @property
    def info(self) -> Mapping[str, Any]:
        """What the server calls itself; empty while that is not known."""
        return self._main.agreed.server_info

    def note_asked(self) -> None:
        """The server is asked for what it offers."""
        self._listed_at = self._main.now()
        self._served.clear()

    def is_due(self, caller: Caller, method: str) -> bool:
        """Whether the server must be asked again before a client is shown a list: it need not say that one changed."""
        is_old = self._main.now() - self._listed_at > LIST_KEPT_S
        return is_old or (caller.id, caller.session, method) in self._served

    def note_served(self, caller: Caller, method: str) -> None:
        """A client was shown a list; when it asks again, it wants to know what is new."""
        if len(self._served) < SERVED_MAX:
            self._served.add((caller.id, caller.session, method))

    def use(self, lanes: Lanes) -> None:
        """Let clients be met in these lanes."""
        self._lanes = lanes

    def _lane_of(self, caller: Caller) -> Supervisor:
        assert self._lanes is not None
        return self._lanes.of(caller)

    async def meet(self, caller: Caller, client: ClientSide) -> ServerSide:
        """Connect as the client, and give what the server then says of itself."""
        if caller.session:
            self._clients[caller.session] = client
        lane = self._lane_of(caller)
        await lane.link()
        agreed = lane.agreed
        return ServerSide(agreed.server_info, agreed.capabilities)

    def leave(self, session: str) -> None:
        """The client's session is over."""
        self._clients.pop(session, None)

    def prepare(self, lane: Lane, supervisor: Supervisor) -> None:
        """Have a new lane connect as its client, and tell it what nobody asked for."""
        client = self._clients.get(lane.session)
        if client is not None:
            usable = self._offer.asking.within(client.capabilities)
            supervisor.offer = replace(self._offer, info=client.info, capabilities=usable)
        supervisor.first_id, supervisor.stray = OWN_IDS, lambda method, params: self._tell(lane, method, params)

    def _tell(self, lane: Lane, method: str, params: bytes) -> None:
        client = self._clients.get(lane.session)
        if client is not None and client.tell is not None:
            with suppress(msgspec.DecodeError):
                client.tell(method, _object.decode(params))

    def meta(self, said: Mapping[str, Any], lane: Supervisor, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """The ``_meta`` of a client's request as the server gets it: what the client said, and what the server's era
        needs."""
        if not eras.is_modern(lane.remembered):
            return {key: value for key, value in said.items() if key not in eras.META_RESERVED}
        info = said.get(eras.META_CLIENT_INFO) or lane.offer.info
        return {**said, **messages.modern_meta(info, self._offer.asking.within(capabilities))}

    def token(self, call: Request) -> RequestId | None:
        """The token by which a client hears of progress, where no other client's can be the same."""
        caller, token = call.caller, call.meta.get("progressToken")
        is_alone = caller.session and self._lanes is not None and self._lanes.sharing.share is Share.SESSION
        return token if is_alone and isinstance(token, int | str) else None

    def hear(self, caller: Caller, method: str, params: Mapping[str, Any]) -> None:
        """Pass a client's notification on; one that comes while there is no connection is lost."""
        lane = self._lane_of(caller)
        link = lane.use()
        if link is not None:
            link.tell(method, encode(params))

    async def listen(
        self, caller: Caller, channel: BackChannel, params: Mapping[str, Any], asked_as: RequestId
    ) -> bytes:
        """Pass a subscription on: all that is said on it reaches the client, and so does its end."""
        if self._listening >= LISTENING_MAX:
            raise RateLimited(f"Too many subscriptions at server {self._server!r}.")
        lane = self._lane_of(caller)
        link = lane.use() or await lane.link()
        request_id = link.claim_id(asked_as)
        said = messages.request_meta(params)
        encoded = encode({**params, "_meta": self.meta(said, lane, channel.capabilities)})
        way = channel if request_id == asked_as else _Renamed(channel, asked_as)
        question = ServerRequest(request_id, LISTEN, encoded, channel=way, version=lane.remembered, caller=caller)
        self._listening += 1
        try:
            raw = bytes(await link.ask(question))
        finally:
            self._listening -= 1
        return raw if request_id == asked_as else _renamed(raw, asked_as)

    def speaks_modern(self, caller: Caller) -> bool:
        """Whether the server takes subscriptions of the stateless era."""
        return eras.is_modern(self._lane_of(caller).remembered)


class _Renamed:
    """The way back of a subscription whose id another client uses, too: what is said on it names the client's id."""

    takes_input_required, wants_progress, log_level = True, False, ""

    def __init__(self, channel: BackChannel, asked_as: RequestId) -> None:
        self._channel, self._asked_as = channel, asked_as
        self.capabilities = channel.capabilities

    def notify(self, method: str, params: bytes) -> None:
        """Tell the client."""
        with suppress(msgspec.DecodeError):
            self._channel.notify(method, _renamed(params, self._asked_as))

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client."""
        return await self._channel.ask(method, params)


def _renamed(params: bytes, asked_as: RequestId) -> bytes:
    said = _object.decode(params)
    meta = said.get("_meta")
    kept = meta if isinstance(meta, dict) else {}
    return encode({**said, "_meta": {**kept, eras.META_SUBSCRIPTION: asked_as}})
