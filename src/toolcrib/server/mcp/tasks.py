"""Tasks for MCP clients: calls that are answered later, in the shape of the client's era.

The stateless era has an extension that a client declares with each request, and the server decides which call becomes
a task. In the handshake era (2025-11-25 alone) the client asks for it, where a tool says it can.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib.core.access import Caller, decide
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.kinds import TaskAction
from toolcrib.core.long_work import EXTENSION, TaskState, declares_tasks
from toolcrib.core.names import META_TOOLS
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import SILENT, BackChannel, Request, Result
from toolcrib.crib.long_work import Ways
from toolcrib.crib.tasks import TaskEntry
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.outcomes import Asked, Method, encode_shown, raise_rpc, told
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    RpcError,
    encode,
)
from toolcrib.wire.messages import Asker
from toolcrib.wire.tasks import related, show_task

ACKNOWLEDGED = b'{"resultType":"complete"}'
WATCH_LEAST_S, WATCH_MOST_S = 1.0, 30.0
"""How often a task is looked at whose client wants to be told of its changes, where its server does not tell."""
STATUS_CHANGED = "notifications/tasks/status"
WAIT_S = 5.0
"""How long to wait for news of work, before looking whether it is still there."""
ROUND = ("inputResponses", "requestState")


TellOf = Callable[[str, Mapping[str, Any]], None]


class TaskChannel:
    """The way back of a request for the result of a task: what is asked on it says what task it belongs to."""

    def __init__(self, channel: BackChannel, task_id: str) -> None:
        self._channel, self._related = channel, related(task_id)
        self.capabilities, self.takes_input_required = channel.capabilities, channel.takes_input_required
        self.wants_progress, self.log_level = channel.wants_progress, channel.log_level

    def notify(self, method: str, params: bytes) -> None:
        """Tell the client."""
        self._channel.notify(method, params)

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client."""
        asked = msgspec.json.decode(params, type=dict[str, Any])
        meta = asked.get("_meta")
        said = {**(meta if isinstance(meta, dict) else {}), **self._related}
        return await self._channel.ask(method, encode({**asked, "_meta": said}))


