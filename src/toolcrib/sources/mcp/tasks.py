"""Long work of a server: handed on to a client that knows tasks, or followed here until it ends.

A client of the server's own era gets the task and asks about it itself. For everybody else the server is asked again
and again, and the call is answered with what comes of it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from toolcrib.core.clocks import Clock, elapsed
from toolcrib.core.errors import ConnectionLost, OutcomeUnknown, ProtocolError, RemoteError, ToolcribError, ToolFailed
from toolcrib.core.kinds import TaskAction, TaskStatus
from toolcrib.core.long_work import TaskState, declares_tasks, with_tasks
from toolcrib.core.offers import RequestKind, Tool
from toolcrib.core.requests import PROGRESS, BackChannel, Request
from toolcrib.core.source import Listing
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp.questions import AskingRule, answer_requests
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import INVALID_PARAMS, encode
from toolcrib.wire.results import ResultHead, read_head
from toolcrib.wire.tasks import TTL_MAX_MS, read_created, read_task

FEATURE = "tasks"
"""What a server that knows tasks has among its features."""
TTL_MS = 3_600_000
"""How long a server of the handshake era is asked to keep work that is followed here."""
POLL_FIRST_S, POLL_LEAST_S, POLL_MOST_S = 0.25, 0.1, 30.0
POLL_GROWTH, JITTER = 1.5, 0.1
"""Servers that do not say how often to ask are asked less and less often; and never all at the same moment."""
QUESTIONS_MAX = 100
"""Questions that the work on one call may ask a client."""
CANCEL_S = 5.0
"""How long a server has to hear that its work is not wanted any more."""
SAME_FOR_S = 0.05
"""An answer so young is given to whoever asks the same: clients may ask as often as they like, servers are spared."""
SAME_MAX, SAME_BYTES = 200, 16 * 1024
"""How many such answers are kept; larger ones are not."""

Ask = Callable[[Request, TaskAction, Mapping[str, Any]], Coroutine[Any, Any, Raw]]
"""Asks the server about its work, within the time of the request that wants to know."""


_Whose = tuple[str, str, str]


@dataclass(slots=True)
class _Followed:
    """Work that is followed here."""

    task_id: str
    pause_s: float = POLL_FIRST_S
    said: tuple[TaskStatus, str] = TaskStatus.WORKING, ""
    told: int = 0
    answered: set[str] = field(default_factory=set)

    def next_pause_s(self, state: TaskState) -> float:
        """How long to wait before asking again."""
        if state.poll_ms is not None:
            self.pause_s = state.poll_ms / 1000
        else:
            self.pause_s *= POLL_GROWTH
        pause_s = min(POLL_MOST_S, max(POLL_LEAST_S, self.pause_s))
        return pause_s * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311


class ServerTasks:
    """The long work of one server."""

    def __init__(
        self,
        server: str,
        ask: Ask,
        asking: AskingRule | None = None,
        *,
        now: Clock = elapsed,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._server, self._ask, self._now, self._sleep = server, ask, now, sleep
        self._rule = asking or AskingRule()
        self._is_modern, self.polls = False, False
        """Whether a server of the stateless era may answer with a task that a client knows nothing of."""
        self.known: frozenset[str] = frozenset()
        """The tools of the handshake era that can be run as tasks."""
        self._required: frozenset[str] = frozenset()
        self._asking = TaskScope(_ignore)
        self._latest: dict[_Whose, tuple[float, asyncio.Task[Raw]]] = {}
        """When each task was last asked about, and by what its answer comes."""

    def adopt(self, listing: Listing) -> None:
        """Take over what a discovery found: whether the server knows tasks, and which tools are run as such."""
        self._is_modern, is_known = eras.is_modern(listing.era), FEATURE in listing.features
        self.polls = self._is_modern and is_known
        support = {tool.name: task_support(tool) for tool in listing.tools} if is_known else {}
        self.known = frozenset(name for name, said in support.items() if said)
        self._required = frozenset(name for name, said in support.items() if said == "required")

    def declare(self, channel: BackChannel, capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a server of the stateless era is told that the client can do: of tasks, what toolcrib does for it.

        A client of that era speaks for itself: one that does not know tasks shall hear that it would have to.
        """
        return with_tasks(capabilities) if self.polls and not channel.takes_input_required else capabilities

    def wish(self, call: Request, more: Mapping[str, Any]) -> Mapping[str, Any]:
        """The further fields of a call: in the handshake era a task is asked for, where the tool knows such, and its
        client does or the tool knows nothing else."""
        wished, channel = more.get("task"), call.channel
        kept = {key: value for key, value in more.items() if key != "task"} if "task" in more else more
        if self._is_modern or call.target not in self.known or call.kind is not RequestKind.CALL:
            return kept
        is_welcome = "task" in more or (channel.takes_input_required and declares_tasks(channel.capabilities))
        return {**kept, "task": {"ttl": _ttl_ms(wished)}} if is_welcome or call.target in self._required else kept

    def created(self, call: Request, head: ResultHead, raw: Raw) -> TaskState | None:
        """The task that the server made of a call, if it did."""
        is_modern = head.result_type == "task"
        if not is_modern and (self._is_modern or not self.known):
            return None
        found = read_created(raw, modern=is_modern)
        return None if found is None else replace(found, tool=call.name)

    def is_handed_on(self, call: Request) -> bool:
        """Whether the client asks about the work itself: it knows tasks, in the way its server does."""
        channel = call.channel
        if channel.takes_input_required:
            return self._is_modern and declares_tasks(channel.capabilities)
        return not self._is_modern and "task" in call.more

    async def settle(self, call: Request, created: TaskState) -> tuple[Raw | bytes, ResultHead]:
        """What comes of the work, followed until it ends; work whose call is given up is called off."""
        try:
            result = await self._follow(call, created)
        except asyncio.CancelledError:
            self._call_off(call, created.id)
            raise
        return result, read_head(result)

    async def _follow(self, call: Request, state: TaskState) -> Raw | bytes:
        followed, result, context = _Followed(state.id), b"", call.context
        if context.is_long is not None:
            context.is_long()
        while not state.status.is_final:
            _tell(call, followed, state)
            if state.status is TaskStatus.INPUT_REQUIRED and not self._is_modern:
                return await self._again(call, TaskAction.RESULT, state.id)  # there it asks, and waits for the end
            if state.requests:
                await self._answer(call, followed, state)
            await self._sleep(followed.next_pause_s(state))
            state, result = await self._look(call, state.id)
            context.progressed_at = asyncio.get_running_loop().time()  # it is being worked on
        if not self._is_modern:
            return await self._again(call, TaskAction.RESULT, state.id)
        return _outcome(call, state, result)

    async def _look(self, call: Request, task_id: str) -> tuple[TaskState, bytes]:
        raw = await self._again(call, TaskAction.GET, task_id)
        state, result = read_task(raw)
        if state.id != task_id:
            raise ProtocolError(f"Server {self._server!r} was asked about one task and answered about another.")
        return state, result

    async def _again(self, call: Request, action: TaskAction, task_id: str) -> Raw:
        """Ask until there is an answer: work outlives a connection."""
        while True:
            try:
                return await self._ask(call, action, {"taskId": task_id})
            except ConnectionLost:
                await self._sleep(POLL_LEAST_S)
            except RemoteError as error:
                if error.rpc_code != INVALID_PARAMS or action is TaskAction.RESULT:
                    raise
                raise OutcomeUnknown(
                    f"Server {self._server!r} does not know its work on {call.name} any more: {error.message}",
                    hint="Check whether it took effect before calling it again.",
                ) from error

    async def _answer(self, call: Request, followed: _Followed, state: TaskState) -> None:
        """Have the client answer what was not asked before, and pass that on."""
        asked: dict[str, Any] = msgspec.json.decode(state.requests)
        fresh = {key: asked[key] for key in asked if key not in followed.answered}
        if not fresh:
            return
        followed.answered |= fresh.keys()
        if len(followed.answered) > QUESTIONS_MAX:
            raise ProtocolError(f"The server of {call.name} asked back more than {QUESTIONS_MAX} times.")
        answers = await answer_requests(self._rule.around(call), fresh)
        await self._ask(call, TaskAction.UPDATE, {"taskId": state.id, "inputResponses": answers})

    def _call_off(self, call: Request, task_id: str) -> None:
        async def tell() -> None:
            with suppress(ToolcribError, TimeoutError):
                async with asyncio.timeout(CANCEL_S):
                    await self._ask(call, TaskAction.CANCEL, {"taskId": task_id})

        with suppress(RuntimeError):  # the source is closed: so is the server
            self._asking.spawn(tell(), f"cancel-task-{self._server}")

    async def act(self, call: Request) -> tuple[TaskState | None, Raw | bytes]:
        """Do what a client asks of work that was handed on to it: how it stands, if that was asked, and its result."""
        said: Mapping[str, Any] = call.arguments
        action, task_id = TaskAction(said["action"]), str(said["taskId"])
        match action:
            case TaskAction.GET:
                state, result = read_task(await self._shared(call, task_id))
                if state.id != task_id:
                    raise ProtocolError(f"Server {self._server!r} was asked about one task and answered about another.")
                return replace(state, tool=call.name), result
            case TaskAction.RESULT:
                result = await self._ask(call, action, {"taskId": task_id})
                self._latest.pop(_whose(call, task_id), None)  # it is over: what was known of it is old
                return None, result
            case TaskAction.CANCEL | TaskAction.UPDATE:
                self._latest.pop(_whose(call, task_id), None)
                more = {} if action is TaskAction.CANCEL else {"inputResponses": said.get("inputResponses") or {}}
                await self._ask(call, action, {"taskId": task_id, **more})
                return None, b"{}"

    async def _shared(self, call: Request, task_id: str) -> Raw:
        """The latest answer to how work stands, if it is young or still on its way: many who ask at once ask once."""
        whose = _whose(call, task_id)
        known = self._latest.get(whose)
        if known is None or (known[1].done() and self._now() - known[0] >= SAME_FOR_S):
            if len(self._latest) >= SAME_MAX:
                del self._latest[next(iter(self._latest))]
            asked = self._asking.spawn(self._ask(call, TaskAction.GET, {"taskId": task_id}), f"task-{self._server}")
            known = self._latest[whose] = self._now(), asked
        raw = await asyncio.shield(known[1])
        if len(raw) > SAME_BYTES and self._latest.get(whose) is known:
            del self._latest[whose]
        return raw

    async def close(self) -> None:
        """Tell nobody any more."""
        await self._asking.close()


