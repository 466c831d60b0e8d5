"""One open way to an MCP server: questions in, raw results out, whatever the transport."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Container, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw

from toolcrib.core.access import Caller
from toolcrib.core.errors import RemoteError, ToolcribError
from toolcrib.core.requests import SILENT, BackChannel
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp.redactor import NO_SECRETS, Redactor
from toolcrib.wire.eras import META_RELATED_TASK, META_SUBSCRIPTION
from toolcrib.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Outbound,
    RequestId,
    RpcError,
    decode_error,
    encode_error,
    encode_result,
)
from toolcrib.wire.strict import clean_object

CLIENT_NAME = "toolcrib"
OWN_IDS = 1 << 30
"""Where clients' own ids are kept, those of toolcrib's own requests are above this."""
UNREADABLE_ENDS = 256
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')
SILENCE_COUNTS_S = 1.0
"""A question given up sooner says nothing about the server: somebody changed their mind."""
UNREACHABLE = frozenset({"resolve", "connect", "tls"})
"""The phases of an HTTP request in which nothing has reached the server yet."""


def _ignore(line: str) -> None:
    """The default listener: does nothing."""


def _nothing() -> None:
    """The default listener: does nothing."""


def _no_answer(method: str) -> bytes | None:
    """The default: none."""
    del method
    return None


def _drop(params: bytes, sole: BackChannel | None) -> None:
    """The default listener: does nothing."""


class ServerRequest(msgspec.Struct):
    """One request to a server."""

    id: RequestId
    method: str
    params: bytes
    name: str = ""
    """What the stateless era mirrors into the ``Mcp-Name`` header."""
    headers: Sequence[tuple[bytes, bytes]] = ()
    channel: BackChannel = SILENT
    version: str = ""
    """The revision the request is made in; empty while it is still being negotiated by a handshake."""
    caller: Caller | None = None
    """Who is behind it; ``None`` for what toolcrib asks on its own account."""
    token: RequestId | None = None
    """What its progress is told by; ``None``: its id."""
    sent: bool = False
    """Set by the link once the request may have reached the server."""
    traceparent: str = ""
    """The trace it belongs to, for those between here and an HTTP server, who look at headers only."""


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """What a link tells its owner on its own account; all are called on the event loop and never wait."""

    tools_changed: Callable[[], None]
    """What the server offers changed, of whatever kind."""
    lost: Callable[[], None]
    noise: Callable[[str], None] = _ignore
    """A line that is no message; at most one a second."""
    redactor: Redactor = NO_SECRETS
    """Takes the secrets out of whatever the server says, before the link itself looks at it."""
    updated: Callable[[str], None] = _ignore
    """The resource of this URI changed."""
    is_of_one: bool = False
    """Whether only one caller uses the link, so that whatever comes over it is for that one."""
    asked_blindly: Callable[[], None] = _nothing
    """The server asked something, and nobody can tell which of several callers it means."""
    completed: Callable[[bytes, BackChannel | None], None] = _drop
    """What somebody was sent to an address for is done there; with the way to the one client it can only be for, if
    there is only one."""
    standing: Callable[[str], bytes | None] = _no_answer
    """What is answered to a method while there is no call to ask somebody for; ``None``: nothing."""
    stray: Callable[[str, bytes], None] | None = None
    """Takes the notifications that belong to no request; ``None``: those that toolcrib does not know are dropped."""
    first_id: int = 0
    """Where the ids of toolcrib's own requests begin."""


@dataclass(frozen=True, slots=True)
class ExitTrace:
    """What can be said of a server's process or connection, also after trouble."""

    pid: int | None = None
    exit_code: int | None = None
    stderr: Sequence[str] = ()
    noise_count: int = 0
    noise: Sequence[str] = ()
    heard_at: float = 0.0
    isolation: str = ""
    """When the last message came, by the event loop's clock; zero before the first one."""


