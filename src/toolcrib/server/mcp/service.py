"""The answers MCP clients get, whichever way they came in."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from msgspec import UNSET, UnsetType

from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller, Grants, Reach, decide
from toolcrib.core.requests import BackChannel, ErrorInfo, Result
from toolcrib.core.source import Missing
from toolcrib.crib.window import ProfileView
from toolcrib.wire import eras, http, messages
from toolcrib.wire.jsonrpc import (
    HTTP_STATUS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Inbound,
    RequestId,
    RpcError,
    encode,
    encode_error,
    encode_result,
)
from toolcrib.wire.messages import Asker
from toolcrib.wire.results import stamp_modern

GRANTS_MAX = 64
ENCODED_MAX = 8


class ListedRoute(Protocol):
    """What a listing needs to know of a route."""

    @property
    def reach(self) -> Reach:
        """What it asks of its callers."""

    def to_mcp(self) -> dict[str, Any]:
        """The definition under its exposed name."""


class ListedCatalog(Protocol):
    """What a listing needs to know of the catalogue."""

    @property
    def version(self) -> int:
        """Another one whenever anything changed."""

    @property
    def routes(self) -> Mapping[str, ListedRoute]:
        """By exposed name."""


R = TypeVar("R", bound=ListedRoute)


def visible(routes: Iterable[R], grants: Grants) -> list[R]:
    """The routes a caller with these grants is shown, in their order."""
    return [route for route in routes if is_visible(route, grants)]


def is_visible(route: ListedRoute, grants: Grants) -> bool:
    """Whether a caller with these grants may know of a tool."""
    return decide(grants, route.reach).is_listed


class ToolListing:
    """The tools of one version of the catalogue, as callers with the same grants see them."""

    __slots__ = ("_encoded", "_tools")

    def __init__(self, catalog: ListedCatalog, grants: Grants) -> None:
        self._tools = encode([route.to_mcp() for route in visible(catalog.routes.values(), grants)])
        self._encoded: dict[tuple[bool, Sequence[Missing]], bytes] = {}

    def encoded(self, modern: bool, missing: tuple[Missing, ...]) -> bytes:
        """The result of ``tools/list``; a list that lacks servers names them, and is not to be kept for long."""
        listing = self._encoded.get((modern, missing))
        if listing is None:
            meta = encode({messages.META_MISSING: missing}) if missing else b""
            listing = messages.listing_result(self._tools, modern=modern, meta=meta)
            if len(self._encoded) >= ENCODED_MAX:
                self._encoded.clear()
            self._encoded[modern, missing] = listing
        return listing


class Listings:
    """Listings of the present version of the catalogue, for a bounded number of different grants."""

    __slots__ = ("_everything", "_listings", "_version")

    def __init__(self) -> None:
        self._version = -1
        self._everything: ToolListing | None = None
        self._listings: dict[Grants, ToolListing] = {}

    def of(self, catalog: ListedCatalog, grants: Grants) -> ToolListing:
        """The listing for these grants; the most common ones are not even looked up."""
        if catalog.version != self._version:
            self._version, self._everything = catalog.version, None
            self._listings.clear()
        if grants is not EVERYTHING:
            return self._found(catalog, grants)
        if self._everything is None:
            self._everything = self._found(catalog, grants)
        return self._everything

    def _found(self, catalog: ListedCatalog, grants: Grants) -> ToolListing:
        listing = self._listings.get(grants)
        if listing is None:
            if len(self._listings) >= GRANTS_MAX:
                self._listings.clear()
            listing = self._listings[grants] = ToolListing(catalog, grants)
        return listing


CALL_FIELDS = frozenset({"name", "arguments", "_meta"})


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """What toolcrib says of itself to clients."""

    name: str = "toolcrib"
    version: str = ""
    instructions: str = ""

    @property
    def info(self) -> dict[str, str]:
        """As MCP's ``serverInfo``."""
        return {"name": self.name, "version": self.version}


