"""Calls that are answered later: who may ask about each, and the work on those that toolcrib does itself.

A client gets an id that says nothing and cannot be guessed, and that only its caller can use, at the address where it
was given out. Behind it is a server's own task, or a call that goes on here. With replicas, what is known of a task is
shared: any of them can say how it stands, and whoever runs it hears what is asked of it.
"""

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib.core.access import Caller
from toolcrib.core.clocks import Clock, Moments
from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import CoordinationUnavailable, RateLimited
from toolcrib.core.kinds import TaskAction, TaskStatus
from toolcrib.core.long_work import TaskState, moment
from toolcrib.core.names import TOOLS_CALL
from toolcrib.core.requests import Request, Result
from toolcrib.core.tasks import TaskScope
from toolcrib.core.topic import Topic
from toolcrib.crib.long_work import LongWork, Ways

TASKS_MAX = 10_000
"""Tasks of all callers."""
RESULTS_MAX = 64 * 1024 * 1024
"""Bytes of results that wait to be asked for; one caller gets a quarter."""
SHARED_MAX = 4 * 1024 * 1024
"""Bytes of a result that other replicas are told of."""
HANDED_ON_S = 86_400.0
"""How long a server's task can be asked about that says nothing of its end."""
POLL_MS = 1000
SWEEP_S = 20.0
ALIVE_S = 3 * SWEEP_S
"""How long other replicas believe that work goes on which they heard nothing of."""
TOPIC = "tasks"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """When a call becomes a task, and how many there may be for how long."""

    after_s: float = 3.0
    ttl_s: float = 3600.0
    per_caller: int = 200


class TaskEntry(msgspec.Struct):
    """A task as its client knows it."""

    caller: str
    address: str
    """The profile it was given out at."""
    session: str
    """A hash of the session it was begun in."""
    shown: str
    """The name that its tool was called by."""
    due: float
    """When it ends, in seconds since 1970."""
    state: TaskState
    server_task: str = ""
    """The server's own id of it; empty for work that toolcrib does."""
    result: bytes = b""

    @property
    def id(self) -> str:
        """What its client asks about it by."""
        return self.state.id


_entry = msgspec.msgpack.Decoder(TaskEntry)
_wish = msgspec.msgpack.Decoder(tuple[str, str, bytes])