class Link(Protocol):
    """A connection to one server."""

    discover_patience_s: float
    """How long a server may take to answer a first question it need not know; one on a pipe may just ignore it. Zero:
    over this transport it cannot know it, and is not asked."""

    @property
    def is_open(self) -> bool:
        """Whether a question can be sent."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer."""

    def new_id(self) -> int:
        """An id no other question of this link has."""

    def claim_id(self, wanted: RequestId | None) -> RequestId:
        """The id that a client gave its question, if no other question has it; else a new one."""

    async def ask(self, question: ServerRequest) -> Raw:
        """The raw result; a server's error answer is a ``RemoteError``, a lost connection ``ConnectionLost``."""

    def tell(self, method: str, params: bytes) -> None:
        """Send a notification, without waiting for it to arrive."""

    def agree(self, version: str) -> None:
        """Speak ``version`` from now on."""

    def listen(self, params: bytes) -> None:
        """Have the server tell of changes, in the way of the agreed revision; never fails the caller. Again with other
        ``params``: for these from now on."""

    def remains(self) -> ExitTrace:
        """What the server left to look at."""

    async def close(self) -> None:
        """End it; safe to call twice."""


async def bury(link: Link | None, after_s: float = 0.0) -> ExitTrace:
    """Close a link that is not used any more and keep what it left behind."""
    if link is None:
        return ExitTrace()
    if after_s:
        await asyncio.sleep(after_s)
    remains = link.remains()
    await link.close()
    after = link.remains()
    return after if after.exit_code is not None else remains


@dataclass(slots=True)
class Silence:
    """Questions given up one after another over one link, with nothing heard in between."""

    count: int = 0
    last_at: float = 0.0
    """When the last of them was given up."""

    def note(self, asked_at: float, now: float, heard_at: float) -> None:
        """One more was given up; questions asked side by side count as one."""
        if now - asked_at < SILENCE_COUNTS_S:
            return
        if heard_at > asked_at:
            self.count = 0
        elif asked_at >= self.last_at:
            self.count = self.count + 1 if heard_at <= self.last_at else 1
            self.last_at = now

    def lasts(self, heard_at: float) -> bool:
        """Whether something was given up and nothing heard since."""
        return self.count > 0 and heard_at <= self.last_at


def may_claim(wanted: RequestId | None, pending: Container[RequestId]) -> bool:
    """Whether a question can have the id that its client gave it."""
    return wanted is not None and wanted not in pending and not (type(wanted) is int and not 0 <= wanted < OWN_IDS)


def names_request(message: bytes, pending: Container[RequestId]) -> set[RequestId]:
    """Which requests under way a message that cannot be read as a whole may be the answer to, by its two ends."""
    ends = message[:UNREADABLE_ENDS] + b" " + message[-UNREADABLE_ENDS:]
    return {request_id for found in _ID.findall(ends) if (request_id := int(found)) in pending}


def to_remote_error(raw: Raw | bytes) -> RemoteError:
    """A server's error answer as an exception that keeps its code, words and data."""
    body = decode_error(raw)
    return RemoteError(body.code, body.message or "The server answered with an error.", data=body.data)


PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
LISTS_CHANGED = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))
UPDATED = "notifications/resources/updated"
COMPLETE = "notifications/elicitation/complete"
ANY_URI = "*"
"""In the place of a URI: any of those that are watched may have changed while nobody could hear of it."""
CANCELLED = "notifications/cancelled"
QUESTIONS_MAX = 100
BLIND = (
    "Several callers share this server right now, and a question does not say which of their calls it belongs to."
    " Nobody was asked."
)

NEEDS_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class _Progress(msgspec.Struct):
    token: int | str | None = msgspec.field(default=None, name="progressToken")


class _Updated(msgspec.Struct):
    uri: str = ""


class _CalledOff(msgspec.Struct):
    request_id: int | str | None = msgspec.field(default=None, name="requestId")


_progress = msgspec.json.Decoder(_Progress)
_updated = msgspec.json.Decoder(_Updated)
_called_off = msgspec.json.Decoder(_CalledOff)


