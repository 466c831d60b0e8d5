"""The audit log: entries go into a queue, one thread takes everything that is there and commits it at once.

Under load many calls wait for one fsync. A log that cannot be written keeps what was noted in memory, up to a limit,
tries again, and says so; what has to be written before something may happen is refused, for everybody who waits and
not only for the first batch of them. A place on the network has a time limit: whoever waits there longer is refused,
whatever the writer is still waiting for. Where a connection was lost while a batch was committed, nothing else is
written before it is known what became of that batch.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

import msgspec

from toolcrib.core.audit import GAP, AuditEntry, AuditStatus
from toolcrib.core.errors import AuditUnavailable, ToolcribError
from toolcrib.stores.audit.log import AppendLog, AuditPlace, Head, InDoubtError, body_of
from toolcrib.stores.sqlite_file import reason_of

Waiting = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]
Item = tuple[bytes, Waiting | None]
"""An entry is encoded where it is made: what the two threads, and so two processors, share of it is one block of
bytes. Handing over the objects costs the event loop as much again as the log itself."""


class AuditSettings(msgspec.Struct, frozen=True):
    """How the log is written."""

    linger_s: float = 0.05
    """How long entries nobody waits for are gathered before they are written together."""
    retry_s: float = 1.0
    batch_max: int = 1_000
    backlog_max: int = 10_000


class Doubt(msgspec.Struct, frozen=True):
    """A batch whose commit was not answered."""

    end: Head
    """What the chain ends with if it counts."""
    noted: Sequence[Item]
    """What is to be written again if it does not; whoever waited was refused."""
    written: int
    missing: int


class QueuedAudit:
    """An ``Audit`` in a place that several processes may share. Nothing is opened before the first entry."""

    def __init__(
        self,
        place: AuditPlace,
        clock_ns: Callable[[], int],
        on_trouble: Callable[[str], None] | None = None,
        settings: AuditSettings | None = None,
    ) -> None:
        """``on_trouble`` is told in the writer's thread: why the log cannot be written; nothing when it can again."""
        self.place = place
        self._clock_ns, self._on_trouble = clock_ns, on_trouble
        self._settings = settings or AuditSettings()
        self._queue: deque[Item] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._rung = self._urgent = self._closing = False
        self._thread: threading.Thread | None = None
        self._log: AppendLog | None = None
        self._doubt: Doubt | None = None
        self._written = self._failures = self._lost = self._lost_told = self._in_hand = 0
        self._problem = ""

    def note(self, entry: AuditEntry) -> None:
        """Have it written soon; without room in the backlog it is counted, and the log will say so."""
        size = len(self._queue)
        if size >= self._settings.backlog_max or self._closing:
            self._lost += 1
            return
        self._queue.append((body_of(self._clock_ns(), entry), None))
        if not self._rung:
            self._rung = True
            self._ring_later()
        elif size == self._settings.batch_max:  # an event loop that is busy for long does not get to its timers
            self._ring()

    async def commit(self, entry: AuditEntry) -> None:
        """Return when the entry is on disk; all that wait at the same time share one write."""
        if len(self._queue) >= self._settings.backlog_max or self._closing:
            raise self._unavailable(self._problem or "more waits to be written than the disk takes")
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._queue.append((body_of(self._clock_ns(), entry), (loop, done)))
        if not self._urgent:
            self._rung = self._urgent = True
            loop.call_soon(self._ring)  # after all that are ready to run now, so that they share the write
        limit_s = self.place.timeout_s
        if limit_s is None:
            await done
            return
        timer = loop.call_later(limit_s, self._give_up, done)
        try:
            await done
        finally:
            timer.cancel()

    def _give_up(self, done: "asyncio.Future[None]") -> None:
        """Refuse one who has waited for as long as the place may take; the entry may be written all the same."""
        if not done.done():
            reason = self._problem or f"it does not answer within {self.place.timeout_s:g} s"
            done.set_exception(self._unavailable(reason))

    def status(self) -> AuditStatus:
        """How it is doing."""
        return AuditStatus(
            enabled=True,
            opened=self._written > 0,
            written=self._written,
            backlog=len(self._queue) + self._in_hand + (len(self._doubt.noted) if self._doubt else 0),
            failures=self._failures,
            lost=self._lost,
            problem=self._problem,
            place=str(self.place),
        )

    async def close(self) -> None:
        """Write what waits, then stop; what cannot be written now is lost, and told."""
        self._closing = True
        if self._thread is None and not self._queue:
            return
        self._ring()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _ring_later(self) -> None:
        try:
            asyncio.get_running_loop().call_later(self._settings.linger_s, self._ring)
        except RuntimeError:  # not in an event loop
            self._ring()

    def _ring(self) -> None:
        """Wake the writer."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolcrib-audit", daemon=True)
            self._thread.start()
        self._bell.put(None)

    # The writer's thread

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with suppress(Empty):
                self._bell.get(timeout=self._settings.retry_s if self._problem else None)
            is_last = self._closing
            self._rung = self._urgent = False  # whoever comes from here on rings again
            self._write_what_waits()
        self._leave()

    def _write_what_waits(self) -> None:
        """Write what is there now; what comes meanwhile rings again, and is gathered until then. Whoever took single
        entries as they come would fight with the event loop over the interpreter for each of them."""
        try:
            self._clear_doubt()
        except Exception as error:  # the edge of the disk, here as below
            self._failed((), error)
            return
        left = len(self._queue)
        while left > 0:
            batch = self._take(min(left, self._settings.batch_max))
            left -= len(batch)
            self._in_hand = len(batch)
            is_fine = self._write(batch)
            self._in_hand = 0
            if not is_fine:
                return

    def _take(self, count: int) -> list[Item]:
        return [self._queue.popleft() for _ in range(count)]

    def _write(self, batch: list[Item]) -> bool:
        missing = self._lost - self._lost_told
        bodies = [body for body, _ in batch]
        if missing:
            bodies.append(body_of(self._clock_ns(), AuditEntry(GAP, details={"lost": missing})))
        try:
            self._opened().append(bodies)
        except Exception as error:  # the edge of the disk: whatever goes wrong there is told to whoever waits
            self._failed(batch, error, missing)
            return False
        self._lost_told += missing
        self._written += len(bodies)
        self._change(problem="")
        _answer(batch, None)
        return True

    def _opened(self) -> AppendLog:
        if self._log is not None and not self._log.is_in_place:
            self._log.close()
            self._log = None
        if self._log is None:
            self._log = self.place.open()
        return self._log

    def _failed(self, batch: Sequence[Item], error: Exception, missing: int = 0) -> None:
        """Keep what was noted, refuse all who wait, and begin anew with a fresh connection.

        Whoever waits behind the batch is refused with it: the next attempt begins with what was noted, and that alone
        may be more than a batch.
        """
        if self._log is not None:
            self._log.close()
        self._failures += 1
        self._in_hand = 0
        behind = self._take(len(self._queue))
        kept = _noted(batch)
        if isinstance(error, InDoubtError):
            self._doubt = Doubt(error.end, kept, len(batch) + bool(missing), missing)
            kept = []
        self._queue.extendleft(reversed([*kept, *_noted(behind)]))
        self._change(problem=_reason(error))
        _answer([*batch, *behind], self._unavailable(self._problem))

    def _clear_doubt(self) -> None:
        """Find out whether a batch counts, and write it again only if it does not."""
        doubt = self._doubt
        if doubt is None:
            return
        if self._opened().has(doubt.end):
            self._written += doubt.written
            self._lost_told += doubt.missing
        else:
            self._queue.extendleft(reversed(doubt.noted))
        self._doubt = None
        self._change(problem="")

    def _leave(self) -> None:
        left = [*(self._doubt.noted if self._doubt else ()), *self._queue]
        if left:
            self._lost += len(left)
            self._change(problem=f"{self._problem}; {len(left)} entries were not written")
            _answer(left, self._unavailable(self._problem))
        if self._log is not None:
            self._log.close()

    def _unavailable(self, reason: str) -> AuditUnavailable:
        return _unavailable(reason, self.place.remedy)

    def _change(self, *, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            if self._on_trouble is not None:
                self._on_trouble(problem)


def _noted(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item[1] is None]


def _answer(batch: Sequence[Item], error: AuditUnavailable | None) -> None:
    """Tell all who wait, with one call per event loop."""
    waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for _, waiter in batch:
        if waiter is not None:
            waiting.setdefault(waiter[0], []).append(waiter[1])
    for loop, futures in waiting.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, futures, error)


def _settle(futures: Sequence["asyncio.Future[None]"], error: AuditUnavailable | None) -> None:
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(_unavailable(error.details["reason"], error.hint))


def _unavailable(reason: str, remedy: str) -> AuditUnavailable:
    return AuditUnavailable(f"The audit log cannot be written: {reason}.", hint=remedy, details={"reason": reason})


def _reason(error: Exception) -> str:
    """The trouble in plain words, without a path."""
    if isinstance(error, ToolcribError):
        return error.message.rstrip(".")
    return reason_of(error)
