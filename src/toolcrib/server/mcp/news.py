"""What clients hear unasked: that lists changed, and that resources did which they subscribed to."""

from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from typing import Any, Protocol

from toolcrib.core.access import Caller
from toolcrib.core.errors import CallerError, RemoteError, ToolcribError, UnknownTool
from toolcrib.core.long_work import declares_tasks
from toolcrib.core.offers import OfferKind
from toolcrib.crib.subscriptions import Watcher
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.tasks import TaskMethods, missing_capability
from toolcrib.transports.http.server import Exchange
from toolcrib.wire import eras
from toolcrib.wire.http import PING, encode_event
from toolcrib.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RequestId, RpcError, encode, encode_notification
from toolcrib.wire.messages import Asker

LIST_CHANGED: Mapping[OfferKind, str] = {
    OfferKind.TOOL: "notifications/tools/list_changed",
    OfferKind.RESOURCE: "notifications/resources/list_changed",
    OfferKind.TEMPLATE: "notifications/resources/list_changed",
    OfferKind.PROMPT: "notifications/prompts/list_changed",
    OfferKind.SKILL: "notifications/resources/list_changed",
}
LIST_NEWS: Mapping[str, str] = {
    "tools/list": LIST_CHANGED[OfferKind.TOOL],
    "resources/list": LIST_CHANGED[OfferKind.RESOURCE],
    "prompts/list": LIST_CHANGED[OfferKind.PROMPT],
}
"""The notice that a list changed."""
UPDATED = "notifications/resources/updated"
TASK_CHANGED = "notifications/tasks"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
WATCHED_MAX = 1000
"""Resources that one client may subscribe to."""
TASKS_MAX = 100
"""Tasks that one subscription can be for."""
OWED_MAX = 2000
BACKLOG_MAX = 1024 * 1024
"""A client with more than this left to read is told nothing it did not ask for."""
STREAM_HEADERS = ((b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no"))

_FILTERS = {
    "toolsListChanged": LIST_CHANGED[OfferKind.TOOL],
    "resourcesListChanged": LIST_CHANGED[OfferKind.RESOURCE],
    "promptsListChanged": LIST_CHANGED[OfferKind.PROMPT],
}


class ListChanges:
    """Which lists of a window changed since clients were last told."""

    def __init__(self, front: ProfileView) -> None:
        self._front, self._told = front, dict(front.catalog.stamps)

    def take(self) -> list[str]:
        """The notices that are due; all of them if what is shown changed for another reason than the catalogue."""
        told, self._told = self._told, dict(self._front.catalog.stamps)
        changed = [kind for kind in OfferKind if self._told.get(kind, 0) != told.get(kind, 0)]
        return list(dict.fromkeys(LIST_CHANGED[kind] for kind in changed or OfferKind))


class NewsClient(Protocol):
    """A client with a connection, or a session, that notices can be sent to at any time."""

    news: "ClientNews | None"

    def note_listed(self, method: str) -> None:
        """It reads a list."""

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notice, now or as soon as the client reads."""


class ClientNews:
    """The resources and tasks that one client subscribed to."""

    def __init__(self, front: ProfileView, tell: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._front, self._tell = front, tell
        self._forget: dict[str, Callable[[], None]] = {}
        self._tasks: list[Callable[[], object]] = []
        """How to end following each task."""
        self._early: list[Mapping[str, Any]] | None = []
        """What is to be told of tasks once the subscription was acknowledged; ``None`` since then."""

    async def follow(self, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """Begin what a subscription is for; what of it can be honoured."""
        honoured = listen_filter(params)
        if uris := await self.subscribe_all(wanted_of(params, "resourceSubscriptions"), caller):
            honoured["resourceSubscriptions"] = uris
        if task_ids := await self._follow_tasks(wanted_of(params, "taskIds"), caller):
            honoured["taskIds"] = task_ids
        return honoured

    def begin(self) -> None:
        """The subscription was acknowledged: tell what has happened since."""
        early, self._early = self._early or [], None
        for notice in early:
            self._tell(TASK_CHANGED, notice)

    def _tell_of_task(self, notice: Mapping[str, Any]) -> None:
        if self._early is None:
            self._tell(TASK_CHANGED, notice)
        else:
            self._early.append(notice)

    async def _follow_tasks(self, task_ids: object, caller: Caller) -> list[str]:
        """Those of the tasks that are this caller's; it is told of each change of them."""
        methods, granted = TaskMethods(self._front), []
        for task_id in task_ids[:TASKS_MAX] if isinstance(task_ids, list) else ():
            with suppress(RpcError):
                if isinstance(task_id, str) and task_id not in granted:
                    self._tasks.append(await methods.follow(task_id, caller, self._tell_of_task))
                    granted.append(task_id)
        return granted

    async def subscribe(self, uri: str, caller: Caller) -> None:
        """Tell whenever the resource changes; refused for one that the caller may not know of."""
        if uri in self._forget:
            return
        if len(self._forget) >= WATCHED_MAX:
            raise RpcError(INVALID_PARAMS, f"At most {WATCHED_MAX} resources can be subscribed to.")
        front = self._front
        name = front.crib.resource_name(uri)
        try:
            route = front.find_resource(name, caller)
            if route is None:
                raise UnknownTool(name, kind=OfferKind.RESOURCE)
            watcher = Watcher(caller, lambda _: self._tell(UPDATED, {"uri": uri}))
            forget = await front.crib.subscriptions.add(route, name, watcher)
        except RemoteError as error:
            raise RpcError(error.rpc_code, error.message, error.data) from None
        except ToolcribError as error:
            code = INVALID_PARAMS if isinstance(error, CallerError) else INTERNAL_ERROR
            raise RpcError(code, str(error), {"code": error.code, "uri": uri}) from None
        self.unsubscribe(uri)  # somebody may have been quicker
        self._forget[uri] = forget

    async def subscribe_all(self, uris: object, caller: Caller) -> list[str]:
        """Those of the URIs that could be subscribed to."""
        granted = []
        for uri in uris if isinstance(uris, list) else ():
            with suppress(RpcError):
                if isinstance(uri, str):
                    await self.subscribe(uri, caller)
                    granted.append(uri)
        return granted

    def unsubscribe(self, uri: str) -> None:
        """Tell no more of it."""
        forget = self._forget.pop(uri, None)
        if forget is not None:
            forget()

    def close(self) -> None:
        """The client is gone."""
        for uri in list(self._forget):
            self.unsubscribe(uri)
        while self._tasks:
            self._tasks.pop()()


class StandingStream:
    """One client's open stream; ``meta`` goes with its every notice, ``wants`` are the notices of lists it wants."""

    __slots__ = ("_exchange", "_meta", "_owed", "_wants")

    def __init__(
        self,
        exchange: Exchange,
        first: bytes,
        meta: Mapping[str, Any] | None = None,
        wants: Container[str] | None = None,
    ) -> None:
        self._exchange, self._meta, self._wants = exchange, meta, wants
        self._owed: dict[bytes, None] = {}
        exchange.start_stream(200, headers=STREAM_HEADERS)
        exchange.write(first)

    @property
    def _is_readable(self) -> bool:
        return self._exchange.streaming and self._exchange.backlog <= BACKLOG_MAX

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notice; a client that is far behind gets each once, when it reads again."""
        said = params if self._meta is None else {**params, "_meta": self._meta}
        notice = encode_event(encode_notification(method, encode(said)))
        if self._is_readable:
            self._exchange.write(notice)
        elif len(self._owed) < OWED_MAX:
            self._owed[notice] = None

    def send(self, message: bytes) -> None:
        """Send a message that is no notice, unless the client is far behind."""
        if self._is_readable:
            self._exchange.write(encode_event(message))

    def tell_changed(self, notices: list[str]) -> None:
        """Tell of changed lists."""
        for method in notices:
            if self._wants is None or method in self._wants:
                self.tell(method, {})

    def ping(self) -> None:
        """Show that the stream is alive, and say what is owed."""
        if self._is_readable:
            self._exchange.write(b"".join(self._owed) or PING)
            self._owed.clear()

    def end(self, last: bytes = b"") -> None:
        """End the stream, with a last event if there is one."""
        if self._exchange.streaming:
            self._exchange.write(last)
            self._exchange.end()


LISTEN = "subscriptions/listen"


def listen_filter(params: Mapping[str, Any]) -> dict[str, Any]:
    """What of a subscription toolcrib can honour besides resources."""
    wanted = params.get("notifications")
    return {name: True for name in _FILTERS if isinstance(wanted, Mapping) and wanted.get(name) is True}


def wanted_of(params: Mapping[str, Any], what: str) -> object:
    """The resources, or tasks, that a subscription is for, as the client wrote them."""
    wanted = params.get("notifications")
    return wanted.get(what) if isinstance(wanted, Mapping) else None


def check_listen(params: Mapping[str, Any], asker: Asker) -> None:
    """Refuse a subscription to tasks of a client that does not declare to know such."""
    if wanted_of(params, "taskIds") is not None and not declares_tasks(asker.capabilities):
        raise missing_capability()


def wanted_notices(honoured: Mapping[str, Any]) -> frozenset[str]:
    """The notices of lists that a subscription is for."""
    return frozenset(_FILTERS[name] for name in honoured if name in _FILTERS)


def subscription_meta(request_id: RequestId) -> dict[str, Any]:
    """The ``_meta`` of all that is said on a subscription."""
    return {eras.META_SUBSCRIPTION: request_id}


def acknowledge(request_id: RequestId, honoured: Mapping[str, Any]) -> bytes:
    """The first notification of a subscription: what it is for."""
    return encode_notification(
        ACKNOWLEDGED, encode({"notifications": honoured, "_meta": subscription_meta(request_id)})
    )


def listen_result(request_id: RequestId) -> bytes:
    """The end of a subscription."""
    return encode({"resultType": "complete", "_meta": subscription_meta(request_id)})