def params_of(message: Outbound) -> bytes:
    """The params as they came, an empty object when there are none."""
    return b"{}" if message.params is UNSET else bytes(message.params)


def task_of(message: Outbound) -> str:
    """The server's id of the work that a question of it belongs to; empty if it names none."""
    params = params_of(message)
    if _RELATED not in params:
        return ""
    try:
        found = _related.decode(params).meta.get(META_RELATED_TASK)
    except msgspec.DecodeError:
        return ""
    return str(found.get("taskId", "")) if isinstance(found, dict) else ""


class _Related(msgspec.Struct):
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")


_RELATED = META_RELATED_TASK.encode()
_related = msgspec.json.Decoder(_Related)


def heed_news(message: Outbound, events: LinkEvents, sole: BackChannel | None = None) -> bool:
    """Pass on that something of the server changed; whether that is what the message says. ``sole`` is the way to the
    client that alone can be meant, if there is only one."""
    if message.method in LISTS_CHANGED:
        events.tools_changed()
        pass_stray(message, events)
        return True
    if message.method == COMPLETE:
        events.completed(params_of(message), sole)
        return True
    if message.method != UPDATED:
        pass_stray(message, events)
        return False
    with contextlib.suppress(msgspec.DecodeError):
        uri = _updated.decode(params_of(message)).uri
        if uri != ANY_URI:  # that is not for a server to say
            events.updated(uri)
    return True


def pass_stray(message: Outbound, events: LinkEvents) -> None:
    """Hand on a notification that belongs to no request, where the server's client wants those."""
    if events.stray is not None:
        with contextlib.suppress(msgspec.DecodeError):
            events.stray(message.method or "", clean_object(params_of(message)))


class _Subscribed(msgspec.Struct):
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")


_subscribed = msgspec.json.Decoder(_Subscribed)
_SUBSCRIPTION = META_SUBSCRIPTION.encode()


def subscription_of(message: Outbound) -> RequestId | None:
    """The subscription that a notification was sent for, if it names one."""
    params = params_of(message)
    if _SUBSCRIPTION not in params:
        return None
    with contextlib.suppress(msgspec.DecodeError):
        found = _subscribed.decode(params).meta.get(META_SUBSCRIPTION)
        return found if isinstance(found, int | str) else None
    return None


def pass_on_subscribed(message: Outbound, call: ServerRequest, events: LinkEvents) -> None:
    """Hand what is said on a client's own subscription to it; of changed lists toolcrib hears, too."""
    if message.method in LISTS_CHANGED:
        events.tools_changed()
    call.channel.notify(message.method or "", params_of(message))


def progress_token(message: Outbound) -> int | str | None:
    """The token of a progress notification, if it has one."""
    try:
        return _progress.decode(params_of(message)).token
    except msgspec.DecodeError:
        return None


def can_ask(channel: BackChannel, method: str) -> bool:
    """Whether the client behind a call can be asked ``method``."""
    needed = NEEDS_CAPABILITY.get(method)
    return needed is not None and needed in channel.capabilities


def answer_at_once(message: Outbound, channel: BackChannel | None) -> bytes | None:
    """The encoded answer to a request of the server that no client has to be asked about; ``None`` for any other."""
    request_id, method = _id_of(message), message.method or ""
    if method == "ping":
        return encode_result(request_id, b"{}")
    if channel is None or not can_ask(channel, method):
        return encode_error(request_id, RpcError(METHOD_NOT_FOUND, f"The client cannot answer {method!r}."))
    return None