class TaskMethods:
    """Answers what clients of one address ask about their tasks."""

    def __init__(self, front: ProfileView) -> None:
        self._front, self._book = front, front.crib.tasks
        self.modern: Mapping[str, Method] = {
            "tasks/get": self._get,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }
        self.handshake: Mapping[str, Method] = {
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
        }

    def announce(self, capabilities: dict[str, Any], asker: Asker) -> dict[str, Any]:
        """The capabilities, with what there is of tasks in the client's era."""
        if asker.is_modern:
            return {**capabilities, "extensions": {**capabilities.get("extensions", {}), EXTENSION: {}}}
        is_known = self._front.is_partial or "tasks" in self._front.features
        if asker.version != eras.LATEST_HANDSHAKE or not is_known:
            return capabilities
        return {**capabilities, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}

    def long_servers(self) -> frozenset[str]:
        """The servers whose tools can be answered later, in the way of the stateless era."""
        return frozenset(server for server, era in self._front.task_eras.items() if eras.is_modern(era))

    # Calls

    async def run(self, call: Request, asker: Asker, tell: TellOf | None = None) -> Result:
        """Run a call that may become a task, if its client knows such; if not, like any other. ``tell`` is how a client
        of the handshake era hears of it."""
        wish = call.more.get("task")
        if asker.is_modern or asker.version != eras.LATEST_HANDSHAKE:
            call = _without_wish(call)
            if not asker.is_modern or not declares_tasks(asker.capabilities):
                return await self._front.run(call, asker.name)
        ways = Ways(
            lambda real: self._front.run(real, asker.name),
            self._again,
            _encoded,
            must_be_task=not asker.is_modern,
            ttl_s=None if asker.is_modern else _ttl_s(wish),
        )
        result = await self._book.run(call, self._front.name, ways)
        if result.task is None and result.error is not None and not asker.is_modern:
            raise_rpc(result.error)  # who wants a task, and nothing else, cannot be given a result
            raise RpcError(INVALID_PARAMS, result.error.message, told(result.error))
        if result.task is not None and tell is not None:
            self._book.watch(self._tell_statuses(result.task, call.caller, tell))
        return result

    async def _tell_statuses(self, seen: TaskState, caller: Caller, tell: TellOf) -> None:
        """Tell a client of the handshake era how its task stands, for as long as toolcrib does the work itself."""
        with suppress(RpcError):
            entry = await self.find(seen.id, caller)
            while not entry.server_task and not seen.status.is_final:
                await self._book.changed(entry, WAIT_S)
                entry = await self.find(seen.id, caller)
                if _looks(entry.state) != _looks(seen) and not entry.server_task:
                    tell(STATUS_CHANGED, msgspec.json.decode(show_task(entry.state, modern=False)))
                seen = entry.state

    def _again(self, call: Request, answers: Mapping[str, Any]) -> Request:
        kept = {key: value for key, value in call.more.items() if key not in ROUND}
        return self._front.request(
            call.name, call.arguments, call.caller, call.channel, call.timeout_s, call.meta, {**kept, **answers}
        )

    def see_off(self, is_current: Callable[[Caller], bool]) -> None:
        """End the work for callers that may not come in any more."""
        self._book.see_off(is_current)

    # What is asked about them

    async def _get(self, asked: Asked) -> bytes:
        entry = await self._find(asked)
        state, result = await self.look(entry, asked.caller, asked.channel)
        return show_task(state, result, modern=asked.asker.is_modern)

    async def look(self, entry: TaskEntry, caller: Caller, channel: BackChannel = SILENT) -> tuple[TaskState, bytes]:
        """How a task stands, and its result if there is one."""
        if not entry.server_task:
            return entry.state, entry.result
        answer = await self._ask(entry, caller, channel, TaskAction.GET)
        state = answer.task
        if state is None:
            raise RpcError(INTERNAL_ERROR, "The server did not say how its work stands.")
        return self._book.as_shown(entry, state), encode_shown(answer) if answer.raw is None else answer.raw

    async def _update(self, asked: Asked) -> bytes:
        entry, answers = await self._find(asked), asked.params.get("inputResponses")
        if not isinstance(answers, Mapping):
            raise RpcError(INVALID_PARAMS, "tasks/update needs inputResponses, an object.")
        if entry.server_task:
            await self._ask(entry, asked.caller, asked.channel, TaskAction.UPDATE, inputResponses=answers)
        else:
            await self._book.answer(entry, answers)
        return ACKNOWLEDGED

    async def _cancel(self, asked: Asked) -> bytes:
        entry = await self._find(asked)
        is_modern = asked.asker.is_modern
        if entry.server_task:
            await self._ask(entry, asked.caller, asked.channel, TaskAction.CANCEL)
        elif not is_modern and entry.state.status.is_final:
            raise RpcError(INVALID_PARAMS, f"This task has ended already: it is {entry.state.status}.")
        else:
            await self._book.cancel(entry)
        if is_modern:
            return ACKNOWLEDGED
        while not _is_settled(entry) and not self._book.is_elsewhere(entry):
            await self._book.changed(entry, WAIT_S)
        state, _ = await self.look(entry, asked.caller, asked.channel)
        return show_task(state, modern=False)

    async def _list(self, asked: Asked) -> bytes:
        """The tasks of this session; how each stands was last seen here."""
        self._need_handshake(asked)
        if asked.params.get("cursor") is not None:
            raise RpcError(INVALID_PARAMS, "Unknown cursor: the whole list comes in one page.")
        entries: Sequence[TaskEntry] = self._book.of_session(asked.caller, self._front.name)
        shown = [entry for entry in entries if self._may_know(entry, asked.caller)]
        return encode({"tasks": [msgspec.Raw(show_task(entry.state, modern=False)) for entry in shown]})

    async def _result(self, asked: Asked) -> bytes:
        """The result of a task, once there is one; what it asks until then is asked here."""
        entry = await self._find(asked)
        while not _is_settled(entry):
            if entry.state.requests and not self._book.is_elsewhere(entry):
                await self._ask_client(entry, asked.channel)
            else:
                await self._book.changed(entry, WAIT_S)
                entry = await self._find(asked)
        if entry.server_task:
            answer = await self._ask(entry, asked.caller, TaskChannel(asked.channel, entry.id), TaskAction.RESULT)
            return _of_task(encode_shown(answer), entry.id)
        if entry.state.error:
            said = msgspec.json.decode(entry.state.error)
            raise RpcError(said["code"], said["message"], said.get("data"))
        if not entry.result:
            raise RpcError(INTERNAL_ERROR, "This task was cancelled: it has no result.")
        return _of_task(entry.result, entry.id)

    async def _ask_client(self, entry: TaskEntry, channel: BackChannel) -> None:
        """Ask the client, in the middle of its request for the result, what the work wants to know."""
        wanted: dict[str, Any] = msgspec.json.decode(entry.state.requests)
        for key, question in wanted.items():
            params = encode(question.get("params") or {})
            answer = await TaskChannel(channel, entry.id).ask(question["method"], params)
            await self._book.answer(entry, {key: msgspec.json.decode(answer)})

    async def follow(
        self, task_id: str, caller: Caller, tell: Callable[[Mapping[str, Any]], None]
    ) -> Callable[[], Any]:
        """Tell of each change of a task until it ends, or what is returned is called; refused for one that is not this
        caller's."""
        entry = await self.find(task_id, caller)
        seen = await self.look(entry, caller)
        if seen[0].status.is_final:
            tell(task_notice(*seen))
            return _nothing
        return self._book.watch(self._tell_changes(entry, caller, seen[0], tell)).cancel

    async def _tell_changes(
        self, entry: TaskEntry, caller: Caller, seen: TaskState, tell: Callable[[Mapping[str, Any]], None]
    ) -> None:
        with suppress(RpcError):  # it is gone, or not this caller's any more
            while not seen.status.is_final:
                await self._book.changed(entry, min(WATCH_MOST_S, max(WATCH_LEAST_S, (seen.poll_ms or 0) / 1000)))
                entry = await self.find(entry.id, caller)
                state, result = await self.look(entry, caller)
                if _looks(state) != _looks(seen):
                    tell(task_notice(state, result))
                seen = state

    # Whose they are

    async def _find(self, asked: Asked) -> TaskEntry:
        """The task that a request is about; who may not use its tool any more learns no more than of any other."""
        self._need_tasks(asked)
        task_id = asked.params.get("taskId")
        if type(task_id) is not str or not task_id:
            raise RpcError(INVALID_PARAMS, f"{asked.method} needs the taskId of a task.")
        return await self.find(task_id, asked.caller)

    async def find(self, task_id: str, caller: Caller) -> TaskEntry:
        """The task of that id, if it is this caller's."""
        try:
            entry = await self._book.find(task_id, caller, self._front.name)
        except CoordinationUnavailable as error:
            raise RpcError(INTERNAL_ERROR, f"Whether there is such a task cannot be said now. {error}") from None
        if entry is None or not self._may_know(entry, caller):
            raise unknown_task()
        return entry

    def _may_know(self, entry: TaskEntry, caller: Caller) -> bool:
        if entry.shown in META_TOOLS:
            return True
        route = self._front.catalog.routes.get(entry.shown)
        return route is not None and decide(caller.grants, route.reach).is_listed

    @staticmethod
    def _need_tasks(asked: Asked) -> None:
        if not asked.asker.is_modern:
            TaskMethods._need_handshake(asked)
        elif not declares_tasks(asked.asker.capabilities):
            raise missing_capability()

    @staticmethod
    def _need_handshake(asked: Asked) -> None:
        if asked.asker.version != eras.LATEST_HANDSHAKE:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {asked.method}")

    async def _ask(
        self, entry: TaskEntry, caller: Caller, channel: BackChannel, action: TaskAction, **said: Any
    ) -> Result:
        """Ask the server whose task it is; by the same rules as the call itself."""
        crib = self._front.crib
        arguments = {"action": str(action), "taskId": entry.server_task, **said}
        timeout_s = self._book.left_s(entry) if action is TaskAction.RESULT else None
        answer = await crib.run(
            crib.request(entry.state.tool, arguments, caller, channel, timeout_s, kind=RequestKind.TASK)
        )
        error = answer.error
        if error is None or answer.task is not None or answer.raw is not None:
            return answer
        if error.code in ("TOOL_PERMISSION_DENIED", "TOOL_NOT_FOUND"):
            raise unknown_task()
        raise_rpc(error)
        raise RpcError(INTERNAL_ERROR, error.message, told(error))


