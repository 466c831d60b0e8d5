"""The answers MCP clients get, whichever way they came in."""

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET, UnsetType

from toolcrib.catalog.entries import completions_of
from toolcrib.core.access import LOCAL_USER, Caller, Grants
from toolcrib.core.errors import InvalidArguments, RemoteError, ToolcribError
from toolcrib.core.names import name_of_alias
from toolcrib.core.offers import OfferKind, RequestKind, offer_key
from toolcrib.core.requests import BackChannel, Result
from toolcrib.core.source import ClientSide
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.channel import ClientChannel
from toolcrib.server.mcp.greeting import announced, is_announced, join_instructions, speaks_apps
from toolcrib.server.mcp.listings import LISTS, Listings, OfferListing, is_visible
from toolcrib.server.mcp.news import LISTEN, ClientNews, NewsClient, wanted_of
from toolcrib.server.mcp.outcomes import Asked, Method, as_not_found, encode_outcome, raise_rpc, told
from toolcrib.server.mcp.parking import ParkingLot, is_retry
from toolcrib.server.mcp.tasks import TaskMethods
from toolcrib.wire import http, messages
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
from toolcrib.wire.results import sign, stamp_modern

SIGNED = frozenset({*LISTS, "server/discover"})
"""What says by itself who answers."""


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
        self.identity, self._info = identity, encode(identity.info)
        crib = front.crib
        patience_s, fleet = crib.loaded.config.security.ask_timeout_s, crib.fleet
        self.lot = ParkingLot(crib.seal, patience_s, fleet.replica if fleet is not None else "", front.name)
        """Calls that wait for their clients' answers."""
        self.tasks = TaskMethods(front)
        """Calls that are answered later."""
        pages, long_servers = front.pages, self.tasks.long_servers
        self._whole, self._for_models = (Listings(long_servers, pages, has_apps=flag) for flag in (True, False))
        self._fronts = Listings(long_servers)
        both: Mapping[str, Method] = {
            **dict.fromkeys(LISTS, self._list),
            "resources/read": self._read,
            "prompts/get": self._get,
            "skills/get": self._get_skill,
            "resources/directory/read": self._browse,
            "completion/complete": self._complete,
        }
        own = {"server/discover": self._discover, LISTEN: self._pass_listening}
        self._modern: Mapping[str, Method] = {**both, **self.tasks.modern, **own}
        self._handshake: Mapping[str, Method] = {
            **both,
            **self.tasks.handshake,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    async def respond(
        self, message: Inbound, asker: Asker, channel: BackChannel, caller: Caller = LOCAL_USER
    ) -> tuple[bytes, int]:
        """The encoded answer to a request, and the HTTP status it deserves."""
        request_id = message.id if message.id is not UNSET and message.id is not None else 0
        params = messages.request_params(message)
        try:
            if "requestState" in params and asker.is_modern and is_retry(params):
                return await self.lot.resume(message, caller, channel.notify)
            if message.method == "tools/call":
                result = encode_outcome(await self._call(params, asker, channel, caller), asker)
            else:
                method = self._method(message.method, asker)
                result = await method(Asked(str(message.method), params, asker, channel, caller))
            is_signed = not asker.is_modern or message.method in SIGNED
            return encode_result(request_id, result if is_signed else sign(result, self._signature())), 200
        except RpcError as error:
            return refuse(request_id, error, asker)

    def _method(self, name: str | UnsetType, asker: Asker) -> Method:
        """What answers everything but calls."""
        method = (self._modern if asker.is_modern else self._handshake).get(str(name))
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {name}")
        return method

    def _signature(self) -> bytes:
        """Who answers, as MCP's ``serverInfo``: toolcrib, or the server that it stands in front of."""
        mirror = self.front.mirror
        return encode(mirror.info) if mirror is not None and mirror.info else self._info

    async def _ping(self, asked: Asked) -> bytes:
        del asked
        return b"{}"

    async def _discover(self, asked: Asked) -> bytes:
        return messages.discover_result(await self._greet(asked.caller, asked.asker))

    async def _set_level(self, asked: Asked) -> bytes:
        self._need("logging" in self._capabilities(), asked)
        level = messages.LogLevel(asked.params.get("level")).name
        if not level:
            raise RpcError(INVALID_PARAMS, f"The level is one of {', '.join(messages.LOG_LEVELS)}.")
        asked.asker.log.name = level
        return b"{}"

    async def _subscribe(self, asked: Asked) -> bytes:
        self._need("subscribe" in self._capabilities().get("resources", {"subscribe": True}), asked)
        uri, client = _uri_of(asked), _client_of(asked)
        client.news = client.news or ClientNews(self.front, client.tell)
        try:
            await client.news.subscribe(uri, asked.caller)
        except RpcError as error:
            raise as_not_found(error, uri, asked.asker) from None
        return b"{}"

    @staticmethod
    def _need(is_announced: bool, asked: Asked) -> None:
        """What is not announced is not there."""
        if not is_announced:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", asked.method)

    async def _unsubscribe(self, asked: Asked) -> bytes:
        uri, client = _uri_of(asked), _client_of(asked)
        if client.news is not None:
            client.news.unsubscribe(uri)
        return b"{}"

    async def initialize(self, asker: Asker, caller: Caller = LOCAL_USER, client: NewsClient | None = None) -> bytes:
        """The answer to a handshake. It is the only word on what there is and how to use it that the client will hear,
        so servers nobody has heard of are waited for here instead of at the first list."""
        return messages.initialize_result(asker, await self._greet(caller, asker, client))

    async def _greet(self, caller: Caller, asker: Asker, client: NewsClient | None = None) -> messages.Greeting:
        """What a client is told first; of a transparent server, what that tells this very client."""
        await self.front.current()
        greeting, mirror = self._greeting(caller, asker), self.front.mirror
        if mirror is None:
            return greeting
        info = asker.info if isinstance(asker.info, Mapping) else {}
        with suppress(ToolcribError):  # where it cannot be met there is still what is known of it
            met = await mirror.meet(caller, ClientSide(info, asker.capabilities, client.tell if client else None))
            return replace(greeting, info=met.info or greeting.info, capabilities=met.capabilities)
        return greeting

    def hear(self, message: Inbound, caller: Caller) -> None:
        """Pass a client's notification on to a transparent server, if it is not one that toolcrib acts on itself. What
        only lacks an id is none: a server may do all the same what it says, and no rule was asked."""
        mirror, method = self.front.mirror, str(message.method)
        if mirror is not None and method.startswith("notifications/") and method not in OWN_NOTICES:
            with suppress(ToolcribError):
                mirror.hear(caller, method, messages.request_params(message))

    async def passes_listening(self, message: Inbound, caller: Caller) -> bool:
        """Whether a subscription is the server's own to keep: where that is transparent, and of the same era."""
        if self.front.mirror is None or wanted_of(messages.request_params(message), "taskIds") is not None:
            return False
        await self.front.current()
        with suppress(ToolcribError):
            return self.front.mirror.speaks_modern(caller)
        return False

    async def _pass_listening(self, asked: Asked) -> bytes:
        """Pass a subscription on, to those of its resources that the caller may know of."""
        mirror, wanted = self.front.mirror, asked.params.get("notifications")
        if mirror is None or not isinstance(wanted, Mapping):
            raise RpcError(INVALID_PARAMS, f"{asked.method} needs the notifications that are wanted.")
        uris = wanted_of(asked.params, "resourceSubscriptions")
        shown = [uri for uri in uris if self._may_watch(uri, asked.caller)] if isinstance(uris, list) else []
        granted = {**wanted, "resourceSubscriptions": shown} if uris is not None else wanted
        try:
            params = {**asked.params, "notifications": granted}
            return await mirror.listen(asked.caller, asked.channel, params, _asked_as(asked.channel) or 0)
        except RemoteError as error:
            raise RpcError(error.rpc_code, error.message, error.data) from None
        except ToolcribError as error:
            raise RpcError(INTERNAL_ERROR, str(error), {"code": error.code}) from None

    def _may_watch(self, uri: object, caller: Caller) -> bool:
        with suppress(ToolcribError):
            return isinstance(uri, str) and self.front.find_resource(uri, caller) is not None
        return False

    def _greeting(self, caller: Caller, asker: Asker) -> messages.Greeting:
        front = self.front
        texts = front.instructions(caller.grants)
        return messages.Greeting(
            self.identity.info,
            self.tasks.announce(self._capabilities(), asker),
            join_instructions(self.identity.instructions, texts, is_alone=front.is_of_one_server),
            not front.is_partial,
        )

    def _capabilities(self) -> dict[str, Any]:
        return announced(self.front.catalog, self.front.features, is_whole=not self.front.is_partial)

    async def _list(self, asked: Asked) -> bytes:
        await self.front.current()
        mirror = self.front.mirror
        if mirror is not None and not asked.params.get("cursor"):
            if mirror.is_due(asked.caller, asked.method):
                await self.front.ask_again()
            mirror.note_served(asked.caller, asked.method)
        if isinstance(asked.channel, ClientChannel) and asked.channel.client is not None:
            asked.channel.client.note_listed(asked.method)
        cursor = "" if asked.params.get("cursor") is None else asked.params["cursor"]
        asker, grants, kind = asked.asker, asked.caller.grants, LISTS[asked.method]
        is_strict = asker.is_modern or kind is OfferKind.SKILL  # no client of the handshake era tries these unasked
        if is_strict and not is_announced(kind, self._capabilities()):
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {asked.method}")  # what is not announced is not there
        is_tools = kind is OfferKind.TOOL
        listing = self._tools(asker, grants) if is_tools else self._whole.of_kind(self.front.catalog, grants, kind)
        info = self._signature() if asker.is_modern else b""
        is_one, ttl_s, ttl_ms = type(cursor) is str, self.front.ttl_s, messages.LISTING_TTL_MS
        ttl_ms = ttl_ms if ttl_s is None else min(ttl_ms, int(ttl_s * 1000))
        page = listing.encoded(info, self.front.missing(grants), ttl_ms, cursor) if is_one else None
        if page is None:
            raise RpcError(INVALID_PARAMS, "Unknown cursor. Ask for the list without one.")
        return page

    def _tools(self, asker: Asker, grants: Grants) -> OfferListing:
        """What a client is shown: all it may use, or the front where it wants that, or where all would be too much."""
        front = self.front
        mode = front.mode_for(asker.name)
        if mode == "all" or (mode == "auto" and front.fits(grants)):
            listings = self._whole if speaks_apps(asker) else self._for_models
            return listings.of(front.catalog, grants, front.reading_tools(grants))
        return self._fronts.of(front.front, grants, front.reading_tools(grants))

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
        mirror = self.front.mirror
        meta = _traced(meta, channel) if mirror is None else messages.mirrored_meta(params)
        call = self.front.request(name, arguments, caller, channel, None, meta, more)
        if mirror is not None:
            call.context.asked_as = _asked_as(channel)
        if "task" in more or (asker.is_modern and "extensions" in asker.capabilities):
            client = channel.client if isinstance(channel, ClientChannel) else None
            return self.tasks.run(call, asker, client.tell if client is not None else None)
        return self.front.run(call, asker.name)

    async def _read(self, asked: Asked) -> bytes:
        uri = _uri_of(asked)
        try:
            return await self._answer(asked, self.front.crib.resource_name(uri), {}, RequestKind.READ)
        except RpcError as error:
            raise error if self.front.mirror is not None else as_not_found(error, uri, asked.asker) from None

    async def _get(self, asked: Asked) -> bytes:
        name, arguments = asked.params.get("name"), asked.params.get("arguments")
        if type(name) is not str:
            raise RpcError(INVALID_PARAMS, "prompts/get needs the name of a prompt.")
        if arguments is not None and type(arguments) is not dict:
            raise RpcError(INVALID_PARAMS, "prompts/get: arguments must be an object.")
        return await self._answer(asked, name, arguments or {}, RequestKind.GET)

    async def _get_skill(self, asked: Asked) -> bytes:
        uri = _uri_of(asked)
        catalog = await self.front.current()
        route = catalog.others.get(offer_key(OfferKind.SKILL, self.front.crib.resource_name(uri)))
        if route is None or not is_visible(route, asked.caller.grants):
            raise RpcError(INVALID_PARAMS, f"There is no skill {uri[:200]!r}.", {"uri": uri})
        raw = encode({"skill": route.to_mcp()})
        return stamp_modern(messages.uncached(raw), "") if asked.asker.is_modern else raw

    async def _browse(self, asked: Asked) -> bytes:
        uri, cursor = _uri_of(asked), asked.params.get("cursor")
        arguments = {"cursor": cursor} if isinstance(cursor, str) else {}
        return await self._answer(asked, self.front.crib.resource_name(uri), arguments, RequestKind.BROWSE)

    async def _complete(self, asked: Asked) -> bytes:
        ref, given = asked.params.get("ref"), asked.params.get("argument")
        if not isinstance(ref, Mapping) or not isinstance(given, Mapping):
            raise RpcError(INVALID_PARAMS, "completion/complete needs a ref and an argument.")
        uri, name = ref.get("uri"), ref.get("name")
        if ref.get("type") == "ref/tool" and isinstance(name, str):
            return await self._complete_tool(asked, name, given)
        if ref.get("type") == "ref/resource" and isinstance(uri, str):
            name = self.front.crib.resource_name(uri)
        elif ref.get("type") != "ref/prompt" or not isinstance(name, str):
            raise RpcError(
                INVALID_PARAMS, "The ref of completion/complete is a ref/prompt, a ref/resource or a ref/tool."
            )
        arguments = {key: value for key, value in asked.params.items() if key in ("ref", "argument", "context")}
        return await self._answer(asked, name, arguments, RequestKind.COMPLETE)

    async def _complete_tool(self, asked: Asked, name: str, given: Mapping[str, Any]) -> bytes:
        """Values for a tool's parameter: MCP knows completion for prompts and templates only, clients may ask more."""
        route = (await self.front.current()).routes.get(name_of_alias(name))
        if route is None or not is_visible(route, asked.caller.grants):
            raise RpcError(INVALID_PARAMS, f"There is no tool {name[:200]!r}.", {"name": name[:200]})
        try:
            found = completions_of(route, str(given.get("name", "")), str(given.get("value", "")))
        except InvalidArguments as error:
            raise RpcError(INVALID_PARAMS, str(error)) from None
        shown = {"values": found.values, "total": found.total, "hasMore": found.has_more}
        raw = encode({"completion": shown})
        return stamp_modern(raw, "") if asked.asker.is_modern else raw

    async def _answer(self, asked: Asked, name: str, arguments: dict[str, Any], kind: RequestKind) -> bytes:
        """What comes of a request that is no call: its failure is an error, because its result has no place for one."""
        params = asked.params
        more = {key: value for key, value in params.items() if key in ("inputResponses", "requestState")}
        mirror = self.front.mirror
        relayed = _traced(messages.relayed_meta(params), asked.channel)
        meta = relayed if mirror is None else messages.mirrored_meta(params)
        call = self.front.request(name, arguments, asked.caller, asked.channel, None, meta, more, kind)
        if mirror is not None:
            call.context.asked_as = _asked_as(asked.channel)
        result = await self.front.run(call, asked.asker.name)
        if result.error is not None:
            raise_rpc(result.error)
            is_theirs = result.error.code in ("TOOL_INVALID_INPUT", "TOOL_PERMISSION_DENIED")
            raise RpcError(INVALID_PARAMS if is_theirs else INTERNAL_ERROR, result.error.message, told(result.error))
        raw = encode(result.mcp) if result.raw is None else result.raw
        if not asked.asker.is_modern:
            return raw
        is_final = kind in (RequestKind.READ, RequestKind.BROWSE) and result.result_type != "input_required"
        return stamp_modern(messages.uncached(raw) if is_final else raw, result.result_type)

    def declared_headers(self, name: str, caller: Caller) -> http.ParamHeaders:
        """Which arguments of a tool the caller sees are mirrored into headers; none if the declaration is not valid."""
        route = self.front.catalog.routes.get(name)
        if route is None or not is_visible(route, caller.grants):
            return {}
        try:
            return http.declared_headers(route.tool.input_schema)
        except ValueError:
            return {}


def _uri_of(asked: Asked) -> str:
    uri = asked.params.get("uri")
    if type(uri) is not str or not uri:
        raise RpcError(INVALID_PARAMS, f"{asked.method} needs the uri of a resource.")
    return uri


def _client_of(asked: Asked) -> NewsClient:
    client = asked.channel.client if isinstance(asked.channel, ClientChannel) else None
    if client is None:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {asked.method}")
    return client


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


ROOTS_CHANGED = "notifications/roots/list_changed"
OWN_NOTICES = frozenset({ROOTS_CHANGED, "notifications/initialized", "notifications/cancelled"})
"""What toolcrib tells a server itself, for its clients."""


def _traced(meta: Mapping[str, Any], channel: BackChannel) -> Mapping[str, Any]:
    """A request's ``_meta`` with the trace that its HTTP headers name, unless it names one itself."""
    said = channel.traceparent if isinstance(channel, ClientChannel) else ""
    return {**meta, "traceparent": said} if said and "traceparent" not in meta else meta


def _asked_as(channel: BackChannel) -> RequestId | None:
    """The id that a client gave its request."""
    message = channel.message if isinstance(channel, ClientChannel) else None
    return None if message is None or message.id is UNSET else message.id


def cancelled_id(message: Inbound) -> RequestId | None:
    """Which request a notification calls off; ``None`` for any other notification, or one that names none."""
    if message.method != "notifications/cancelled":
        return None
    request_id = messages.request_params(message).get("requestId")
    return request_id if type(request_id) in (int, str) else None