def _whose(call: Request, task_id: str) -> _Whose:
    """Whose task it is: processes that do not know each other, one for each caller or session, give the same ids."""
    return call.caller.id, call.caller.session, task_id


def task_support(tool: Tool) -> str:
    """Whether a tool of the handshake era is run as a task: ``required``, ``optional``, or not at all."""
    execution = tool.extra.get("execution")
    said = execution.get("taskSupport") if isinstance(execution, Mapping) else None
    return said if said in ("required", "optional") else ""


def _ttl_ms(wished: object) -> int:
    """How long a task shall be kept, as its client wishes; what is no such wish is no reason to refuse the call."""
    said = wished.get("ttl") if isinstance(wished, Mapping) else None
    is_wish = isinstance(said, int | float) and 0 < said < float("inf")
    return min(TTL_MAX_MS, max(1, int(said))) if is_wish and said is not None else TTL_MS


def _tell(call: Request, followed: _Followed, state: TaskState) -> None:
    """Show what changed as progress."""
    said = state.status, state.message
    if said == followed.said or not call.channel.wants_progress:
        return
    followed.said, followed.told = said, followed.told + 1
    shown = {"progressToken": 0, "progress": followed.told, "message": state.message or str(state.status)}
    call.channel.notify(PROGRESS, encode(shown))


def _outcome(call: Request, state: TaskState, result: bytes) -> bytes:
    """The result of work that has ended; what became of it otherwise is raised."""
    match state.status:
        case TaskStatus.COMPLETED:
            if not result:
                raise ProtocolError(f"The server of {call.name} says that it is done, and gives no result.")
            return result
        case TaskStatus.FAILED:
            said = msgspec.json.decode(state.error)
            raise RemoteError(said["code"], said["message"], data=said.get("data"))
        case _:
            why = f": {state.message}" if state.message else ""
            raise ToolFailed(f"The server called off its work on {call.name}{why}.")


def _ignore(name: str, error: BaseException) -> None:
    """Who asked was told; work that could not be called off ends by itself some day."""
    del name, error