def task_notice(state: TaskState, result: bytes) -> dict[str, Any]:
    """How a task stands, as a notification tells it."""
    shown: dict[str, Any] = msgspec.json.decode(show_task(state, result, modern=True))
    return {key: value for key, value in shown.items() if key != "resultType"}


def _looks(state: TaskState) -> tuple[object, ...]:
    return state.status, state.message, state.requests


def _nothing() -> None:
    """There is nothing to end."""


def unknown_task() -> RpcError:
    """There is no such task, or it is not this caller's: nobody learns which."""
    return RpcError(INVALID_PARAMS, "There is no such task (any more).")


def missing_capability() -> RpcError:
    """The client asks for what only one can that knows tasks."""
    needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return RpcError(MISSING_CLIENT_CAPABILITY, f"The client did not declare the extension {EXTENSION}.", needed)


def _is_settled(entry: TaskEntry) -> bool:
    """Whether nothing changes here any more: it has ended, or its server goes on with it."""
    return bool(entry.server_task) or entry.state.status.is_final


def _without_wish(call: Request) -> Request:
    if "task" not in call.more:
        return call
    return replace(call, more={key: value for key, value in call.more.items() if key != "task"})


def _ttl_s(wish: object) -> float | None:
    """How long a client of the handshake era wants its task kept; nonsense is no wish."""
    said = wish.get("ttl") if isinstance(wish, Mapping) else None
    is_wish = isinstance(said, int | float) and not isinstance(said, bool) and 0 < said < float("inf")
    return said / 1000 if is_wish and said is not None else None


def _encoded(result: Result) -> tuple[bytes, bytes]:
    try:
        return encode_shown(result), b""
    except RpcError as error:
        data = {} if error.data is None else {"data": error.data}
        return b"", encode({"code": error.code, "message": error.message, **data})


def _of_task(result: bytes, task_id: str) -> bytes:
    """A result of the handshake era with the task it is of."""
    shown = msgspec.json.decode(result, type=dict[str, Any])
    meta = shown.get("_meta")
    return encode({**shown, "_meta": {**(meta if isinstance(meta, dict) else {}), **related(task_id)}})


def as_callable(shown: dict[str, Any]) -> dict[str, Any]:
    """A tool as clients may call it: one that its server runs as a task only is followed for those that know none."""
    execution = shown.get("execution")
    if not isinstance(execution, Mapping) or execution.get("taskSupport") != "required":
        return shown
    return can_be_task(shown)


def can_be_task(shown: dict[str, Any]) -> dict[str, Any]:
    """The same tool, said to be one that a client of the handshake era may ask a task of."""
    execution = shown.get("execution")
    return {**shown, "execution": {**(execution if isinstance(execution, Mapping) else {}), "taskSupport": "optional"}}