class McpService:
    """Turns requests into encoded answers; knows nothing of pipes or sockets."""

    def __init__(self, front: ProfileView, identity: ServerIdentity) -> None:
        self.front = front
        """What is asked for everything: the tools that are shown, and their calls."""
        self.identity = identity
        self._whole, self._fronts = Listings(), Listings()
        self._modern: Mapping[str, Callable[..., Awaitable[bytes]]] = {
            "tools/list": self._list,
            "server/discover": self._discover,
        }
        self._handshake: Mapping[str, Callable[..., Awaitable[bytes]]] = {
            "tools/list": self._list,
            "ping": self._ping,
        }

    async def respond(
        self, message: Inbound, asker: Asker, channel: BackChannel, caller: Caller = LOCAL_USER
    ) -> tuple[bytes, int]:
        """The encoded answer to a request, and the HTTP status it deserves."""
        request_id = message.id if message.id is not UNSET and message.id is not None else 0
        params = messages.request_params(message)
        try:
            if message.method == "tools/call":
                result = encode_outcome(await self._call(params, asker, channel, caller), asker)
            else:
                result = await self._method(message.method, asker)(params, asker, channel, caller)
            return encode_result(request_id, result), 200
        except RpcError as error:
            return refuse(request_id, error, asker)

    def _method(self, name: str | UnsetType, asker: Asker) -> Callable[..., Awaitable[bytes]]:
        """What answers the smaller questions."""
        method = (self._modern if asker.is_modern else self._handshake).get(str(name))
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {name}")
        return method

    async def _ping(self, *_: object) -> bytes:
        return b"{}"

    async def _discover(self, *_: object) -> bytes:
        return messages.discover_result(self.identity.info, self.identity.instructions)

    def initialize(self, asker: Asker) -> bytes:
        """The answer to a handshake; a session that begins wakes what it will need."""
        self.front.wake()
        return messages.initialize_result(asker, self.identity.info, self.identity.instructions)

    async def _list(self, params: Mapping[str, Any], asker: Asker, channel: BackChannel, caller: Caller) -> bytes:
        del channel
        if params.get("cursor") is not None:
            raise RpcError(INVALID_PARAMS, "Unknown cursor: the whole list comes in one page.")
        await self.front.current()
        return self._listing(asker, caller).encoded(asker.is_modern, self.front.missing(caller.grants))

    def _listing(self, asker: Asker, caller: Caller) -> ToolListing:
        """What a client is shown: all it may use, or the front where it wants that, or where all would be too much."""
        front = self.front
        mode = front.mode_for(asker.name)
        if mode == "all" or (mode == "auto" and front.fits(caller.grants)):
            return self._whole.of(front.catalog, caller.grants)
        return self._fronts.of(front.front, caller.grants)

    def _call(self, params: Mapping[str, Any], asker: Asker, channel: BackChannel, caller: Caller) -> Awaitable[Result]:
        """Begin a call."""
        name, arguments = params.get("name"), params.get("arguments")
        if type(name) is not str:
            raise RpcError(INVALID_PARAMS, "tools/call needs the name of a tool.")
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            raise RpcError(INVALID_PARAMS, "tools/call: arguments must be an object.")
        meta = more = messages.NO_PARAMS
        if len(params) > 2 or "arguments" not in params:
            meta = messages.relayed_meta(params)
            if params.keys() - CALL_FIELDS:
                more = {key: value for key, value in params.items() if key not in CALL_FIELDS}
        call = self.front.request(name, arguments, caller, channel, None, meta, more)
        return self.front.run(call, asker.name)

    def declared_headers(self, name: str, caller: Caller) -> http.ParamHeaders:
        """Which arguments of a tool the caller sees are mirrored into headers; none if the declaration is not valid."""
        route = self.front.catalog.routes.get(name)
        if route is None or not is_visible(route, caller.grants):
            return {}
        try:
            return http.declared_headers(route.tool.input_schema)
        except ValueError:
            return {}


def encode_outcome(result: Result, asker: Asker) -> bytes:
    """A result as the client's era wants it; a server's own JSON-RPC error stays one."""
    if result.error is not None:
        _raise_rpc(result.error)
    raw = result.raw
    if raw is None:
        shown = result.mcp if result.error is None else {**result.mcp, "_meta": {"toolcrib/error": _told(result.error)}}
        raw = encode(shown)
    return stamp_modern(raw, result.result_type) if asker.is_modern else raw


def _raise_rpc(error: ErrorInfo) -> None:
    rpc_code = error.details.get("rpc_code")
    if rpc_code is not None:
        raise RpcError(rpc_code, error.message, error.details.get("data"))
    if error.code == "TOOL_NOT_FOUND":
        raise RpcError(INVALID_PARAMS, error.message, {"code": error.code, **error.details})


def _told(error: ErrorInfo) -> dict[str, Any]:
    return {"code": error.code, "retryable": error.retryable, "details": dict(error.details)}


def refuse(request_id: RequestId | None, error: RpcError, asker: Asker | None) -> tuple[bytes, int]:
    """An error answer and its HTTP status; the handshake era answers errors of requests with 200."""
    status = HTTP_STATUS.get(error.code, 200) if asker is None or asker.is_modern else 200
    return encode_error(request_id, error), status


def internal_error(request_id: RequestId | None) -> bytes:
    """The answer when toolcrib itself failed."""
    return encode_error(request_id, RpcError(INTERNAL_ERROR, "toolcrib failed to answer; its log has the details."))


def progress_token(message: Inbound) -> Any:
    """The token under which a client wants to hear of progress, ``None`` if it does not."""
    return messages.meta_of(message).get("progressToken")


def cancelled_id(message: Inbound) -> RequestId | None:
    """Which request a notification calls off; ``None`` for any other notification, or one that names none."""
    if message.method != "notifications/cancelled":
        return None
    request_id = messages.request_params(message).get("requestId")
    return request_id if type(request_id) in (int, str) else None


LISTEN = "subscriptions/listen"


def listen_filter(params: Mapping[str, Any]) -> dict[str, bool]:
    """What of a subscription toolcrib can honour."""
    wanted = params.get("notifications")
    honoured = isinstance(wanted, Mapping) and wanted.get("toolsListChanged") is True
    return {"toolsListChanged": True} if honoured else {}


def acknowledge(request_id: RequestId, honoured: Mapping[str, bool]) -> bytes:
    """Params of the first frame of a subscription."""
    return encode({"notifications": honoured, "_meta": {eras.META_SUBSCRIPTION: request_id}})


def subscription_meta(request_id: RequestId) -> bytes:
    """Params of every further frame of a subscription."""
    return encode({"_meta": {eras.META_SUBSCRIPTION: request_id}})


def listen_result(request_id: RequestId) -> bytes:
    """The end of a subscription."""
    return encode({"resultType": "complete", "_meta": {eras.META_SUBSCRIPTION: request_id}})