def whom_to_ask(message: Outbound, calls: Sequence[ServerRequest] | None, events: LinkEvents) -> ServerRequest | bytes:
    """The call whose client is to be asked, or the encoded answer to a request that no client has to be asked about.

    ``calls`` are those it may belong to, all of one caller; ``None``: it may be meant for any of several callers.
    """
    method = message.method or ""
    if calls is None and method in NEEDS_CAPABILITY:
        events.asked_blindly()
        return encode_error(_id_of(message), RpcError(INTERNAL_ERROR, BLIND))
    if not calls and (known := events.standing(method)) is not None:
        return encode_result(_id_of(message), known)
    able = (call for call in reversed(calls or ()) if can_ask(call.channel, method))
    call = next(able, calls[-1] if calls else None)
    answer = answer_at_once(message, call.channel if call is not None else None)
    return call if answer is None and call is not None else answer or b""


def pass_on_log(calls: Sequence[ServerRequest], params: bytes) -> None:
    """Hand a log message to the latest of one caller's calls that asked for any."""
    for call in reversed(calls):
        if call.channel.log_level or len(calls) == 1:
            call.channel.notify(MESSAGE, params)
            return


def refuse_busy(message: Outbound) -> bytes:
    """The encoded answer to one question too many."""
    words = f"More than {QUESTIONS_MAX} questions wait for an answer already."
    return encode_error(_id_of(message), RpcError(INTERNAL_ERROR, words))


def _id_of(message: Outbound) -> int | str:
    return message.id if message.id is not None else 0


async def ask_client(message: Outbound, channel: BackChannel) -> bytes:
    """The encoded answer of the client behind a call."""
    request_id = _id_of(message)
    try:
        answer = await channel.ask(message.method or "", clean_object(params_of(message)))
        return encode_result(request_id, clean_object(answer))
    except msgspec.DecodeError as error:
        return encode_error(request_id, RpcError(INVALID_PARAMS, f"This cannot be passed on: {error}."))
    except RemoteError as error:
        return encode_error(request_id, RpcError(error.rpc_code, error.message, error.data))
    except ToolcribError as error:
        return encode_error(request_id, RpcError(METHOD_NOT_FOUND, str(error)))


class OpenQuestions:
    """The questions of one server that clients work on: each ends with the call it was asked in."""

    def __init__(self, tasks: TaskScope) -> None:
        self._tasks = tasks
        self.running: dict[RequestId, set[asyncio.Task[Any]]] = {}
        """By the call they were asked in; empty most often, so that nothing has to be ended with it."""
        self._by_id: dict[int | str, asyncio.Task[Any]] = {}
        """By the id that the server asked with, to be called off by it."""
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether one more would be too many."""
        return self._count >= QUESTIONS_MAX

    def start(
        self, call_ids: Sequence[RequestId], work: Coroutine[Any, Any, None], asked_as: int | str | None = None
    ) -> None:
        """Work on a question until ``end`` of the last call that it may have been asked in, or until its server calls
        it off by the id it was ``asked_as``."""
        task = self._tasks.spawn(work, "answer-server")
        self._count += 1
        for call_id in call_ids:
            self.running.setdefault(call_id, set()).add(task)
        if asked_as is not None:
            self._by_id[asked_as] = task
        task.add_done_callback(lambda done: self._finished(call_ids, asked_as, done))

    def _finished(self, call_ids: Sequence[RequestId], asked_as: int | str | None, task: asyncio.Task[Any]) -> None:
        self._count -= 1
        if asked_as is not None and self._by_id.get(asked_as) is task:  # another may have the same id by now
            del self._by_id[asked_as]
        for call_id in call_ids:
            running = self.running.get(call_id, set())
            running.discard(task)
            if not running:
                self.running.pop(call_id, None)

    def end(self, call_id: RequestId) -> None:
        """The call is over: cancel the open questions that belong to no other call."""
        for task in self.running.pop(call_id, ()):
            if not any(task in others for others in self.running.values()):
                task.cancel()

    def call_off(self, message: Outbound) -> None:
        """The server wants no answer any more: whoever thinks about one is told so, and the server gets none."""
        with contextlib.suppress(msgspec.DecodeError):
            request_id = _called_off.decode(params_of(message)).request_id
            task = None if request_id is None else self._by_id.get(request_id)
            if task is not None:
                task.cancel()
