"""Tasks on the wire: the shape of the handshake era (2025-11-25, experimental) and that of the stateless era's
extension, read into one value and written from it. Nothing a server says here is taken on trust: numbers are brought
within bounds, texts are cut, and work whose status nobody knows is a protocol error."""

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from toolcrib.core.errors import ProtocolError
from toolcrib.core.kinds import TaskStatus
from toolcrib.core.long_work import TaskState
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import encode
from toolcrib.wire.strict import clean_object

ID_MAX = 1024
MESSAGE_MAX = 1000
TTL_MAX_MS = 30 * 86_400_000
POLL_MAX_MS = 3_600_000
REQUESTS_MAX = 100
"""Questions that one task may ask at a time."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?")
_STATUSES = {status.value: status for status in TaskStatus}


class _Task(msgspec.Struct):
    id: Any = msgspec.field(default=None, name="taskId")
    status: Any = None
    message: Any = msgspec.field(default=None, name="statusMessage")
    created_at: Any = msgspec.field(default=None, name="createdAt")
    updated_at: Any = msgspec.field(default=None, name="lastUpdatedAt")
    ttl_ms: Any = msgspec.field(default=None, name="ttlMs")
    ttl: Any = None
    poll_ms: Any = msgspec.field(default=None, name="pollIntervalMs")
    poll: Any = msgspec.field(default=None, name="pollInterval")
    requests: Raw | UnsetType = msgspec.field(default=UNSET, name="inputRequests")
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Created(msgspec.Struct):
    task: Raw | UnsetType = UNSET


class _Question(msgspec.Struct):
    method: str
    params: Raw | UnsetType = UNSET


_task = msgspec.json.Decoder(_Task)
_created = msgspec.json.Decoder(_Created)
_questions = msgspec.json.Decoder(dict[str, _Question])


def read_created(raw: bytes | Raw, *, modern: bool) -> TaskState | None:
    """The task that a server made of a call; ``None`` if it is no task, but its result already."""
    if modern:
        return read_task(raw)[0]
    try:
        nested = _created.decode(raw).task
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(error) from None
    return None if nested is UNSET else read_task(nested)[0]


def read_task(raw: bytes | Raw) -> tuple[TaskState, bytes]:
    """How a server says its work stands, and the result of it, empty if there is none."""
    try:
        said = _task.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from None
    if type(said.id) is not str or not 0 < len(said.id) <= ID_MAX:
        raise _unreadable("it has no taskId")
    status = _STATUSES.get(said.status) if type(said.status) is str else None
    if status is None:
        raise _unreadable(f"its status is {said.status!r:.40}")
    state = TaskState(
        said.id,
        status,
        said.message[:MESSAGE_MAX] if type(said.message) is str else "",
        _moment(said.created_at),
        _moment(said.updated_at),
        _within(said.ttl if said.ttl_ms is None else said.ttl_ms, TTL_MAX_MS),
        _within(said.poll if said.poll_ms is None else said.poll_ms, POLL_MAX_MS),
        _read_requests(said.requests) if status is TaskStatus.INPUT_REQUIRED else b"",
        _read_error(said.error) if status is TaskStatus.FAILED else b"",
    )
    result = b"" if said.result is UNSET or status is not TaskStatus.COMPLETED else bytes(said.result)
    return state, result


def _moment(said: Any) -> str:
    return said if type(said) is str and _MOMENT.fullmatch(said) else ""


def _within(said: Any, most: int) -> int | None:
    """A number of milliseconds that makes sense; ``None`` for what does not."""
    if type(said) not in (int, float) or not 0 < said < float("inf"):
        return None
    return max(1, min(most, int(said)))


def _read_requests(said: Raw | UnsetType) -> bytes:
    """What a task asks of the client; in the handshake era that is said elsewhere."""
    if said is UNSET:
        return b""
    try:
        asked = _questions.decode(said)
        if len(asked) > REQUESTS_MAX:
            raise _unreadable(f"it asks more than {REQUESTS_MAX} questions at a time")
        return clean_object(bytes(said))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(error) from None


def _read_error(said: Raw | UnsetType) -> bytes:
    """The error, with the two fields that every reader needs."""
    try:
        found = msgspec.json.decode(clean_object(b"{}" if said is UNSET else bytes(said)))
    except (msgspec.DecodeError, RecursionError):
        found = {}
    code, message = found.get("code"), found.get("message")
    kept = {"code": code if type(code) is int else -32603, "message": message if type(message) is str else "It failed."}
    return encode(kept | ({"data": found["data"]} if "data" in found else {}))


def _unreadable(flaw: object) -> ProtocolError:
    return ProtocolError(f"The server's answer is not a task that can be followed: {flaw}.")


def show_created(task: TaskState, *, modern: bool) -> bytes:
    """The answer to a call that became this task."""
    shown = _shown(task, modern=modern)
    return encode({"resultType": "task", **shown} if modern else {"task": shown})


def show_task(task: TaskState, result: bytes = b"", *, modern: bool) -> bytes:
    """The answer to ``tasks/get``; in the stateless era with all there is, in the other without its result."""
    shown = _shown(task, modern=modern)
    return encode({"resultType": "complete", **shown, **payload(task, result)} if modern else shown)


def payload(task: TaskState, result: bytes = b"") -> dict[str, Any]:
    """What belongs to the status of a task, as the stateless era has it."""
    match task.status:
        case TaskStatus.INPUT_REQUIRED:
            return {"inputRequests": Raw(task.requests or b"{}")}
        case TaskStatus.COMPLETED:
            return {"result": Raw(result or b'{"content":[]}')}
        case TaskStatus.FAILED:
            return {"error": Raw(task.error or b"{}")}
        case TaskStatus.WORKING | TaskStatus.CANCELLED:
            return {}


def _shown(task: TaskState, *, modern: bool) -> dict[str, Any]:
    ttl, poll = ("ttlMs", "pollIntervalMs") if modern else ("ttl", "pollInterval")
    shown: dict[str, Any] = {"taskId": task.id, "status": task.status}
    if task.message:
        shown["statusMessage"] = task.message
    shown |= {"createdAt": task.created_at, "lastUpdatedAt": task.updated_at, ttl: task.ttl_ms}
    return shown if task.poll_ms is None else shown | {poll: task.poll_ms}


def related(task_id: str) -> dict[str, Any]:
    """The ``_meta`` by which the handshake era says what task a message belongs to."""
    return {eras.META_RELATED_TASK: {"taskId": task_id}}
