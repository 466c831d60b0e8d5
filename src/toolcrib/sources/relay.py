"""What a server says or asks while it works on a call, passed to whoever made the call."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
from msgspec import UNSET

from toolcrib.core.call import BackChannel
from toolcrib.core.errors import RemoteError, ToolcribError
from toolcrib.core.tasks import TaskScope
from toolcrib.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Outbound,
    RpcError,
    encode_error,
    encode_result,
)
from toolcrib.wire.strict import clean_object

PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
TOOLS_CHANGED = "notifications/tools/list_changed"
CANCELLED = "notifications/cancelled"
QUESTIONS_MAX = 100

NEEDS_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class _Progress(msgspec.Struct):
    token: int | str | None = msgspec.field(default=None, name="progressToken")


_progress = msgspec.json.Decoder(_Progress)


def params_of(message: Outbound) -> bytes:
    """The params as they came, an empty object when there are none."""
    return b"{}" if message.params is UNSET else bytes(message.params)


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


class Asking:
    """The questions of one server that clients work on: each ends with the call it was asked in."""

    def __init__(self, tasks: TaskScope) -> None:
        self._tasks = tasks
        self._running: dict[int, set[asyncio.Task[Any]]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether one more would be too many."""
        return self._count >= QUESTIONS_MAX

    def start(self, call_id: int, work: Coroutine[Any, Any, None]) -> None:
        """Work on a question until ``end`` of its call."""
        task = self._tasks.spawn(work, "answer-server")
        self._count += 1
        self._running.setdefault(call_id, set()).add(task)
        task.add_done_callback(lambda done: self._finished(call_id, done))

    def _finished(self, call_id: int, task: asyncio.Task[Any]) -> None:
        self._count -= 1
        running = self._running.get(call_id, set())
        running.discard(task)
        if not running:
            self._running.pop(call_id, None)

    def end(self, call_id: int) -> None:
        """The call is over: nobody wants the answers any more."""
        for task in self._running.pop(call_id, ()):
            task.cancel()