class TaskBook:
    """All tasks that can be asked about."""

    def __init__(
        self, settings: TaskSettings, coordination: Coordination | None = None, now: Clock | None = None
    ) -> None:
        self.settings = settings
        self._shared, self._now = coordination, now or Moments()
        self._entries: dict[str, TaskEntry] = {}
        self._works: dict[str, LongWork] = {}
        self._counts, self._bytes = Counter[str](), Counter[str]()
        self._begun = Counter[str]()
        """Calls that may yet become tasks, by caller: each has its place already."""
        self._changes: dict[str, asyncio.Event] = {}
        self._unshared: dict[str, None] = {}
        self._is_sharing = False
        self._scope = TaskScope(_ignore)
        self._topic: Topic | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Hear what other replicas want of the work that is done here."""
        if self._shared is not None:
            self._topic = Topic(self._shared, TOPIC, self._hear, _nothing)
            await self._topic.open()

    # New ones

    def has_room(self, caller: str) -> bool:
        """Whether one more task can be kept for this caller."""
        if not self._is_room(caller):
            self._sweep()
        return self._is_room(caller)

    def _is_room(self, caller: str) -> bool:
        own, all_of_them = self._counts[caller] + self._begun[caller], len(self._entries) + self._begun.total()
        return own < self.settings.per_caller and all_of_them < TASKS_MAX

    async def run(self, call: Request, address: str, ways: Ways) -> Result:
        """Run a call for a client that knows tasks; what takes long, or asks in the middle of it, becomes one."""
        work = LongWork(call, ways, self._changed)
        work.may_go_out = self.has_room(call.caller.id)
        if ways.must_be_task and not work.may_go_out:
            return Result.failed(self._too_many())
        begun, caller = self._begun, call.caller.id
        begun[caller] += work.may_go_out
        try:
            return await self._run(call, address, ways, work)
        finally:
            begun[caller] -= work.may_go_out
            if not begun[caller]:
                del begun[caller]

    async def _run(self, call: Request, address: str, ways: Ways, work: LongWork) -> Result:
        running = work.running = self._scope.spawn(work.work(), "long-work")
        try:
            await asyncio.wait(
                {running, work.wanted}, timeout=self.settings.after_s, return_when=asyncio.FIRST_COMPLETED
            )
            if running.done() or not work.may_go_out:
                result: Result = await running
                was_refused = result.error is not None and result.raw is None  # by toolcrib, not by its tool
                if result.task is None and (was_refused or not ways.must_be_task):
                    return result
        except asyncio.CancelledError:
            running.cancel()
            raise
        return await self._give_out(call, address, ways, work)

    def _too_many(self) -> RateLimited:
        return RateLimited(
            f"This caller has {self.settings.per_caller} tasks, or all callers {TASKS_MAX}, which is all there may be.",
            hint="Call the tool without a task, or wait until some have ended.",
            details={"limit": "tasks"},
        )

    async def _give_out(self, call: Request, address: str, ways: Ways, work: LongWork) -> Result:
        running = work.running
        assert running is not None
        ttl_s = min(self.settings.ttl_s, ways.ttl_s or self.settings.ttl_s)
        entry = self._enter(call, address, ttl_s)
        work.may_last(ttl_s)
        work.is_out, work.task_id = True, entry.id
        self._works[entry.id] = work
        if running.done():
            self._ended(entry.id, ways, running)
        else:
            self._show(entry, work)
            running.add_done_callback(lambda done: self._ended(entry.id, ways, done))
        try:
            await self._write(entry)
        except asyncio.CancelledError:  # the client went before it knew of the task: nobody can ask about it
            self.forget(entry)
            raise
        return Result(raw=b"{}", result_type="task", task=entry.state)

    def _enter(self, call: Request, address: str, ttl_s: float) -> TaskEntry:
        task_id, caller, now = secrets.token_urlsafe(24), call.caller, self._now()
        created = moment(now)
        state = TaskState(
            task_id, created_at=created, updated_at=created, ttl_ms=int(ttl_s * 1000), poll_ms=POLL_MS, tool=call.name
        )
        entry = TaskEntry(caller.id, address, _session(caller), shown_name(call), now + ttl_s, state)
        self._entries[task_id] = entry
        self._counts[caller.id] += 1
        if self._sweeping is None:
            self._sweep_later()
        return entry

    # Their end

    def _ended(self, task_id: str, ways: Ways, running: "asyncio.Task[Result]") -> None:
        """Note what came of work; what its server goes on with is asked about there from now on."""
        self._works.pop(task_id, None)
        entry = self._entries.get(task_id)
        if entry is None:
            return
        if running.cancelled():
            self._set(entry, status=TaskStatus.CANCELLED, requests=b"")
            return
        result = running.result()
        if result.task is not None:
            self._hand_on(entry, result.task)
            return
        shown, error = ways.encode(result)
        if not self._has_space(entry, len(shown) + len(error)):
            shown, error = b"", _encode({"code": -32603, "message": "There was no room to keep the result."})
        status = TaskStatus.FAILED if error else TaskStatus.COMPLETED
        entry.result = shown
        self._bytes[entry.caller] += len(shown) + len(error)
        self._set(entry, status=status, requests=b"", error=error)

    def _hand_on(self, entry: TaskEntry, task: TaskState) -> None:
        """Its server has a task of its own: that is asked from now on, for as long as it says it can be."""
        ttl_ms = min(int(HANDED_ON_S * 1000), task.ttl_ms or int(HANDED_ON_S * 1000))
        entry.server_task, entry.due = task.id, self._now() + ttl_ms / 1000
        self._replace(entry, replace(self.as_shown(entry, task), ttl_ms=ttl_ms, requests=b"", error=b""))

    def as_shown(self, entry: TaskEntry, task: TaskState) -> TaskState:
        """A server's task as its client knows it."""
        known, updated = entry.state, task.updated_at or moment(self._now())
        return replace(task, id=entry.id, created_at=known.created_at, updated_at=updated, ttl_ms=known.ttl_ms)

    def _has_space(self, entry: TaskEntry, size: int) -> bool:
        own = self._bytes[entry.caller] + size
        return own <= RESULTS_MAX // 4 and self._bytes.total() + size <= RESULTS_MAX

    def _changed(self, work: LongWork) -> None:
        entry = self._entries.get(work.task_id)
        if entry is not None and work.task_id in self._works:
            self._show(entry, work)

    def _show(self, entry: TaskEntry, work: LongWork) -> None:
        requests = work.requests
        status = TaskStatus.INPUT_REQUIRED if requests else TaskStatus.WORKING
        self._set(entry, status=status, message=work.message, requests=requests)

    def _set(self, entry: TaskEntry, **changes: Any) -> None:
        self._replace(entry, replace(entry.state, updated_at=moment(self._now()), **changes))

    def _replace(self, entry: TaskEntry, state: TaskState) -> None:
        entry.state = state
        changed = self._changes.pop(entry.id, None)
        if changed is not None:
            changed.set()
        self._share(entry)

    # Asking about them

    async def find(self, task_id: str, caller: Caller, address: str) -> TaskEntry | None:
        """The task of that id, for nobody but its caller, and only where it was given out."""
        entry = self._entries.get(task_id) or await self._find_elsewhere(task_id)
        if entry is None or entry.caller != caller.id or entry.address != address or entry.due <= self._now():
            return None
        return entry

    async def _find_elsewhere(self, task_id: str) -> TaskEntry | None:
        packed = None if self._shared is None else await self._shared.get(_key(task_id))
        if packed is None:
            return None
        entry = _entry.decode(packed)
        entry.state = replace(entry.state, id=task_id)
        return entry

    def of_session(self, caller: Caller, address: str) -> list[TaskEntry]:
        """The tasks that were begun in this session, oldest first."""
        session, now = _session(caller), self._now()
        return [
            entry
            for entry in self._entries.values()
            if (entry.caller, entry.address, entry.session) == (caller.id, address, session) and entry.due > now
        ]

    def is_elsewhere(self, entry: TaskEntry) -> bool:
        """Whether the work is not done here."""
        return entry.id not in self._works

    def left_s(self, entry: TaskEntry) -> float:
        """How long it can still be asked about."""
        return max(1.0, entry.due - self._now())

    async def cancel(self, entry: TaskEntry) -> None:
        """Call work off that toolcrib does, here or at another replica; it may be done already."""
        work = self._works.get(entry.id)
        if work is not None and work.running is not None:
            work.running.cancel()
        else:
            await self._tell_others(entry, TaskAction.CANCEL, b"")

    async def answer(self, entry: TaskEntry, answers: Mapping[str, Any]) -> None:
        """Answer what work asks that toolcrib does, here or at another replica."""
        work = self._works.get(entry.id)
        if work is None:
            await self._tell_others(entry, TaskAction.UPDATE, _encode(answers))
            return
        work.answer(answers)
        self._show(entry, work)

    def forget(self, entry: TaskEntry) -> None:
        """There is no such task any more."""
        if self._entries.pop(entry.id, None) is None:
            return
        work = self._works.pop(entry.id, None)
        if work is not None and work.running is not None:
            work.running.cancel()
        self._counts[entry.caller] -= 1
        self._bytes[entry.caller] -= len(entry.result) + len(entry.state.error)
        for counter in (self._counts, self._bytes):
            if counter[entry.caller] <= 0:
                del counter[entry.caller]

    async def changed(self, entry: TaskEntry, wait_s: float) -> None:
        """Return when work that is done here stands otherwise, at the latest after that time."""
        if entry.id not in self._works:
            await asyncio.sleep(wait_s)
            return
        event = self._changes.setdefault(entry.id, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await event.wait()

    def watch(self, looking: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Look at a task in the background, until that is cancelled."""
        return self._scope.spawn(looking, "task-watch")

    def see_off(self, is_current: Callable[[Caller], bool]) -> None:
        """End the work for callers that may not come in any more."""
        for work in self._works.values():
            if work.running is not None and not is_current(work.caller):
                work.running.cancel()

    # Other replicas

    async def _write(self, entry: TaskEntry) -> None:
        """Have every replica know of a task before its client does; one that cannot be told must do without."""
        if self._shared is None:
            return
        is_over = entry.server_task or entry.state.status.is_final
        lasts_s = max(1.0, entry.due - self._now()) if is_over else ALIVE_S
        packed = msgspec.msgpack.encode(_shared_part(entry))
        with suppress(CoordinationUnavailable):
            await self._shared.put(_key(entry.id), packed, lasts_s)

    def _share(self, entry: TaskEntry) -> None:
        """Tell the other replicas soon; of several changes in the meantime, the last."""
        if self._shared is None:
            return
        self._unshared[entry.id] = None
        if not self._is_sharing:
            self._is_sharing = True
            self._scope.spawn(self._share_all(), "tasks.share")

    async def _share_all(self) -> None:
        try:
            while self._unshared:
                task_id = next(iter(self._unshared))
                del self._unshared[task_id]
                entry = self._entries.get(task_id)
                if entry is not None:
                    await self._write(entry)
        finally:
            self._is_sharing = False

    async def _tell_others(self, entry: TaskEntry, action: TaskAction, said: bytes) -> None:
        if self._topic is not None and not entry.state.status.is_final:
            await self._topic.tell(msgspec.msgpack.encode((_key(entry.id), str(action), said)))

    def _hear(self, body: bytes) -> None:
        """Do what another replica's client wants of work that is done here; that replica has looked whose it is."""
        try:
            key, action, said = _wish.decode(body)
            answers = msgspec.json.decode(said, type=dict[str, Any]) if said else {}
        except msgspec.DecodeError:
            return
        work = next((work for task_id, work in self._works.items() if _key(task_id) == key), None)
        if work is None or work.running is None:
            return
        if action == TaskAction.CANCEL:
            work.running.cancel()
        else:
            work.answer(answers)
            self._changed(work)

    # Time

    def _sweep_later(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep_again)

    def _sweep_again(self) -> None:
        self._sweeping = None
        self._sweep()
        for task_id in self._works:  # so that others see it goes on
            self._share(self._entries[task_id])
        if self._entries:
            self._sweep_later()

    def _sweep(self) -> None:
        now = self._now()
        for entry in [entry for entry in self._entries.values() if entry.due <= now]:
            self.forget(entry)

    async def close(self) -> None:
        """End what still runs."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._scope.close()
        if self._topic is not None:
            await self._topic.close()


def shown_name(call: Request) -> str:
    """What a client called the tool by; one that it found and had called by another tool, by its own name."""
    named = call.arguments.get("name")
    return named if call.name == TOOLS_CALL and type(named) is str else call.name


def _session(caller: Caller) -> str:
    return hashlib.sha256(caller.session.encode()).hexdigest()[:40] if caller.session else ""


def _key(task_id: str) -> str:
    """What others keep a task by: its id lets its client in, so only a hash goes out."""
    return f"task:{hashlib.sha256(task_id.encode()).hexdigest()[:40]}"


def _shared_part(entry: TaskEntry) -> TaskEntry:
    """What other replicas are told: all but the id, and no result that is too large for what they share."""
    if len(entry.result) <= SHARED_MAX:
        return replace(entry, state=replace(entry.state, id=""))
    error = _encode({"code": -32603, "message": "The result is too large to be had from another replica."})
    return replace(entry, state=replace(entry.state, id="", status=TaskStatus.FAILED, error=error), result=b"")


def _ignore(name: str, error: BaseException) -> None:
    """What fails in work is its result; what cannot be shared now is shared later."""
    del name, error


def _nothing() -> None:
    """What others missed they will be told again."""
